"""PyTorch's tensors."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from typing import Any

from warplock import _native
from warplock._arrays.common import StreamOrdered, View
from warplock._errors import BatchError
from warplock._layout import is_numpy

# Nearly all memory lies above it.
_LEAST_ADDRESS = 1 << 32
# Shapes of tensors whose making is prepared.
_MOST_MAKERS = 1024


def refuse_special(tensor: Any) -> None:
    """Refuses tensors that their bytes do not describe completely."""
    if tensor.is_nested:
        raise BatchError("the tensor is nested: give its values, and keep where each begins")
    if tensor.is_quantized:
        raise BatchError(
            "the tensor is quantized, and its scale would be lost: give int_repr(), and keep the "
            "scale and the zero point"
        )
    if tensor.is_meta:
        raise BatchError("the tensor is on the device meta: it has no data")
    if tensor.layout is not sys.modules["torch"].strided:
        raise BatchError(
            f"the tensor's layout is {tensor.layout}: give dense tensors, such as its indices and "
            "values"
        )
    if tensor.is_conj() or tensor.is_neg():
        raise BatchError(
            "the tensor's conjugate or negative is not computed: use resolve_conj(), "
            "resolve_neg()"
        )


def refuse_without_memory(tensor: Any) -> None:
    """Refuses tensors whose storage does not have all of their bytes: freed or shrunk storages, as
    FSDP leaves them, and tensors that only stand for others."""
    if not tensor.numel():
        return
    last = sum((length - 1) * step for length, step in zip(tensor.shape, tensor.stride()))
    try:
        storage = tensor.untyped_storage()
        # Of a fake tensor even the question for the address is an error.
        is_held = storage.device.type != "meta" and storage.data_ptr() != 0
        held = storage.nbytes() if is_held else 0
    except RuntimeError:
        held = 0
    if held < (tensor.storage_offset() + last + 1) * tensor.element_size():
        raise BatchError(
            "the tensor has no memory of its own, or only a part of it: give the tensors that it "
            "stands for, such as to_local() of a DTensor, and gather what was freed (FSDP)"
        )


class Torch(StreamOrdered):
    """PyTorch's tensors."""

    def __init__(self) -> None:
        super().__init__()
        self._torch: Any = sys.modules["torch"]
        self._empty = self._torch.empty
        self._bytes = self._torch.uint8
        self._words = self._torch.int32
        self._devices: dict[int, Any] = {}
        self._makers: dict[Any, Any] = {}
        # Without a method of ours around it.
        self.pointer = self._torch.Tensor.data_ptr  # type: ignore[method-assign]
        # Faster than asking for each attribute.
        self._has_exchange = hasattr(self._torch.Tensor, "__dlpack_c_exchange_api__")
        # What current_stream() asks, without its object.
        self._raw_stream = getattr(self._torch._C, "_cuda_getCurrentRawStream", None)

    def view(self, array: Any, stream: int | None = None) -> View:
        # Dense bytes are all that DLPack takes of this type.
        if array.dtype is not self._bytes:
            refuse_special(array)
        if self._has_exchange:
            try:
                found = _native.describe(array, stream)
            except RuntimeError:
                # DLPack does not have every type.
                found = None
            if found is not None:
                # Of a freed storage, the address is the offset in it.
                if found[0] < _LEAST_ADDRESS:
                    refuse_without_memory(array)
                return found
        refuse_special(array)
        if not array.is_contiguous():
            raise BatchError("the tensor is not contiguous: make a copy that is")
        refuse_without_memory(array)
        device = array.get_device() if array.is_cuda else -1
        return array.data_ptr(), array.nbytes, device, array.shape, None, False

    def at(self, array: Any) -> tuple[int, int]:
        """Address and bytes of an array that was made here."""
        return array.data_ptr(), array.nbytes

    def stream(self, device: int) -> int:
        if self._raw_stream is None:
            return int(self._torch.cuda.current_stream(device).cuda_stream)
        return int(self._raw_stream(device))

    def is_capturing(self) -> bool:
        return bool(self._torch.cuda.is_current_stream_capturing())

    def _device(self, number: int) -> Any:
        device = self._devices.get(number)
        if device is None:
            device = self._devices[number] = self._torch.device("cuda", number)
        return device

    def maker(
        self, shape: tuple[int, ...], device: int, stream: int, words: bool = False
    ) -> Callable[[], Any]:
        wanted = (shape, device, words)
        found = self._makers.get(wanted)
        if found is None:
            kind, on = self._words if words else self._bytes, self._device(device)
            if 0 in shape:
                found = functools.partial(self._empty, shape, dtype=kind, device=on)
            else:
                # empty_like() has fewer arguments to look at; its templates have one item each.
                template = self._empty((), dtype=kind, device=on).expand(shape)
                found = functools.partial(self._torch.empty_like, template)
            if len(self._makers) < _MOST_MAKERS:
                self._makers[wanted] = found
        return found

    def empty(self, shape: tuple[int, ...], device: int, stream: int) -> Any:
        return self.maker(shape, device, stream)()

    def words(self, count: int, device: int, stream: int) -> Any:
        return self.maker((count,), device, stream, words=True)()

    def upload(self, data: Any, device: int, stream: int) -> Any:
        host = bytearray(memoryview(data).cast("B"))
        if not host:
            return self.empty((0,), device, stream)
        made = self._torch.frombuffer(host, dtype=self._bytes)
        return made.to(self._device(device), non_blocking=True)

    def plus(self, values: Any, number: int) -> Any:
        """64-bit integers, each with a number added."""
        return values.to(self._torch.int64) + number

    def count_up(self, first: int, step: int, count: int, device: int) -> Any:
        """64-bit integers."""
        made = self._torch.full(
            (count,), first, dtype=self._torch.int64, device=self._device(device)
        )
        if step:
            made += self._torch.arange(0, step * count, step, device=self._device(device))
        return made

    def on(self, stream: int, device: int) -> Any:
        """A context in which `stream` is the current one."""
        cuda = self._torch.cuda
        if not stream:
            return cuda.stream(cuda.default_stream(device))
        return cuda.stream(cuda.ExternalStream(stream, device=self._device(device)))

    def record(self, arrays: list[Any], stream: int, device: int) -> None:
        """Tells the allocator that work on `stream` uses arrays of other streams."""
        with self.on(stream, device):
            current = self._torch.cuda.current_stream(device)
        for array in arrays:
            if isinstance(array, self._torch.Tensor) and array.is_cuda:
                array.record_stream(current)

    def failed(self, words: Any, stream: int, device: int) -> list[int]:
        """The indices that are not 0. Waits."""
        with self.on(stream, device):
            if not bool(words.any()):
                return []
            found: list[int] = words.nonzero().flatten().tolist()
            return found

    def strided(self, interface: Any, device: int) -> Any:
        """An array over an object with `__cuda_array_interface__`."""
        return self._torch.as_tensor(interface, device=self._device(device))

    def host(self, array: Any) -> Any:
        """A tensor of host memory as a NumPy array of bytes, which shares it."""
        refuse_special(array)
        if not array.is_contiguous():
            raise BatchError("the tensor is not contiguous: make a copy that is")
        refuse_without_memory(array)
        # An empty array's strides may not allow a view of bytes.
        if array.numel():
            flat = array.detach().reshape(-1).view(self._bytes).numpy()
        else:
            flat = sys.modules["numpy"].empty(0, "u1")
        if array.dim() < 2:
            return flat
        count, *row = array.shape
        return flat.reshape(count, math.prod(row) * array.element_size())

    def from_host(self, made: Any) -> Any:
        return self._torch.from_numpy(made) if is_numpy(made) else made

    def host_words(self, failed: list[int], total: int) -> Any:
        words = self._torch.zeros(total, dtype=self._words)
        words[failed] = 1
        return words
