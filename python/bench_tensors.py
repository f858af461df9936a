"""Compares encrypted safetensors with plain ones, in one run on the same bytes.

Usage: python -P python/bench_tensors.py [--gib 8] [--folder /dev/shm] [--readers 8] [--rounds 5]

Needs PyTorch and safetensors; without a GPU only the rows of host memory are measured. The folder
needs three times the size. tensorizer and cryptotensors are compared where they are installed, on
1 GiB. Rates are GB/s of tensors, the best of the rounds, which take turns.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

import safetensors.torch
import torch

from warplock import safetensors as ours

KEY = bytes(range(32))
MIB = 1 << 20
SLOT = 8 * MIB


def model(total: int, device: str) -> dict[str, torch.Tensor]:
    """Like the weights of a language model: large matrices and small vectors."""
    tensors = {}
    for number in itertools.count():
        rows = min(128 * MIB, total) // 2 // 4096
        if rows == 0:
            return tensors
        name = f"model.layers.{number}"
        data = torch.randint(-1000, 1000, (rows, 4096), dtype=torch.int16, device=device)
        tensors[f"{name}.weight"] = data.view(torch.bfloat16)
        tensors[f"{name}.norm"] = torch.ones(4096, dtype=torch.float32, device=device)
        total -= data.nbytes


def plain_ring(path: str, readers: int) -> Callable[[], torch.Tensor]:
    """The plain file's bytes to the GPU, through pinned buffers that are allocated before."""
    size = os.path.getsize(path)
    slots = [torch.empty(SLOT, dtype=torch.uint8, pin_memory=True) for _ in range(2 * readers)]
    views = [memoryview(slot.numpy()) for slot in slots]
    streams = [torch.cuda.Stream() for _ in slots]

    def load() -> torch.Tensor:
        to = torch.empty(size, dtype=torch.uint8, device="cuda")
        torch.cuda.synchronize()
        places = iter(range(0, size, SLOT))
        turn = threading.Lock()
        file = os.open(path, os.O_RDONLY)

        def read(reader: int) -> None:
            for which in itertools.cycle((2 * reader, 2 * reader + 1)):
                with turn:
                    place = next(places, None)
                if place is None:
                    break
                length = min(SLOT, size - place)
                streams[which].synchronize()
                assert os.preadv(file, [views[which][:length]], place) == length
                with torch.cuda.stream(streams[which]):
                    to[place : place + length].copy_(slots[which][:length], non_blocking=True)
            for stream in streams[2 * reader : 2 * reader + 2]:
                stream.synchronize()

        threads = [threading.Thread(target=read, args=(number,)) for number in range(readers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        os.close(file)
        return to

    return load


def measure(ways: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each way in each round; the first round only warms up."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(rounds + 1):
        for name, work in ways.items():
            gc.collect()
            start = time.perf_counter()
            result = work()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            if turn > 0:
                times[name].append(time.perf_counter() - start)
            del result
    return times


def show(what: str, size: int, times: dict[str, list[float]]) -> dict[str, float]:
    rates = {name: size / min(found) / 1e9 for name, found in times.items()}
    first = next(iter(rates.values()))
    for name, rate in rates.items():
        spread = size / max(times[name]) / 1e9
        print(f"{what:18} {name:40} {rate:7.2f} GB/s (worst {spread:6.2f})  {rate / first:6.2f} x")
    return rates


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """By their bytes: some are no numbers."""
    return torch.equal(a.view(torch.uint8), b.view(torch.uint8))


def touched(tensors: dict[str, torch.Tensor]) -> None:
    """A file that is only mapped is read when its pages are touched."""
    for tensor in tensors.values():
        tensor.reshape(-1).view(torch.uint8)[::4096].sum()


def host_rows(plain: str, sealed: str, size: int, rounds: int, cores: int) -> None:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    torch.set_num_threads(cores)
    print(f"host memory, {cores} cores")
    ways = {
        "safetensors, plain, touched": lambda: touched(safetensors.torch.load_file(plain)),
        "safetensors, plain, copied (pread)": lambda: touched(
            safetensors.torch.load_file(plain, backend="pread")
        ),
        "warplock, touched": lambda: touched(ours.load_file(sealed, key=KEY)),
        "safetensors, plain, maybe only mapped": lambda: safetensors.torch.load_file(plain),
    }
    show("load to host", size, measure(ways, rounds))


def peak(field: str) -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(field))


def memory_rows(sealed: str) -> None:
    """Peak of host memory while a GPU loads, over what the process had with CUDA started."""
    ours.load(ours.save({"a": torch.zeros(8)}, key=KEY), "cuda", key=KEY)
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    before = peak("VmRSS")
    ours.load_file(sealed, "cuda", key=KEY)
    print(f"peak host memory of a load: {(peak('VmHWM') - before) / MIB:.0f} MiB")


def peer_rows(folder: str, device: str, rounds: int) -> None:
    """The other encrypted formats, on 1 GiB."""
    tensors = model(1024 * MIB, "cpu")
    size = sum(tensor.nbytes for tensor in tensors.values())
    path = f"{folder}/peer"
    ours.save_file(tensors, f"{path}.wl", key=KEY)
    saves: dict[str, Callable[[], object]] = {
        "warplock": lambda: ours.save_file(tensors, f"{path}.wl", key=KEY)
    }
    loads: dict[str, Callable[[], object]] = {
        "warplock": lambda: ours.load_file(f"{path}.wl", device, key=KEY)
    }
    with contextlib.suppress(ImportError):
        import tensorizer

        key = tensorizer.EncryptionParams.random()
        opens = tensorizer.DecryptionParams.from_key(key.key)

        def write() -> None:
            serializer = tensorizer.TensorSerializer(f"{path}.tensors", encryption=key)
            serializer.write_state_dict(tensors)
            serializer.close()

        def read() -> dict[str, Any]:
            with tensorizer.TensorDeserializer(
                f"{path}.tensors", device=device, encryption=opens
            ) as found:
                return dict(found.items())

        saves["tensorizer"], loads["tensorizer"] = write, read
    with contextlib.suppress(ImportError):
        import base64

        import cryptotensors.torch

        secret = {"kty": "oct", "kid": "k", "alg": "aes256gcm",
                  "k": base64.b64encode(KEY).decode()}  # fmt: skip
        signing = subprocess.run(
            [sys.executable, "-c", SIGNING_KEY], capture_output=True, text=True, check=False
        ).stdout
        if signing:
            config = {"enc_key": secret, "sign_key": json.loads(signing)}
            cryptotensors.register_direct_key_provider(keys=[secret, config["sign_key"]])
            cryptotensors.torch.save_file(tensors, f"{path}.ct", config=config)
            saves["cryptotensors"] = lambda: cryptotensors.torch.save_file(
                tensors, f"{path}.ct", config=config
            )
            loads["cryptotensors"] = lambda: cryptotensors.torch.load_file(
                f"{path}.ct", device=device
            )
    if len(saves) > 1:
        show("peers, 1 GiB, save", size, measure(saves, rounds))
        show("peers, 1 GiB, load", size, measure(loads, rounds))
    else:
        print("tensorizer and cryptotensors are not installed")


SIGNING_KEY = """
import base64, json
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
key = Ed25519PrivateKey.generate()
text = lambda data: base64.b64encode(data).decode()
print(json.dumps({"kty": "okp", "crv": "ed25519", "kid": "s", "alg": "ed25519",
                  "d": text(key.private_bytes_raw()), "x": text(key.public_key().public_bytes_raw())}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gib", type=float, default=8)
    parser.add_argument("--folder", default="/dev/shm")
    parser.add_argument("--readers", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.rows:
        which, plain, sealed, size = given.rows
        if which == "memory":
            memory_rows(sealed)
        else:
            host_rows(plain, sealed, int(size), 3, int(which))
        return
    gpu = torch.cuda.is_available()
    device = "cuda" if gpu else "cpu"
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        plain, sealed = f"{folder}/model.safetensors", f"{folder}/model.safetensors.wl"
        tensors = model(int(given.gib * 1024) * MIB, device)
        size = sum(tensor.nbytes for tensor in tensors.values())
        print(f"{size / 1e9:.2f} GB in {len(tensors)} tensors, {os.cpu_count()} cores, {device}")
        saves = {
            "safetensors, plain": lambda: safetensors.torch.save_file(tensors, plain),
            "warplock": lambda: ours.save_file(tensors, sealed, key=KEY),
        }
        show(f"save from {device}", size, measure(saves, min(given.rounds, 2)))
        loads: dict[str, Callable[[], object]] = {
            "safetensors, plain": lambda: safetensors.torch.load_file(plain, device=device),
            "warplock": lambda: ours.load_file(sealed, device, key=KEY),
        }
        if gpu:
            loads[f"plain pinned ring, {given.readers} readers"] = plain_ring(plain, given.readers)
        found = ours.load_file(sealed, device, key=KEY)
        assert all(same(found[name], tensors[name]) for name in tensors)
        del found
        tensors.clear()
        if gpu:
            show("load to GPU", size, measure(loads, given.rounds))
        loads.clear()
        again = [sys.executable, "-P", __file__, "--rows"]
        rest = [plain, sealed, str(size)]
        sys.stdout.flush()
        subprocess.run([*again, "2", *rest], check=True)
        if gpu:
            subprocess.run([*again, "memory", *rest], check=True)
        for path in (plain, sealed):
            os.remove(path)
        peer_rows(folder, device, 2)


if __name__ == "__main__":
    main()
