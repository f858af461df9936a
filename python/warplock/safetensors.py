"""Encrypted safetensors: the functions of safetensors, with keys.

A file is an ordinary safetensors file, encrypted as by `warplock encrypt`: `warplock decrypt` gives
it back. On `device="cuda"` the ciphertext is opened on the GPU, and no tensor is ever in host memory
unencrypted.

>>> import numpy as np, tempfile, os
>>> from warplock.keys import Identity
>>> from warplock.safetensors import load_file, safe_open, save_file
>>> folder = tempfile.TemporaryDirectory(); os.chdir(folder.name)
>>> me = Identity.generate()
>>> save_file({"weight": np.eye(3, dtype="f4")}, "model.safetensors.wl", recipients=me)
>>> load_file("model.safetensors.wl", framework="np", identities=me)["weight"].trace()
np.float32(3.0)
>>> with safe_open("model.safetensors.wl", framework="np", identities=me) as file:
...     file.keys(), file.get_slice("weight")[0, :2]
(['weight'], array([1., 0.], dtype=float32))
"""

from __future__ import annotations

import io
import operator
from typing import IO, TYPE_CHECKING, Any, Unpack

from warplock import _tensors
from warplock._shards import load_sharded, save_sharded, weight_map
from warplock._tensor_file import File, LockArguments, Path, UnlockArguments
from warplock._tensor_file import save as write

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

__all__ = [
    "SafeOpen",
    "Slice",
    "load",
    "load_file",
    "load_sharded",
    "safe_open",
    "save",
    "save_file",
    "save_sharded",
    "weight_map",
]


class Slice:
    """A tensor that is read in part: `slice[2:4]` reads the rows 2 and 3 alone.

    What is read is the run of bytes from the first element wanted to the last, in chunks of 16 KiB:
    parts of rows are cut out of it on the device.
    """

    def __init__(self, file: File, entry: _tensors.Entry) -> None:
        self._file, self._entry = file, entry

    def get_shape(self) -> list[int]:
        """The tensor's shape."""
        return list(self._entry.shape)

    def get_dtype(self) -> str:
        """The tensor's type, by safetensors' name."""
        return self._entry.dtype

    def __getitem__(self, index: Any) -> Any:
        """The elements that PyTorch and NumPy have at `index`: numbers, slices and `...`."""
        _, dtype, shape, start, _ = self._entry
        wanted = _full_index(index, shape)
        rest: list[Any] = []
        for axis, (length, want) in enumerate(zip(shape, wanted)):
            inner = shape[axis + 1 :]
            row = _tensors.byte_len(dtype, inner)
            if row is None:  # less than a byte: cut from all of it
                break
            if isinstance(want, int):
                start += want * row
                continue
            places = range(length)[want]
            first, stop = (places[0], places[-1] + 1) if places else (0, 0)
            found = self._file.part(dtype, (stop - first, *inner), start + first * row)
            rest = [slice(None, None, want.step), *wanted[axis + 1 :]]
            return self._file.framework.select(found, tuple(rest))
        else:
            return self._file.part(dtype, (), start)
        found = self._file.part(dtype, shape[axis:], start)
        return self._file.framework.select(found, tuple(wanted[axis:]))


def _full_index(index: Any, shape: tuple[int, ...]) -> list[int | slice]:
    """A number or slice for each axis."""
    given = list(index) if isinstance(index, tuple) else [index]
    if given.count(...) > 1:
        raise IndexError("an index has at most one '...'")
    if ... in given:
        at = given.index(...)
        given[at : at + 1] = [slice(None)] * (len(shape) - len(given) + 1)
    given += [slice(None)] * (len(shape) - len(given))
    if len(given) > len(shape):
        raise IndexError(f"{len(given)} indices for {len(shape)} axes")
    full: list[int | slice] = []
    for want, length in zip(given, shape):
        if isinstance(want, slice):
            if want.step is not None and want.step < 1:
                raise IndexError("a slice's step must be positive")
            full.append(want)
            continue
        if isinstance(want, bool):
            raise TypeError("an index is a number, a slice or '...', not a bool")
        number = operator.index(want)
        if not -length <= number < length:
            raise IndexError(f"index {number} is outside of {length} elements")
        full.append(number % length)
    return full


