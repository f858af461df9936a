"""Tensors of PyTorch and arrays of NumPy: their memory, made and looked at."""

from __future__ import annotations

import ctypes
import importlib
import sys
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from warplock._arrays import refuse_without_memory
from warplock._errors import BatchError
from warplock._tensors import CHUNK, byte_len

if TYPE_CHECKING:
    from collections.abc import Buffer

    from warplock._native import TensorFile

    _Part = Buffer | tuple[int, int]

_TORCH = {
    "BOOL": "bool", "F4": "float4_e2m1fn_x2", "U8": "uint8", "I8": "int8",
    "F8_E5M2": "float8_e5m2", "F8_E4M3": "float8_e4m3fn", "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "I16": "int16", "U16": "uint16", "F16": "float16", "BF16": "bfloat16", "I32": "int32",
    "U32": "uint32", "F32": "float32", "C64": "complex64", "F64": "float64", "I64": "int64",
    "U64": "uint64",
}  # fmt: skip
_NUMPY = {dtype: name for dtype, name in _TORCH.items() if dtype != "F4"}


class Block(Protocol):
    """Bytes in the memory of a framework, filled from a file."""

    def tensor(self, start: int, dtype: str, shape: tuple[int, ...], *, alone: bool) -> Any:
        """The tensor at a place; a copy if it must not keep the whole block in memory."""


class Framework(Protocol):
    """Where tensors are wanted."""

    on_gpu: bool

    def fill(self, native: TensorFile, start: int, stop: int) -> tuple[Block, int]:
        """A block with the bytes of the plaintext from `start` to `stop`, and where it begins."""

    def select(self, tensor: Any, index: tuple[Any, ...]) -> Any:
        """`tensor[index]`, with memory of its own."""

    def check_end(self, native: TensorFile) -> None:
        """Verifies that the end of the file is the true one."""


def chosen(framework: str, device: Any) -> Framework:
    """Types by safetensors' names."""
    if framework in ("pt", "torch", "pytorch"):
        return Torch(device)
    if framework in ("np", "numpy"):
        if device not in (None, "cpu"):
            raise ValueError(f"NumPy arrays are in host memory, not on {device!r}")
        return NumPy()
    raise ValueError(f"framework {framework!r} is neither 'pt' nor 'np'")


def _host_memory(address: int, length: int) -> Buffer:
    return (ctypes.c_char * length).from_address(address)


# ---- PyTorch ---------------------------------------------------------------------------------


