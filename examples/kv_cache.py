"""Offloads blocks of a KV cache to host memory, sealed: they are encrypted on the GPU before they
leave it, and verified there when they come back. The host never holds plaintext.

    python examples/kv_cache.py          a short demonstration
    python examples/kv_cache.py --bench  and figures next to plain copies

Needs PyTorch and a GPU.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import torch

from warplock.cuda import Key

TAG = 16
NONCE = 12
# Blocks are sealed in groups of this many bytes: enough for the kernels' full speed, and few enough
# for the copies of one group to run while the next one is sealed.
GROUP_BYTES = 32 << 20


class SealedOffload:
    """Blocks of `cache` (a tensor of blocks on the GPU) in `capacity` slots of pinned host memory."""

    def __init__(self, cache: torch.Tensor, key: Key, capacity: int) -> None:
        self.key = key
        self.block = cache[0].nbytes
        self.flat = cache.view(-1).view(torch.uint8)
        self.host = torch.empty(
            (capacity, self.block + TAG), dtype=torch.uint8, pin_memory=True
        )
        self.host_nonces = torch.empty((capacity, NONCE), dtype=torch.uint8, pin_memory=True)
        self.group = max(1, GROUP_BYTES // self.block)
        self.copies = torch.cuda.Stream()
        device = cache.device
        # Two groups' worth of staging memory: one is copied while the other is sealed or opened.
        self.staging = [
            (
                torch.empty((self.group, self.block + TAG), dtype=torch.uint8, device=device),
                torch.empty((self.group, NONCE), dtype=torch.uint8, device=device),
                torch.cuda.Event(),
            )
            for _ in range(2)
        ]
        # Counts blocks that did not verify.
        self.refused = torch.zeros(1, dtype=torch.int32, device=device)
        self.turn = 0

    def _next(self) -> tuple[torch.Tensor, torch.Tensor, torch.cuda.Event]:
        self.turn ^= 1
        return self.staging[self.turn]

    def _groups(self, blocks: Sequence[int]) -> list[tuple[int, Sequence[int]]]:
        return [(at, blocks[at : at + self.group]) for at in range(0, len(blocks), self.group)]

    def store(self, blocks: Sequence[int], slot: int) -> None:
        """Queues the sealing of blocks and their copies to the slots from `slot` on."""
        compute = torch.cuda.current_stream()
        for at, group in self._groups(blocks):
            staging, nonces, free = self._next()
            count = len(group)
            compute.wait_event(free)
            self.key.seal(
                self.flat,
                offsets=[block * self.block for block in group],
                sizes=[self.block] * count,
                out=staging,
                out_offsets=[i * (self.block + TAG) for i in range(count)],
                tags="appended",
                nonces_out=nonces[:count],
            )
            self.copies.wait_stream(compute)
            with torch.cuda.stream(self.copies):
                first = slot + at
                self.host[first : first + count].copy_(staging[:count], non_blocking=True)
                self.host_nonces[first : first + count].copy_(nonces[:count], non_blocking=True)
                free.record()

    def load(self, slot: int, blocks: Sequence[int]) -> None:
        """Queues the copies of slots from `slot` on, and their opening into blocks. A block that does
        not verify becomes zeros, and `check` raises."""
        compute = torch.cuda.current_stream()
        for at, group in self._groups(blocks):
            staging, nonces, free = self._next()
            count = len(group)
            with torch.cuda.stream(self.copies):
                self.copies.wait_event(free)
                first = slot + at
                staging[:count].copy_(self.host[first : first + count], non_blocking=True)
                nonces[:count].copy_(self.host_nonces[first : first + count], non_blocking=True)
            compute.wait_stream(self.copies)
            self.key.open(
                staging,
                "appended",
                nonces=nonces[:count],
                offsets=[i * (self.block + TAG) for i in range(count)],
                sizes=[self.block + TAG] * count,
                out=self.flat,
                out_offsets=[block * self.block for block in group],
                refused=self.refused,
            )
            free.record()

    def finish(self) -> None:
        """Waits for the copies to the host."""
        self.copies.synchronize()

    def check(self) -> None:
        """Waits, and raises if any block so far did not verify."""
        count = int(self.refused)
        if count:
            raise RuntimeError(f"{count} blocks of the KV cache were changed in host memory")


class PlainOffload:
    """The same without encryption: what it is measured against. `gathered`: by way of staging
    memory, as small blocks need it; otherwise a copy for each block."""

    def __init__(self, cache: torch.Tensor, capacity: int, gathered: bool) -> None:
        self.cache = cache.view(cache.shape[0], -1).view(torch.uint8)
        self.block = self.cache.shape[1]
        self.host = torch.empty((capacity, self.block), dtype=torch.uint8, pin_memory=True)
        self.group = max(1, GROUP_BYTES // self.block)
        self.copies = torch.cuda.Stream()
        self.gathered = gathered
        self.staging = [
            (torch.empty((self.group, self.block), dtype=torch.uint8, device=cache.device),
             torch.cuda.Event())
            for _ in range(2)
        ]  # fmt: skip
        self.turn = 0

    def store(self, blocks: Sequence[int], slot: int) -> None:
        compute = torch.cuda.current_stream()
        if not self.gathered:
            self.copies.wait_stream(compute)
            with torch.cuda.stream(self.copies):
                for i, block in enumerate(blocks):
                    self.host[slot + i].copy_(self.cache[block], non_blocking=True)
            return
        places = torch.tensor(blocks, device=self.cache.device)
        for at in range(0, len(blocks), self.group):
            self.turn ^= 1
            staging, free = self.staging[self.turn]
            part = places[at : at + self.group]
            compute.wait_event(free)
            torch.index_select(self.cache, 0, part, out=staging[: len(part)])
            self.copies.wait_stream(compute)
            with torch.cuda.stream(self.copies):
                first = slot + at
                self.host[first : first + len(part)].copy_(
                    staging[: len(part)], non_blocking=True
                )
                free.record()

    def load(self, slot: int, blocks: Sequence[int]) -> None:
        compute = torch.cuda.current_stream()
        if not self.gathered:
            with torch.cuda.stream(self.copies):
                for i, block in enumerate(blocks):
                    self.cache[block].copy_(self.host[slot + i], non_blocking=True)
            compute.wait_stream(self.copies)
            return
        places = torch.tensor(blocks, device=self.cache.device)
        for at in range(0, len(blocks), self.group):
            self.turn ^= 1
            staging, free = self.staging[self.turn]
            part = places[at : at + self.group]
            with torch.cuda.stream(self.copies):
                self.copies.wait_event(free)
                first = slot + at
                staging[: len(part)].copy_(
                    self.host[first : first + len(part)], non_blocking=True
                )
            compute.wait_stream(self.copies)
            self.cache.index_copy_(0, part, staging[: len(part)])
            free.record()

    def finish(self) -> None:
        self.copies.synchronize()


def demonstrate() -> None:
    cache = torch.randn(64, 2, 16, 8, 128, dtype=torch.float16, device="cuda")
    before = cache.clone()
    key = Key.generate("aes-256-gcm", device=0)
    offload = SealedOffload(cache, key, capacity=64)
    evicted = [3, 17, 40, 41, 5]
    offload.store(evicted, slot=0)
    offload.finish()
    for block in evicted:
        assert before[block].cpu().view(torch.uint8).numpy().tobytes()[:64] not in (
            offload.host.numpy().tobytes()
        )
    # They come back to other places of the cache.
    places = [60, 61, 62, 63, 0]
    offload.load(slot=0, blocks=places)
    offload.check()
    assert torch.equal(cache[places], before[evicted])
    offload.host[2, 1000] ^= 1
    offload.load(slot=0, blocks=places)
    try:
        offload.check()
    except RuntimeError as error:
        print(f"refused: {error}")
    assert not cache[places[2]].any()
    print(f"{len(evicted)} blocks of {offload.block} bytes went to the host sealed, and came back")


def bench(total: int = 512 << 20, rounds: int = 5) -> list[tuple[int, str, float, float, float]]:
    """For each size of blocks and direction: GB/s of plain copies, gathered copies, sealed."""
    key = Key.generate("aes-256-gcm", device=0)
    rows = []
    for size in (32 << 10, 128 << 10, 512 << 10, 1 << 20, 4 << 20):
        count = total // size
        cache = torch.randint(0, 256, (count, size), dtype=torch.uint8, device="cuda")
        blocks = torch.randperm(count).tolist()
        kinds = [
            PlainOffload(cache, count, gathered=False),
            PlainOffload(cache, count, gathered=True),
            SealedOffload(cache, key, count),
        ]
        best: dict[str, list[float]] = {"to the host": [1e9] * 3, "to the GPU": [1e9] * 3}
        for _ in range(rounds):
            for number, kind in enumerate(kinds):
                for name, work in (
                    ("to the host", lambda: kind.store(blocks, 0)),
                    ("to the GPU", lambda: kind.load(0, blocks)),
                ):
                    torch.cuda.synchronize()
                    start = time.perf_counter()
                    work()
                    torch.cuda.synchronize()
                    best[name][number] = min(best[name][number], time.perf_counter() - start)
        kinds[2].check()
        for name, times in best.items():
            plain, gathered, sealed = (total / seconds / 1e9 for seconds in times)
            rows.append((size, name, plain, gathered, sealed))
        del kinds, cache
    return rows


def print_bench() -> None:
    print("block       direction     plain  gathered  sealed GB/s   sealed/best plain")
    for size, name, plain, gathered, sealed in bench():
        ratio = sealed / max(plain, gathered)
        print(f"{size >> 10:5} KiB  {name:12} {plain:7.1f} {gathered:9.1f} {sealed:7.1f} {ratio:14.2f}")


if __name__ == "__main__":
    demonstrate()
    if "--bench" in sys.argv:
        print_bench()
