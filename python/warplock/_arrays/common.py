"""What the modules of the libraries share."""

from __future__ import annotations

import threading
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
