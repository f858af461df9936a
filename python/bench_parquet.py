"""Encrypted Parquet files on this machine, with pyarrow: read beside pyarrow's own decryption, and, where
there are PyTorch and a GPU, decrypted into its memory beside a plain pinned copy.

    python -P python/bench_parquet.py [--gib 1] [--folder /dev/shm]
"""

from __future__ import annotations

import argparse
import os
import pathlib
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.parquet.encryption import create_decryption_properties, create_encryption_properties

from warplock import parquet

TURNS = 7
PLAIN: dict[str, Any] = {"compression": "none", "use_dictionary": False}


def seconds(work: Callable[[], object]) -> float:
    """Of one call, with the freeing of its result left out."""
    start = time.perf_counter()
    made = work()
    taken = time.perf_counter() - start
    del made
    return taken


def median(work: Callable[[], object]) -> float:
    """The median of several turns after a first one."""
    return statistics.median([seconds(work) for _ in range(TURNS + 1)][1:])


def reading(table: pa.Table, folder: str) -> None:
    """Into tables, by the cores that this process may use."""
    key = os.urandom(32)
    sealed, plain = pathlib.Path(folder, "sealed"), pathlib.Path(folder, "plain")
    pq.write_table(table, plain, **PLAIN)
    pq.write_table(table, sealed, encryption_properties=create_encryption_properties(key), **PLAIN)
    data = sealed.read_bytes()

    def theirs(**given: Any) -> pa.Table:
        return pq.read_table(sealed, decryption_properties=create_decryption_properties(key), **given)

    works = {
        "pyarrow decrypts": theirs,
        "pyarrow decrypts, pre_buffer=False": lambda: theirs(pre_buffer=False),
        "parquet.open": lambda: pq.read_table(parquet.open(sealed, key)),
        "parquet.open, pre_buffer=False": lambda: pq.read_table(
            parquet.open(sealed, key), pre_buffer=False
        ),
        "parquet.decrypt(bytes), then read": lambda: pq.read_table(
            pa.BufferReader(parquet.decrypt(data, key))
        ),
        "parquet.decrypt(path), then read": lambda: pq.read_table(
            pa.BufferReader(parquet.decrypt(sealed, key))
        ),
        "parquet.decrypt(bytes)": lambda: parquet.decrypt(data, key),
        "a plain file, read": lambda: pq.read_table(plain),
        "a copy of the bytes": lambda: bytearray(data),
    }
    assert parquet.decrypt(data, key) == parquet.decrypt(sealed, key)
    assert pq.read_table(parquet.open(sealed, key)).equals(table)
    times: dict[str, list[float]] = {name: [] for name in works}
    # What ran before decides which memory is at hand, so the order changes.
    for _ in range(TURNS):
        for name in random.sample(list(works), len(works)):
            times[name].append(seconds(works[name]))
    base = min(statistics.median(times[name]) for name in list(works)[:2])
    print(f"{len(data) / 1e9:.2f} GB, {len(os.sched_getaffinity(0))} cores; over the better of pyarrow's:")
    for name, taken in times.items():
        each = statistics.median(taken)
        print(f"  {name:36} {each * 1e3:6.0f} ms  {base / each:5.2f}  ({min(taken) * 1e3:.0f} ms)")


def to_gpu(table: pa.Table, folder: str) -> None:
    import torch

    def median_there(work: Callable[[], object]) -> float:
        def whole() -> object:
            made = work()
            torch.cuda.synchronize()
            return made

        return median(whole)

    key = os.urandom(32)
    for name, options in (
        ("default pages", {}),
        ("pages of 8 KiB", {"data_page_size": 8192, "write_batch_size": 1024}),
    ):
        plain, sealed = pathlib.Path(folder, "plain"), pathlib.Path(folder, "sealed")
        pq.write_table(table, plain, **PLAIN, **options)
        parquet.encrypt(plain, key, out=sealed, replace=True)
        size = sealed.stat().st_size
        pinned = torch.empty(size, dtype=torch.uint8, pin_memory=True)
        there = torch.empty(size, dtype=torch.uint8, device="cuda")
        copy = median_there(lambda: there.copy_(pinned, non_blocking=True))
        data = sealed.read_bytes()
        from_path = median_there(lambda: parquet.decrypt(sealed, key, device=0))
        from_bytes = median_there(lambda: parquet.decrypt(data, key, device=0))
        del data, pinned, there
        print(
            f"{name}: {size / 1e9:.2f} GB; pinned copy {size / copy / 1e9:.1f} GB/s; from a path "
            f"{size / from_path / 1e9:.1f} ({copy / from_path:.2f}); from bytes "
            f"{size / from_bytes / 1e9:.1f} ({copy / from_bytes:.2f})"
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gib", type=float, default=1)
    parser.add_argument("--folder", default="/dev/shm")
    given = parser.parse_args()
    rows = int(given.gib * (1 << 30)) // 8
    table = pa.table({"x": np.random.default_rng(1).random(rows)})
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        reading(table, folder)
        try:
            import torch
        except ImportError:
            print("skipped: no PyTorch")
            return
        if not torch.cuda.is_available():
            print("skipped: no GPU")
            return
        to_gpu(table, folder)


if __name__ == "__main__":
    main()
