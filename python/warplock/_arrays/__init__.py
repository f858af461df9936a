"""Arrays of other libraries: where they lie, and new ones of the same library."""

from __future__ import annotations

import sys
from typing import Any

from warplock._arrays.common import View
from warplock._arrays.for_cupy import CuPy
from warplock._arrays.for_host import Host
from warplock._arrays.for_jax import Jax
from warplock._arrays.for_others import Other, set_allocator
from warplock._arrays.for_torch import Torch, refuse_special, refuse_without_memory
from warplock._errors import BatchError

__all__ = [
    "Host",
    "Torch",
    "View",
    "handle",
    "library",
    "refuse_special",
    "refuse_without_memory",
    "set_allocator",
]

_found: dict[type, Any] = {}


def library(array: Any) -> Any:
    """What handles an array's kind."""
    kind = type(array)
    found = _found.get(kind)
    if found is None:
        found = _found[kind] = _find(array, kind)
    return found


def _find(array: Any, kind: type) -> Any:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        if hasattr(kind, "__tensor_flatten__"):
            raise BatchError(
                f"{kind.__name__} is made of other tensors: give these, such as to_local() of a "
                "DTensor"
            )
        return _one(Torch)
    cupy = sys.modules.get("cupy")
    if cupy is not None and isinstance(array, cupy.ndarray):
        return _one(CuPy)
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(array, jax.Array):
        return _one(Jax)
    if hasattr(kind, "__cuda_array_interface__"):
        return _one(Other)
    try:
        memoryview(array)
    except TypeError:
        return _one(Other)
    except ValueError:
        # NumPy's types that the protocol has no name for: `buffer` says so.
        pass
    return _one(Host)


_made: dict[type, Any] = {}


def _one(kind: type) -> Any:
    return _made.setdefault(kind, kind())


def handle(stream: Any) -> int:
    """A stream's address: of an int, or of an object of cuda.core, PyTorch, CuPy, numba or RMM."""
    if isinstance(stream, int):
        return stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        return int((protocol() if callable(protocol) else protocol)[1])
    for name in ("cuda_stream", "ptr", "handle"):
        found = getattr(stream, name, None)
        if found is not None:
            return int(getattr(found, "value", found) or 0)
    raise BatchError("a stream is an int, or an object with __cuda_stream__")
