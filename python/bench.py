"""Compares with cryptography on this machine, and files with the command line. Usage:
scripts/python bench [FOLDER], a folder with 4 GB free, best in RAM (default: /dev/shm)."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np
from cryptography.hazmat.primitives.ciphers.aead import AESGCM as Pyca

import warplock
from warplock.compat.lmcache import OVERHEAD, TenantKeys, open_frame, seal_frame

MIB = 1 << 20
NONCE = bytes(12)


def seconds(work: Callable[[], object]) -> float:
    """The best of several runs, alternating is the caller's affair."""
    start = time.perf_counter()
    work()
    once = time.perf_counter() - start
    count = max(1, int(0.02 / max(once, 1e-7)))
    start = time.perf_counter()
    for _ in range(count):
        work()
    return (time.perf_counter() - start) / count


def ratio(theirs: Callable[[], object], ours: Callable[[], object], rounds: int = 7) -> str:
    """How many times as fast ours is, each the best of rounds that take turns."""
    pairs = [(seconds(theirs), seconds(ours)) for _ in range(rounds)]
    them, us = min(a for a, _ in pairs), min(b for _, b in pairs)
    return f"{them * 1e6:11.2f} us  {us * 1e6:11.2f} us  {them / us:6.2f}"


def one_message() -> None:
    raw = os.urandom(32)
    theirs = Pyca(raw)
    single = warplock.Engine("cpu", threads=1)
    for threads, ours in ((1, warplock.AESGCM(raw, engine=single)), (0, warplock.AESGCM(raw))):
        name = f"{threads} thread" if threads else "all cores"
        for size in (16, 256, 4096, MIB, 32 * MIB):
            text = os.urandom(size)
            sealed = theirs.encrypt(NONCE, text, None)
            for method, data, length in (("encrypt", text, size + 16), ("decrypt", sealed, size)):
                a, b = getattr(theirs, method), getattr(ours, method)
                found = ratio(lambda: a(NONCE, data, None), lambda: b(NONCE, data, None))
                print(f"{name}, {method:12} {size:9}  {found}")
                a, b = getattr(theirs, method + "_into"), getattr(ours, method + "_into")
                out = bytearray(length)
                found = ratio(lambda: a(NONCE, data, None, out), lambda: b(NONCE, data, None, out))
                print(f"{name}, {method}_into {size:9}  {found}")


def batches() -> None:
    count = 10_000
    for size, many in ((256, True), (4096, False)):
        rows = np.zeros((count, size), "u1")
        texts = [row.tobytes() for row in rows]
        raw = [os.urandom(32) for _ in range(count if many else 1)]
        nonces = [os.urandom(12) for _ in range(count)]
        keys = warplock.Keys("aes-256-gcm", b"".join(raw))
        key = keys if many else warplock.Key("aes-256-gcm", raw[0])
        one = Pyca(raw[0])

        def theirs() -> None:
            for i, text in enumerate(texts):
                (Pyca(raw[i]) if many else one).encrypt(nonces[i], text, None)

        out, tags = np.empty_like(rows), np.empty((count, 16), "u1")
        name = f"{count} of {size} bytes, {'a key each' if many else 'one key'}"
        print(f"{name}: new arrays  {ratio(theirs, lambda: key.seal(rows))}")
        print(f"{name}: out=        {ratio(theirs, lambda: key.seal(rows, out=out, tags=tags))}")


def lmcache() -> None:
    """As LMCache's serde handles its bytes: four copies."""
    chunk = bytearray(os.urandom(32 * MIB))
    frame, back = bytearray(len(chunk) + OVERHEAD), bytearray(len(chunk))
    raw = bytes(16)
    key, theirs = TenantKeys(raw).key("tenant"), Pyca(raw)

    def their_seal() -> None:
        iv = os.urandom(12)
        made = Pyca(raw).encrypt(iv, bytes(chunk), None)
        frame[0:1], frame[1:13] = b"\x01", iv
        frame[13 : 13 + len(made)] = made

    def their_open() -> None:
        blob = bytes(frame)
        made = Pyca(raw).decrypt(blob[1:13], blob[13:], None)
        back[: len(made)] = made

    their_seal()
    print(f"LMCache, seal 32 MiB:      {ratio(their_seal, lambda: seal_frame(key, chunk, frame))}")
    out = memoryview(frame)[13:]
    into = lambda: theirs.encrypt_into(NONCE, chunk, None, out)  # noqa: E731
    print(f"LMCache frame, pyca _into: {ratio(into, lambda: seal_frame(key, chunk, frame))}")
    their_seal()
    theirs_open = ratio(their_open, their_open, 1).split()[0]
    seal_frame(key, chunk, frame)
    mine = min(seconds(lambda: open_frame(key, frame, back)) for _ in range(7)) * 1e6
    print(f"LMCache, open 32 MiB:      {float(theirs_open):11.2f} us  {mine:11.2f} us  "
          f"{float(theirs_open) / mine:6.2f}")  # fmt: skip


def files(folder: str) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as name:
        os.chdir(name)
        pathlib.Path("key").write_bytes(os.urandom(32))
        with open("plain", "wb") as file:
            for _ in range(64):
                file.write(os.urandom(16 * MIB))
        cli = [sys.executable, "-m", "warplock"]
        start = seconds(lambda: subprocess.run([*cli, "--version"], stdout=subprocess.DEVNULL))
        best = dict.fromkeys(("encrypt, command", "encrypt_file", "decrypt, command", "read"), 1e9)
        for _ in range(5):
            for what, work in (
                ("encrypt, command", lambda: subprocess.run(
                    [*cli, "encrypt", "--key-file", "key", "--force", "plain"], check=True)),
                ("encrypt_file", lambda: warplock.encrypt_file(
                    "plain", "plain.wl", key="key", replace=True)),
                ("decrypt, command", lambda: subprocess.run(
                    [*cli, "decrypt", "--key-file", "key", "--force", "-o", "out", "plain.wl"],
                    check=True)),
                ("read", lambda: warplock.open("plain.wl", key="key").read()),
            ):  # fmt: skip
                begin = time.perf_counter()
                work()
                best[what] = min(best[what], time.perf_counter() - begin)
        for what, took in best.items():
            took -= start if "command" in what else 0
            print(f"1 GiB, {what:17} {took:6.3f} s  {1.0737 / took:6.2f} GB/s")
        os.chdir("/")


print(f"{'':32}{'cryptography':>14}  {'Warplock':>12}  {'times':>7}")
one_message()
batches()
lmcache()
files(sys.argv[1] if len(sys.argv) > 1 else "/dev/shm")
