"""Arrays of other libraries: where they lie, and new ones of the same library."""

from __future__ import annotations

import contextlib
import math
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from warplock import _native
from warplock._errors import BatchError, CaptureError
from warplock._layout import buffer, is_numpy

View = tuple[int, int, int, Any, "int | None", bool]
"""An array's address, bytes, GPU (negative: host memory), shape, the stream to work on if that is
not the current one of its library, and whether it may only be read."""

# An array that was made here to work in, and its address and bytes.
_Room = tuple[Any, tuple[int, int]]


class _Rooms(threading.local):
    """One thread's workspaces, by GPU and stream."""

    def __init__(self) -> None:
        self.by_stream: dict[tuple[int, int], _Room] = {}


# Shapes of tensors whose making is prepared.
_MOST_TEMPLATES = 1024

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


def refuse_special(tensor: Any) -> None:
    """Refuses tensors that their bytes do not describe completely."""
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


class Torch:
    """PyTorch's tensors."""

    immutable = False

    def __init__(self) -> None:
        self._torch: Any = sys.modules["torch"]
        self._empty = self._torch.empty
        self._bytes = self._torch.uint8
        self._words = self._torch.int32
        self._devices: dict[int, Any] = {}
        self._like = self._torch.empty_like
        self._templates: dict[Any, Any] = {}
        self._rooms = _Rooms()
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
                return found
        refuse_special(array)
        if not array.is_contiguous():
            raise BatchError("the tensor is not contiguous: make a copy that is")
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

    def rooms(self) -> dict[tuple[int, int], _Room]:
        """This thread's workspaces, which its calls may leave here for those that follow."""
        return self._rooms.by_stream

    def _new(self, shape: tuple[int, ...], kind: Any, device: int) -> Any:
        # empty_like() has fewer arguments to look at; its templates have one item each.
        wanted = (shape, kind, device)
        template = self._templates.get(wanted)
        if template is not None:
            return self._like(template)
        on = self._device(device)
        if len(self._templates) < _MOST_TEMPLATES and 0 not in shape:
            self._templates[wanted] = self._empty((), dtype=kind, device=on).expand(shape)
        return self._empty(shape, dtype=kind, device=on)

    def empty(self, shape: tuple[int, ...], device: int, stream: int) -> Any:
        return self._new(shape, self._bytes, device)

    def words(self, count: int, device: int, stream: int) -> Any:
        return self._new((count,), self._words, device)

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

    def keep(self, arrays: list[Any], device: int) -> None:
        """Its allocator frees in stream order."""

    def result(self, array: Any) -> Any:
        return array

    def any(self, words: Any) -> Any:
        return words.any()

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


class CuPy:
    """CuPy's arrays."""

    immutable = False

    def __init__(self) -> None:
        self._cupy: Any = sys.modules["cupy"]
        self._rooms = _Rooms()

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

    def rooms(self) -> dict[tuple[int, int], _Room]:
        return self._rooms.by_stream

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

    def keep(self, arrays: list[Any], device: int) -> None:
        """Its allocator frees in stream order."""

    def result(self, array: Any) -> Any:
        return array

    def any(self, words: Any) -> Any:
        return words.any()

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


class Host:
    """NumPy's arrays, and everything with the buffer protocol."""

    immutable = False

    def view(self, array: Any, stream: int | None = None) -> View:
        return 0, 0, -1, (), None, False

    def host(self, array: Any) -> Any:
        view = buffer(array, "the array")
        if view.ndim < 3 or not is_numpy(array) or not view.c_contiguous:
            return array
        count, *row = array.shape
        return array.reshape(-1).view("u1").reshape(count, math.prod(row) * view.itemsize)

    def from_host(self, made: Any) -> Any:
        return made

    def host_words(self, failed: list[int], total: int) -> Any:
        numpy = sys.modules.get("numpy")
        if numpy is None:
            import array

            words: Any = array.array("I", bytes(4 * total))
            for place in failed:
                words[place] = 1
            return words
        words = numpy.zeros(total, "u4")
        words[failed] = 1
        return words


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


class Other:
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

    def stream(self, device: int) -> int:
        return 0

    def is_capturing(self) -> bool:
        return False

    def rooms(self) -> dict[tuple[int, int], _Room]:
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