class SafeOpen:
    """An open file; see `safe_open`."""

    def __init__(
        self,
        filename: Path | IO[bytes],
        framework: str = "pt",
        device: Any = "cpu",
        **keys: Unpack[UnlockArguments],
    ) -> None:
        self._opened: File | None = File(filename, framework, device, keys)
        self._file.check_end()

    @property
    def _file(self) -> File:
        if self._opened is None:
            raise ValueError("the file is closed")
        return self._opened

    def __enter__(self) -> SafeOpen:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._opened = None

    def keys(self) -> list[str]:
        """The tensors' names, sorted."""
        return sorted(self._file.header.entries)

    def offset_keys(self) -> list[str]:
        """The tensors' names, in the order of the file."""
        return list(self._file.header.entries)

    def metadata(self) -> dict[str, str] | None:
        """The texts that were saved with the tensors."""
        return self._file.header.metadata

    def get_tensor(self, name: str) -> Any:
        """One tensor: only its chunks are read."""
        entry = self._file.entry(name)
        return self._file.part(entry.dtype, entry.shape, entry.start)

    def get_tensors(self) -> dict[str, Any]:
        """All tensors."""
        return self._file.all()

    def get_slice(self, name: str) -> Slice:
        """A tensor to be read in part."""
        return Slice(self._file, self._file.entry(name))


def safe_open(
    filename: Path | IO[bytes],
    framework: str = "pt",
    device: Any = "cpu",
    **keys: Unpack[UnlockArguments],
) -> SafeOpen:
    """Opens an encrypted file, to read some of its tensors: a path or a seekable file object.

    The header is verified now, and the end of the file; each chunk when it is read. `framework`:
    "pt" (PyTorch) or "np" (NumPy); `device`: PyTorch's. The other arguments are those of
    `warplock.decrypt_file`.
    """
    return SafeOpen(filename, framework, device, **keys)


def load_file(
    filename: Path | IO[bytes],
    device: Any = "cpu",
    *,
    framework: str = "pt",
    **keys: Unpack[UnlockArguments],
) -> dict[str, Any]:
    """All tensors of an encrypted file, verified to the last byte.

    They are views of one block of memory, which is freed with the last of them. If a bit was changed,
    `CorruptedError` names the tensor, and what was loaded is zeros.
    """
    return File(filename, framework, device, keys).all()


def load(
    data: bytes, device: Any = "cpu", *, framework: str = "pt", **keys: Unpack[UnlockArguments]
) -> dict[str, Any]:
    """All tensors of an encrypted file that is in memory."""
    return load_file(io.BytesIO(data), device, framework=framework, **keys)


def save_file(
    tensors: Mapping[str, Any],
    filename: Path | IO[bytes],
    metadata: Mapping[str, str] | None = None,
    *,
    replace: bool = True,
    **keys: Unpack[LockArguments],
) -> None:
    """Saves tensors or arrays as an encrypted file; those on a GPU are sealed there.

    The file appears under its name when all of it is on the disk. As with safetensors, an existing
    one is replaced, unless `replace` is false. Two names for one tensor are two tensors. The other
    arguments are those of `warplock.encrypt_file`.
    """
    write(tensors, filename, metadata, replace, keys)


def save(
    tensors: Mapping[str, Any],
    metadata: Mapping[str, str] | None = None,
    **keys: Unpack[LockArguments],
) -> bytes:
    """An encrypted file of tensors, as bytes."""
    store = io.BytesIO()
    write(tensors, store, metadata, True, keys)
    return store.getvalue()
