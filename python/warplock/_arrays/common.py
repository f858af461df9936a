"""What the modules of the libraries share."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

View = tuple[int, int, int, Any, "int | None", bool]
"""An array's address, bytes, GPU (negative: host memory), shape, the stream to work on if that is
not the current one of its library, and whether it may only be read."""

# An array that was made here to work in, and its address and bytes.
Room = tuple[Any, tuple[int, int]]


class Rooms(threading.local):
    """One thread's workspaces, by GPU and stream."""

    def __init__(self) -> None:
        self.by_stream: dict[tuple[int, int], Room] = {}


class Makes:
    """What follows from a library's other functions."""

    def pointer(self: Any, array: Any) -> Any:
        """The address of an array that was made here."""
        return self.at(array)[0]

    def maker(
        self: Any, shape: tuple[int, ...], device: int, stream: int, words: bool = False
    ) -> Callable[[], Any]:
        """What makes an array at each call: of bytes, or of verdicts."""
        if words:
            return functools.partial(self.words, shape[0], device, stream)
        return functools.partial(self.empty, shape, device, stream)


class StreamOrdered(Makes):
    """A library whose arrays can be written, and whose allocator frees in stream order."""

    immutable = False

    def __init__(self) -> None:
        self._rooms = Rooms()

    def rooms(self) -> dict[tuple[int, int], Room]:
        """This thread's workspaces, which its calls may leave here for those that follow."""
        return self._rooms.by_stream

    def keep(self, arrays: list[Any], device: int) -> None:
        """Nothing is to be done: memory lives as long as work on its stream."""

    def result(self, array: Any) -> Any:
        return array

    def any(self, words: Any) -> Any:
        return words.any()
