"""Measures warplock.cuda on this machine's GPU with PyTorch, next to copies to the host and
cryptography. Usage: python3 python/bench_cuda.py [--quick]; under four minutes."""

from __future__ import annotations

import pathlib
import random
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from typing import NamedTuple

import torch

from warplock._gpu import Arguments, prepare
from warplock.cuda import Key

try:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM as Pyca
except ImportError:
    Pyca = None

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "examples"))
import kv_cache  # noqa: E402

GIB = 1 << 30
QUICK = "--quick" in sys.argv


def on_gpu(work: Callable[[], object], calls: int = 10, rounds: int = 9) -> float:
    """Seconds of one call by the GPU's clock: the median of rounds of calls without a wait."""
    work()
    torch.cuda.synchronize()
    times = []
    for _ in range(3 if QUICK else rounds):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(calls):
            work()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 1e3 / calls)
    return statistics.median(times)


def on_host(*works: Callable[[], object], calls: int = 50, rounds: int = 21) -> list[Times]:
    """Seconds until a call returns, of rounds with an empty queue before each. Several works take
    turns, so that a host that others use slows all of them."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        for work, taken in zip(works, times, strict=True):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(calls):
                work()
            taken.append((time.perf_counter() - start) / calls)
    torch.cuda.synchronize()
    return [Times(statistics.median(taken), min(taken)) for taken in times]


class Times(NamedTuple):
    median: float
    fastest: float


def random_bytes(*shape: int) -> torch.Tensor:
    return torch.randint(0, 256, shape, dtype=torch.uint8, device="cuda")


def speed() -> None:
    print("\nGPU memory to GPU memory, GB/s by CUDA events (compare with `warplock bench kernels`)")
    for algorithm in ("aes-128-gcm", "aes-256-gcm"):
        key = Key.generate(algorithm, device=0)
        for name, text in (
            ("1 x 1 GiB", random_bytes(GIB)),
            ("65,536 x 16 KiB", random_bytes(65536, 16384)),
            ("1,024 x 1 MiB", random_bytes(1024, 1 << 20)),
            ("16,384 x 8 KiB", random_bytes(16384, 8192)),
        ):
            sealed = key.seal(text)
            back = torch.empty_like(text)
            given = {"out": sealed.data, "tags": sealed.tags}
            cases = {
                "seal": lambda: key.seal(text, **given),
                "seal, new arrays": lambda: key.seal(text),
                "open": lambda: key.open(sealed, out=back),
                "seal in place": lambda: key.seal(back, out=back, tags=sealed.tags),
            }
            rates = []
            for case, work in cases.items():
                if case == "open":
                    sealed = key.seal(text)
                rates.append(f"{case} {text.nbytes / on_gpu(work, 5) / 1e9:6.1f}")
            sealed = key.seal(text)
            plans = (
                key.plan("seal", text, out=back),
                key.plan("open", sealed, out=back),
            )
            for case, plan in zip(("plan: seal", "plan: open"), plans):
                rates.append(f"{case} {text.nbytes / on_gpu(plan.launch, 5) / 1e9:6.1f}")
                plan.close()
            copy = text.nbytes / on_gpu(lambda: back.copy_(text), 5) / 1e9
            rates.append(f"(a copy {copy:6.1f})")
            key.open(key.seal(text), out=back).status.check()
            assert torch.equal(back, text)
            print(f"  {algorithm}  {name:16} " + "   ".join(rates))
            del text, sealed, back, given


def host_time() -> None:
    print(
        "\nHost time of one call, 1 MiB, us: median; fastest round (all, compiled part, rest; "
        "of the rest, torch.empty for what the call makes)"
    )
    key = Key.generate("aes-256-gcm", device=0)
    for name, text in (
        ("1 x 1 MiB", random_bytes(1 << 20)),
        ("64 x 16 KiB", random_bytes(64, 16384)),
    ):
        sealed = key.seal(text)
        back = torch.empty_like(text)
        for case, work in (
            ("seal", lambda: key.seal(text)),
            ("seal, out=", lambda: key.seal(text, out=back, tags=sealed.tags)),
            ("open", lambda: key.open(sealed)),
            ("open, out=", lambda: key.open(sealed, out=back)),
        ):
            encrypts = case.startswith("seal")
            engine = engine_call(key, text if encrypts else sealed.data, sealed, encrypts)
            made = [] if "out=" in case else [(text.shape, text.dtype)]
            if not encrypts:
                made.append((text.shape[:-1] or 1, torch.int32))
            else:
                given = [sealed.nonces] if "out=" in case else [sealed.nonces, sealed.tags]
                made += [(array.shape, array.dtype) for array in given]
            whole, part, empty = on_host(work, engine, lambda: [empty_array(*one) for one in made])
            columns = [
                f"{all_ * 1e6:6.1f} {compiled * 1e6:6.1f} {(all_ - compiled) * 1e6:6.1f} "
                f"{arrays * 1e6:6.1f}"
                for all_, compiled, arrays in zip(whole, part, empty, strict=True)
            ]
            print(f"  {name:12} {case:10} " + ";  ".join(columns))
    for name, work in (
        ("torch.empty", lambda: torch.empty((64, 16), dtype=torch.uint8, device="cuda")),
        ("torch.add", lambda: torch.add(back, 1, out=back)),
    ):
        (taken,) = on_host(work)
        print(f"  {name:23} {taken.median * 1e6:6.1f}; {taken.fastest * 1e6:6.1f}")


def empty_array(shape: object, kind: torch.dtype) -> torch.Tensor:
    return torch.empty(shape, dtype=kind, device="cuda")


def engine_call(
    key: Key, src: torch.Tensor, sealed: object, encrypts: bool
) -> Callable[[], object]:
    """The compiled part of a call, with its arguments ready."""
    from warplock._arrays import library

    lib, on = library(src), key._on(0)
    at = lib.stream(0)
    given = Arguments(encrypts, True, src)
    if not encrypts:
        given = given._replace(nonces=sealed.nonces, tags=sealed.tags)  # type: ignore[attr-defined]
    call = prepare(key, on, lib, given, lib.view(src), at)
    words = lib.words(call.messages, 0, at)
    words_at = None if encrypts else lib.at(words)
    need = on.native.enqueue(call.parts, words_at, None, (0, 0), at)
    workspace = torch.empty(need, dtype=torch.uint8, device="cuda")
    workspace_at = lib.at(workspace)

    def enqueue() -> object:
        # The arrays live as long as this does.
        _ = call, words, workspace
        return on.native.enqueue(call.parts, words_at, None, workspace_at, at)

    return enqueue


def against_the_host() -> None:
    print("\nA 1 GiB CUDA tensor sealed and opened, seconds")
    key = Key.generate("aes-256-gcm", device=0)
    text = random_bytes(GIB)

    def ours() -> None:
        key.open(key.seal(text)).status.check()

    ours()
    start = time.perf_counter()
    for _ in range(10):
        ours()
    here = (time.perf_counter() - start) / 10
    print(f"  warplock.cuda                               {here:8.4f}")
    if Pyca is None:
        print("  cryptography is not installed")
        return
    theirs = Pyca(bytes(32))
    # PyTorch warns of `bytes`, which it only reads here.
    warnings.simplefilter("ignore")

    def by_bytes() -> None:
        sealed = theirs.encrypt(bytes(12), text.cpu().numpy(), None)
        on_gpu = torch.frombuffer(sealed, dtype=torch.uint8).cuda()
        opened = theirs.decrypt(bytes(12), on_gpu.cpu().numpy(), None)
        torch.frombuffer(opened, dtype=torch.uint8).cuda()
        torch.cuda.synchronize()

    plain = torch.empty(GIB, dtype=torch.uint8, pin_memory=True)
    cipher = torch.empty(GIB + 16, dtype=torch.uint8, pin_memory=True)

    def by_pinned() -> None:
        plain.copy_(text)
        theirs.encrypt_into(bytes(12), plain.numpy(), None, cipher.numpy())
        on_gpu = cipher.cuda()
        cipher.copy_(on_gpu)
        theirs.decrypt_into(bytes(12), cipher.numpy(), None, plain.numpy())
        plain.cuda()
        torch.cuda.synchronize()

    for name, work in (
        ("copies and cryptography's encrypt, decrypt", by_bytes),
        ("pinned copies and encrypt_into, ..._into", by_pinned),
    ):
        work()
        start = time.perf_counter()
        work()
        there = time.perf_counter() - start
        print(f"  {name:43} {there:8.4f}   {there / here:6.0f} x")


def graphs() -> None:
    key = Key.generate("aes-256-gcm", device=0)
    text = random_bytes(64, 16384)
    seal = key.plan("seal", text)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        seal.launch()
    kept = torch.empty(1000, 64, 12, dtype=torch.uint8, device="cuda")
    for i in range(1000):
        graph.replay()
        kept[i] = seal.nonces
    nonces = {row.tobytes() for row in kept.reshape(-1, 12).cpu().numpy()}
    opened = key.open(seal.data, seal.tags, nonces=seal.nonces)
    opened.status.check()
    took = on_gpu(graph.replay, 100)
    print(
        f"\nA graph replayed 1,000 times: {len(nonces):,} different nonces of 64,000; the last result "
        f"opens: {torch.equal(opened.data, text)}; {took * 1e6:.1f} us a replay of 1 MiB"
    )
    torch.cuda.synchronize()
    del graph


def forged() -> None:
    key = Key.generate("aes-256-gcm", device=0)
    text = torch.full((4096, 16384), 7, dtype=torch.uint8, device="cuda")
    sealed = key.seal(text)
    sealed.data[::2, 5] ^= 1
    opened = key.open(sealed)
    total = opened.data.sum(dtype=torch.int64)
    right = int(total) == 7 * 2048 * 16384
    print(f"Every other message forged: the next kernel sees zeros of them: {right}")


def allocator() -> None:
    calls = 2000 if QUICK else 10000
    key = Key.generate("aes-256-gcm", device=0)
    rng = random.Random(2)
    streams = [torch.cuda.Stream() for _ in range(4)]
    wrong = [torch.zeros((), dtype=torch.int64, device="cuda") for _ in streams]
    live: list[list[tuple[int, object]]] = [[] for _ in streams]
    torch.cuda.synchronize()
    reserved, start = 0, time.perf_counter()
    for i in range(calls):
        which = rng.randrange(4)
        with torch.cuda.stream(streams[which]):
            text = torch.full(
                (rng.randrange(1, 65), rng.randrange(1, 65536)), i % 251,
                dtype=torch.uint8, device="cuda",
            )  # fmt: skip
            live[which].append((i % 251, key.seal(text)))
            if rng.random() < 0.7:
                value, sealed = live[which].pop(rng.randrange(len(live[which])))
                opened = key.open(sealed)
                wrong[which] += (opened.data != value).sum() + opened.status.array.sum()
            if len(live[which]) > 30:
                del live[which][rng.randrange(len(live[which]))]
        if i == calls // 2:
            torch.cuda.synchronize()
            reserved = torch.cuda.memory_reserved()
    torch.cuda.synchronize()
    took = time.perf_counter() - start
    grown = torch.cuda.memory_reserved() - reserved
    print(
        f"{calls:,} sealed tensors of random sizes on four streams, freed at random: "
        f"{sum(int(each) for each in wrong)} wrong bytes, {grown >> 20} MiB growth in the second "
        f"half, {calls / took:,.0f} a second"
    )


def main() -> None:
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    speed()
    host_time()
    against_the_host()
    graphs()
    forged()
    allocator()
    print("\nOffload of KV-cache blocks")
    kv_cache.demonstrate()
    kv_cache.print_bench()


if __name__ == "__main__":
    main()
