"""GPU arrays of every other library, and where memory for them comes from."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

from warplock import _native
from warplock._arrays.common import Makes, Room, View
from warplock._errors import BatchError

_Allocator = Callable[[int, int], Any]
_allocator: _Allocator | None = None


def set_allocator(function: _Allocator | None) -> None:
    """Where memory for results comes from, for arrays whose library is not PyTorch, CuPy or JAX:
    `function(nbytes, stream)` returns an object with `__cuda_array_interface__` or DLPack, such as
    an `rmm.DeviceBuffer`. Memory that it gives out again must be ordered by streams."""
    global _allocator
    if function is not None and not callable(function):
        raise BatchError(
            f"an allocator is a function, or None, and not a {type(function).__name__}"
        )
    _allocator = function


class Block:
    """Memory of `set_allocator`'s function, with a shape. Other libraries take it by
    `__cuda_array_interface__`."""

    def __init__(self, base: Any, address: int, shape: tuple[int, ...], kind: str) -> None:
        self.base = base
        """What the function returned."""
        self.shape = shape
        self._address = address
        self._kind = kind

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self._kind,
            "data": (self._address, False),
            "version": 3,
            "stream": None,
        }


class Other(Makes):
    """Arrays of other libraries, by DLPack or `__cuda_array_interface__`."""

    immutable = False

    def view(self, array: Any, stream: int | None = None) -> View:
        found = _native.describe(array, stream)
        if found is None:
            raise BatchError(
                f"{type(array).__name__} is no array: it has neither DLPack, nor "
                "__cuda_array_interface__, nor the buffer protocol"
            )
        address, nbytes, device, shape, current, read_only = found
        if device == -2:
            # __cuda_array_interface__ does not say it.
            if len(_native.gpus()) != 1:
                raise BatchError(
                    f"{type(array).__name__} does not say on which GPU it is: give an array with "
                    "DLPack"
                )
            device = 0
        return address, nbytes, device, shape, current, read_only

    def at(self, array: Any) -> tuple[int, int]:
        return self.view(array)[:2]

    def host(self, array: Any) -> Any:
        raise BatchError(
            f"{type(array).__name__} is in host memory: give a NumPy array of it, such as "
            "numpy.from_dlpack makes"
        )

    def stream(self, device: int) -> int:
        return 0

    def is_capturing(self) -> bool:
        return False

    def rooms(self) -> dict[tuple[int, int], Room]:
        """The caller's allocator knows best."""
        return {}

    def _new(self, shape: tuple[int, ...], kind: str, stream: int) -> Block:
        if _allocator is None:
            raise BatchError(
                "give memory for results (out, tags, nonces), or say with "
                "warplock.cuda.set_allocator where it comes from"
            )
        nbytes = math.prod(shape) * int(kind[2])
        base = _allocator(nbytes, stream)
        address, found = self.at(base)
        if found < nbytes:
            raise BatchError(f"the allocator gave {found} bytes instead of {nbytes}")
        return Block(base, address, shape, kind)

    def empty(self, shape: tuple[int, ...], device: int, stream: int) -> Any:
        return self._new(shape, "|u1", stream)

    def words(self, count: int, device: int, stream: int) -> Any:
        return self._new((count,), "<u4", stream)

    def upload(self, data: Any, device: int, stream: int) -> Any:
        raise BatchError("nonces, tags and associated data must be in GPU memory here")

    def on(self, stream: int, device: int) -> Any:
        return contextlib.nullcontext()

    def record(self, arrays: list[Any], stream: int, device: int) -> None:
        """Such libraries have no common way: the caller keeps arrays until the work is done."""

    def keep(self, arrays: list[Any], device: int) -> None:
        """As in `record`."""

    def result(self, array: Any) -> Any:
        return array

    def any(self, words: Any) -> Any:
        raise BatchError("look at `array`: its library is not known here")

    def failed(self, words: Any, stream: int, device: int) -> list[int]:
        _native.synchronize(device, stream)
        base = words.base if isinstance(words, Block) else words
        if not hasattr(base, "copy_to_host"):
            raise BatchError("look at `array`: its library is not known here")
        host = memoryview(base.copy_to_host()).cast("B").cast("I")
        return [place for place, word in enumerate(host) if word]

    def strided(self, interface: Any, device: int) -> Any:
        return interface
