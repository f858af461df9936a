"""CuPy's arrays."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from warplock._arrays.common import StreamOrdered, View
from warplock._errors import BatchError, CaptureError


class CuPy(StreamOrdered):
    """CuPy's arrays."""

    def __init__(self) -> None:
        super().__init__()
        self._cupy: Any = sys.modules["cupy"]

    def view(self, array: Any, stream: int | None = None) -> View:
        if not array.flags.c_contiguous:
            raise BatchError("the array is not contiguous: use cupy.ascontiguousarray")
        return array.data.ptr, array.nbytes, array.device.id, array.shape, None, False

    def at(self, array: Any) -> tuple[int, int]:
        return array.data.ptr, array.nbytes

    def stream(self, device: int) -> int:
        cuda = self._cupy.cuda
        if cuda.runtime.getDevice() == device:
            return int(cuda.get_current_stream().ptr)
        with cuda.Device(device):
            return int(cuda.get_current_stream().ptr)

    def is_capturing(self) -> bool:
        stream = self._cupy.cuda.get_current_stream()
        return bool(stream.is_capturing()) if stream.ptr else False

    def _new(self, shape: tuple[int, ...], kind: str, device: int) -> Any:
        if self.is_capturing():
            # Allocating would spoil the capture.
            raise CaptureError("the stream captures a graph: make a plan before the capture")
        if self._cupy.cuda.runtime.getDevice() == device:
            return self._cupy.empty(shape, kind)
        with self._cupy.cuda.Device(device):
            return self._cupy.empty(shape, kind)

    def empty(self, shape: tuple[int, ...], device: int, stream: int) -> Any:
        return self._new(shape, "u1", device)

    def words(self, count: int, device: int, stream: int) -> Any:
        return self._new((count,), "u4", device)

    def upload(self, data: Any, device: int, stream: int) -> Any:
        numpy = sys.modules["numpy"]
        with self._cupy.cuda.Device(device):
            return self._cupy.asarray(numpy.frombuffer(memoryview(data).cast("B"), "u1"))

    def plus(self, values: Any, number: int) -> Any:
        return values.astype("i8") + number

    def count_up(self, first: int, step: int, count: int, device: int) -> Any:
        with self._cupy.cuda.Device(device):
            return self._cupy.arange(count, dtype="i8") * step + first

    @contextlib.contextmanager
    def on(self, stream: int, device: int) -> Any:
        cuda = self._cupy.cuda
        with cuda.Device(device):
            with cuda.ExternalStream(stream, device) if stream else cuda.Stream.null:
                yield

    def record(self, arrays: list[Any], stream: int, device: int) -> None:
        """CuPy has no such function: its documentation leaves this to the caller."""

    def failed(self, words: Any, stream: int, device: int) -> list[int]:
        with self.on(stream, device):
            found: list[int] = words.get().nonzero()[0].tolist()
            return found

    def strided(self, interface: Any, device: int) -> Any:
        with self._cupy.cuda.Device(device):
            return self._cupy.asarray(interface)

    def event(self, device: int) -> Any:
        with self._cupy.cuda.Device(device):
            event = self._cupy.cuda.Event(disable_timing=True)
            event.record()
        return event
