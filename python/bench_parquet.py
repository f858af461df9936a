"""Encrypted Parquet files into GPU memory, beside a plain pinned copy: run it on a machine with a GPU,
PyTorch and pyarrow.

    python -P python/bench_parquet.py [--gib 1] [--folder /dev/shm]
"""

from __future__ import annotations

import argparse
import os
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from warplock import parquet

TURNS = 7


def seconds(work: Callable[[], object]) -> float:
    """The median of several turns after a first one."""
    taken = []
    for _ in range(TURNS + 1):
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken[1:])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gib", type=float, default=1)
    parser.add_argument("--folder", default="/dev/shm")
    given = parser.parse_args()
    rows = int(given.gib * (1 << 30)) // 8
    table = pa.table({"x": np.random.default_rng(1).random(rows)})
    key = os.urandom(32)
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        for name, options in (("default pages", {}), ("pages of 8 KiB", {"data_page_size": 8192, "write_batch_size": 1024})):
            plain, sealed = pathlib.Path(folder, "plain"), pathlib.Path(folder, "sealed")
            pq.write_table(table, plain, compression="none", use_dictionary=False, **options)
            sealed.unlink(missing_ok=True)
            parquet.encrypt(plain, key, out=sealed)
            size = sealed.stat().st_size
            pinned = torch.empty(size, dtype=torch.uint8, pin_memory=True)
            there = torch.empty(size, dtype=torch.uint8, device="cuda")
            copy = seconds(lambda: there.copy_(pinned, non_blocking=True))
            data = sealed.read_bytes()
            from_path = seconds(lambda: parquet.decrypt(sealed, key, device=0))
            from_bytes = seconds(lambda: parquet.decrypt(data, key, device=0))
            on_host = seconds(lambda: parquet.decrypt(data, key))
            del data, pinned, there
            print(
                f"{name}: {size / 1e9:.2f} GB; pinned copy {size / copy / 1e9:.1f} GB/s; from a path "
                f"{size / from_path / 1e9:.1f} ({copy / from_path:.2f}); from bytes "
                f"{size / from_bytes / 1e9:.1f} ({copy / from_bytes:.2f}); to host memory "
                f"{size / on_host / 1e9:.1f}"
            )


if __name__ == "__main__":
    main()
