"""Buffers of host memory that must not overlap."""

from __future__ import annotations

from typing import Any

from warplock import _native
from warplock._errors import BatchError


def refuse_overlaps(written: list[tuple[str, Any]], others: list[tuple[str, Any]]) -> None:
    """Buffers that are written after the engine has looked at the others share no memory with
    these nor with each other."""
    seen = [(what, *_native.place(each)) for what, each in others if each is not None]
    for what, each in written:
        begin, end = _native.place(each)
        for other, from_, to in seen:
            if max(begin, from_) < min(end, to):
                raise BatchError(f"{what} overlaps {other}: give it memory of its own")
        seen.append((what, begin, end))
