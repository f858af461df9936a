"""Nonces that need not be given one by one."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

from warplock import _native
from warplock._errors import BatchError
from warplock._native import CountedNonces

if TYPE_CHECKING:
    from collections.abc import Buffer

    from warplock._batch import Key


def xor_nonces(base: Buffer, first: int = 0) -> CountedNonces:
    """Message i has the nonce `base` XOR `first + i`, big-endian in its last eight bytes (as in TLS
    and in encrypted files). To seal, a base must be new for each batch."""
    return CountedNonces("xor", base, first)


def add32_nonces(base: Buffer, first: int = 0) -> CountedNonces:
    """Message i has the nonce `base` plus `first + i`, big-endian in its last four bytes."""
    return CountedNonces("add32", base, first)


_forks = 0


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


def _process() -> tuple[int, int]:
    """What differs after a fork, also one that Python did not see or that has the same number in
    another namespace."""
    return os.getpid(), _forks


class Counter:
    """New nonces for every launch, also that of a graph.

    A key has one of its own, with a random start; this is for a `prefix` (4 bytes for GCM) that
    tells machines or processes apart: then the count is from 0, and no other counter under the same
    key may have this prefix, in this process or another one. It is not copied, and refuses to work
    after a fork: a copy would count from the same number.
    """

    def __init__(self, prefix: Buffer | None = None) -> None:
        # A number would become as many zeros.
        self._prefix = None if prefix is None else bytes(memoryview(prefix))
        self._made: dict[tuple[int, str], Any] = {}
        self._lock = threading.Lock()
        self._next = 0
        self._of = _process()

    def __reduce__(self) -> Any:
        raise TypeError("a Counter is not copied: the copy would count from the same number")

    def _on(self, device: int, algorithm: str) -> Any:
        if self._of != _process():
            raise BatchError(
                "this Counter was made before a fork, and the parent counts on with it: make "
                "another one in this process, with another prefix"
            )
        place = (device, algorithm)
        found = self._made.get(place)
        if found is None:
            with self._lock:
                if self._prefix is not None and self._made and place not in self._made:
                    raise BatchError(
                        "a counter with a prefix counts on one device for one algorithm: make "
                        "another one with another prefix"
                    )
                found = self._made.get(place)
                if found is None:
                    found = self
                    if device >= 0:
                        found = _native.NonceCounter(device, algorithm, self._prefix)
                    self._made[place] = found
        return found

    def _host_nonces(self, count: int, key: Key) -> bytes | None:
        """For host memory; None stands for random ones."""
        self._on(-1, key.algorithm)
        if self._prefix is None:
            return None
        if len(self._prefix) + 8 != key._keys.iv_len:
            raise BatchError(
                f"a prefix for {key.algorithm} has {key._keys.iv_len - 8} bytes, not "
                f"{len(self._prefix)}"
            )
        with self._lock:
            first, self._next = self._next, self._next + count
        return b"".join(self._prefix + (first + i).to_bytes(8, "big") for i in range(count))