class TorchBlock:
    """A tensor of bytes."""

    def __init__(self, torch: Any, data: Any) -> None:
        self._torch, self._data = torch, data

    def tensor(self, start: int, dtype: str, shape: tuple[int, ...], *, alone: bool) -> Any:
        length = byte_len(dtype, shape) or 0
        data = self._data[start : start + length]
        kind = getattr(self._torch, _TORCH.get(dtype, ""), None)
        if kind is None:
            raise TypeError(f"this PyTorch has no type for {dtype}")
        size = kind.itemsize
        if alone or data.storage_offset() % size or (length and data.data_ptr() % size):
            data = data.clone()
        if dtype == "F4":  # two in a byte
            shape = (*shape[:-1], shape[-1] // 2)
        return data.view(kind).view(shape)


class Torch:
    """PyTorch, on the host or an NVIDIA GPU."""

    def __init__(self, device: Any) -> None:
        self.torch: Any = importlib.import_module("torch")
        if isinstance(device, int):
            device = f"cuda:{device}"
        self.device = self.torch.device("cpu" if device is None else device)
        self.on_gpu = self.device.type == "cuda"
        if self.on_gpu and self.device.index is None:
            self.device = self.torch.device("cuda", self.torch.cuda.current_device())
        elif self.device.type not in ("cpu", "cuda"):
            raise ValueError(f"device {str(device)!r} is neither the host nor an NVIDIA GPU")

    def place(self) -> tuple[int, int]:
        """The GPU's number, and the stream in which its memory is ready."""
        return self.device.index, self.torch.cuda.current_stream(self.device).cuda_stream

    def fill(self, native: TensorFile, start: int, stop: int) -> tuple[TorchBlock, int]:
        if self.on_gpu and stop > start:
            # Whole chunks, so that all go straight to their place.
            start -= start % CHUNK
            stop = min(stop + -stop % CHUNK, native.len)
        data = self.torch.empty(stop - start, dtype=self.torch.uint8, device=self.device)
        # Such as in a FakeTensorMode.
        refuse_without_memory(data)
        if self.on_gpu and stop > start:
            native.load(start, data.data_ptr(), stop - start, *self.place())
        elif stop > start:
            native.read_into(start, _host_memory(data.data_ptr(), stop - start))
        return TorchBlock(self.torch, data), start

    def select(self, tensor: Any, index: tuple[Any, ...]) -> Any:
        found = tensor[index]
        return found if found.numel() == tensor.numel() else found.clone()

    def check_end(self, native: TensorFile) -> None:
        if self.on_gpu:
            native.load(native.len, 0, 0, *self.place())
        else:
            native.read(native.len, 0)


# ---- NumPy -----------------------------------------------------------------------------------


def _numpy_type(dtype: str) -> Any:
    import numpy as np

    name = _NUMPY.get(dtype, "")
    if hasattr(np, name):
        return np.dtype(name)
    try:
        return np.dtype(getattr(importlib.import_module("ml_dtypes"), name))
    except (ImportError, AttributeError):
        raise TypeError(
            f"NumPy has no type for {dtype}: install ml_dtypes, or use framework='pt'"
        ) from None


class NumPyBlock:
    """An array of bytes."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def tensor(self, start: int, dtype: str, shape: tuple[int, ...], *, alone: bool) -> Any:
        data = self._data[start : start + (byte_len(dtype, shape) or 0)]
        kind = _numpy_type(dtype)
        if alone or (data.size and data.ctypes.data % kind.alignment):
            data = data.copy()
        return data.view(kind).reshape(shape)


class NumPy:
    """NumPy, in host memory."""

    on_gpu = False

    def fill(self, native: TensorFile, start: int, stop: int) -> tuple[NumPyBlock, int]:
        import numpy as np

        data = np.empty(stop - start, dtype=np.uint8)
        if stop > start:
            native.read_into(start, data)
        return NumPyBlock(data), start

    def select(self, tensor: Any, index: tuple[Any, ...]) -> Any:
        found = tensor[index]
        return found if found.size == tensor.size else found.copy()

    def check_end(self, native: TensorFile) -> None:
        native.read(native.len, 0)


# ---- To save ---------------------------------------------------------------------------------


class Given(NamedTuple):
    """A tensor to save."""

    dtype: str
    shape: tuple[int, ...]
    part: _Part
    """Its bytes: a buffer, or address and length of GPU memory."""
    device: Any
    """PyTorch's device, if it is a GPU."""
    keep: object
    """What the bytes belong to."""


_FROM_TORCH = {name: dtype for dtype, name in _TORCH.items()}
_FROM_NUMPY = {name: dtype for dtype, name in _NUMPY.items()}


def given(name: str, tensor: Any, device: Any) -> Given:
    """A tensor or array as bytes; one of another GPU than `device` is copied there."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(tensor, torch.Tensor):
        # Lazily negated or conjugated views are resolved.
        tensor = tensor.detach().resolve_conj().resolve_neg()
        if tensor.layout != torch.strided:
            raise ValueError(
                f"tensor {name!r} has the layout {tensor.layout}: save dense tensors, such as its "
                "indices and values"
            )
        if not tensor.is_contiguous():
            raise ValueError(f"tensor {name!r} is not contiguous: save tensor.contiguous()")
        if tensor.device.type == "cuda" and device is not None:
            tensor = tensor.to(device)
        elif tensor.device.type not in ("cuda", "cpu"):
            tensor = tensor.cpu()
        try:
            refuse_without_memory(tensor)
        except BatchError as error:
            raise ValueError(f"tensor {name!r}: {error}") from None
        dtype = _FROM_TORCH.get(str(tensor.dtype).removeprefix("torch."))
        shape = tuple(tensor.shape)
        length = tensor.numel() * tensor.element_size()
        part: _Part
        if dtype == "F4":
            shape = (*shape[:-1], shape[-1] * 2)
        if tensor.device.type == "cuda":
            part = (tensor.data_ptr(), length)
            place = tensor.device
        else:
            part = _host_memory(tensor.data_ptr(), length) if length else b""
            place = None
        kind: Any = tensor.dtype
    else:
        import numpy as np

        tensor = np.asarray(tensor)
        if not tensor.flags.c_contiguous:
            raise ValueError(f"array {name!r} is not contiguous: save np.ascontiguousarray of it")
        if tensor.dtype.byteorder == ">" or (
            tensor.dtype.byteorder == "=" and sys.byteorder == "big"
        ):
            tensor = tensor.byteswap()
        kind, shape, place = tensor.dtype, tensor.shape, None
        dtype = _FROM_NUMPY.get(kind.name)
        part = b"" if dtype is None else tensor.reshape(-1).view(np.uint8)
    if dtype is None:
        raise TypeError(f"tensor {name!r} has the type {kind}, which safetensors has no name for")
    return Given(dtype, shape, part, place, tensor)
