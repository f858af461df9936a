"""JAX's arrays."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from warplock import _native
from warplock._arrays.common import View
from warplock._arrays.for_cupy import CuPy
from warplock._arrays.for_host import Host
from warplock._arrays.for_torch import Torch
from warplock._errors import BatchError


class Jax:
    """JAX's arrays: immutable, so that results are made by CuPy or PyTorch and handed over."""

    immutable = True

    def __init__(self) -> None:
        self._jax: Any = sys.modules["jax"]
        self._kept: deque[tuple[Callable[[], bool], list[Any]]] = deque()
        self._helper: Any = None
        self._lock = threading.Lock()

    def _maker(self) -> Any:
        if self._helper is None:
            for name, kind in (("cupy", CuPy), ("torch", Torch)):
                with contextlib.suppress(ImportError):
                    __import__(name)
                    self._helper = kind()
                    break
            else:
                raise BatchError(
                    "JAX's arrays cannot be written, so that results need the memory of CuPy or "
                    "PyTorch: install one of them"
                )
        return self._helper

    def view(self, array: Any, stream: int | None = None) -> View:
        kind, device = array.__dlpack_device__()
        if kind == 1:
            return 0, array.nbytes, -1, array.shape, None, False
        if stream is None:
            stream = self._maker().stream(device)
        # The stream waits for what makes the array.
        found = _native.describe(array, stream)
        assert found is not None
        return *found[:4], None, False

    def __getattr__(self, name: str) -> Any:
        # Streams and new memory are the helper's.
        return getattr(self._maker(), name)

    def keep(self, arrays: list[Any], device: int) -> None:
        """JAX does not free in our streams' order: arrays live until our work is done."""
        maker = self._maker()
        if isinstance(maker, CuPy):
            event = maker.event(device)
            done: Callable[[], bool] = lambda: bool(event.done)
        else:
            event = maker._torch.cuda.Event()
            event.record(maker._torch.cuda.current_stream(device))
            done = event.query
        with self._lock:
            while self._kept and self._kept[0][0]():
                self._kept.popleft()
            self._kept.append((done, arrays))

    def result(self, array: Any) -> Any:
        return self._jax.dlpack.from_dlpack(array)

    def host(self, array: Any) -> Any:
        return sys.modules["numpy"].asarray(array)

    def from_host(self, made: Any) -> Any:
        return made

    def host_words(self, failed: list[int], total: int) -> Any:
        return Host().host_words(failed, total)
