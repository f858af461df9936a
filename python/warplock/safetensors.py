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
import json
import os
import pathlib
from typing import IO, TYPE_CHECKING, Any, TypedDict, Unpack

from warplock import _files, _frameworks, _native, _tensors
from warplock._errors import CorruptedError, FormatError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from warplock._native import Engine, Identity, Recipient

    _Path = str | os.PathLike[str]

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


class LockArguments(TypedDict, total=False):
    """What may open a file that is made, as in `warplock.encrypt_file`."""

    recipients: _files._Recipients | None
    identities: _files._Identities | None
    passphrase: _files._Passphrase | None
    key: _files._Key | None
    engine: Engine | None


class UnlockArguments(TypedDict, total=False):
    """What opens a file, as in `warplock.decrypt_file`."""

    identities: _files._Identities | None
    passphrase: _files._Passphrase | None
    key: _files._Key | None
    max_work: int | None
    engine: Engine | None


def _values(names: type, given: dict[str, Any]) -> list[Any]:
    """The arguments that a dictionary type names, in its order."""
    values = [given.pop(name, None) for name in names.__annotations__]
    if given:
        raise TypeError(f"unknown argument {next(iter(given))!r}")
    return values


class _File:
    """An encrypted file whose header was read."""

    def __init__(
        self, file: _Path | IO[bytes], framework: str, device: Any, keys: UnlockArguments
    ) -> None:
        self.framework = _frameworks.chosen(framework, device)
        self.native = _native.TensorFile(file, *_values(UnlockArguments, {**keys}))
        try:
            self.header = self._header()
        except FormatError:
            # What was cut or extended is not another format.
            self.framework.check_end(self.native)
            raise

    def _header(self) -> _tensors.Header:
        content = self.native.len
        try:
            start = self.native.read(0, min(8, content))
            text = self.native.read(8, _tensors.header_len(start, content))
        except CorruptedError as error:
            raise _named(error, "the header") from None
        return _tensors.parse(text, content)

    def fill(self, start: int, stop: int) -> tuple[_frameworks.Block, int]:
        """The bytes of the content from `start` to `stop`."""
        try:
            return self.framework.fill(self.native, start, stop)
        except CorruptedError as error:
            raise self.named(error) from None

    def check_end(self) -> None:
        """Verifies that the end of the file is the true one."""
        try:
            self.framework.check_end(self.native)
        except CorruptedError as error:
            raise self.named(error) from None

    def named(self, error: CorruptedError) -> CorruptedError:
        if error.offset is None:
            return error
        tensor = self.header.near(error.offset)
        what = "the header" if tensor is None else f"tensor {tensor!r}"
        return _named(error, what, tensor)

    def entry(self, name: str) -> _tensors.Entry:
        try:
            return self.header.entries[name]
        except KeyError:
            raise KeyError(f"the file has no tensor {name!r}") from None

    def all(self) -> dict[str, Any]:
        data = self.header.data
        if data == self.native.len:
            self.check_end()
        block, begin = self.fill(data, self.native.len)
        return {
            name: block.tensor(data - begin + entry.start, entry.dtype, entry.shape, alone=False)
            for name, entry in self.header.entries.items()
        }

    def part(self, dtype: str, shape: tuple[int, ...], start: int) -> Any:
        """The tensor of this shape whose bytes begin at `start`, after the header."""
        length = _tensors.byte_len(dtype, shape) or 0
        start += self.header.data
        block, begin = self.fill(start, start + length)
        # A small tensor shall not hold the chunks around it.
        alone = self.framework.on_gpu and length < 8 * _tensors.CHUNK
        return block.tensor(start - begin, dtype, shape, alone=alone)


def _named(error: CorruptedError, what: str, tensor: str | None = None) -> CorruptedError:
    return type(error)(f"{what}: {error}", error.chunk, error.offset, tensor)


class Slice:
    """A tensor that is read in part: `slice[2:4]` reads the rows 2 and 3 alone.

    What is read is the run of bytes from the first element wanted to the last, in chunks of 16 KiB:
    parts of rows are cut out of it on the device.
    """

    def __init__(self, file: _File, entry: _tensors.Entry) -> None:
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
        number = want.__index__()
        if not -length <= number < length:
            raise IndexError(f"index {number} is outside of {length} elements")
        full.append(number % length)
    return full


class SafeOpen:
    """An open file; see `safe_open`."""

    def __init__(
        self,
        filename: _Path | IO[bytes],
        framework: str = "pt",
        device: Any = "cpu",
        **keys: Unpack[UnlockArguments],
    ) -> None:
        self._file = _File(filename, framework, device, keys)
        self._file.check_end()

    def __enter__(self) -> SafeOpen:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        del self._file

    def keys(self) -> list[str]:
        """The tensors' names, sorted."""
        return sorted(self._file.header.entries)

    def offset_keys(self) -> list[str]:
        """The tensors' names, in the order of the file."""
        return list(self._file.header.entries)

    def metadata(self) -> dict[str, str] | None:
        """The texts that were saved beside the tensors."""
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
    filename: _Path | IO[bytes],
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
    filename: _Path | IO[bytes],
    device: Any = "cpu",
    *,
    framework: str = "pt",
    **keys: Unpack[UnlockArguments],
) -> dict[str, Any]:
    """All tensors of an encrypted file, verified to the last byte.

    They are views of one block of memory, which is freed with the last of them. If a bit was changed,
    `CorruptedError` names the tensor, and what was loaded is zeros.
    """
    return _File(filename, framework, device, keys).all()


def load(
    data: bytes, device: Any = "cpu", *, framework: str = "pt", **keys: Unpack[UnlockArguments]
) -> dict[str, Any]:
    """All tensors of an encrypted file that is in memory."""
    return load_file(io.BytesIO(data), device, framework=framework, **keys)


def _save(
    tensors: Mapping[str, Any],
    dst: _Path | IO[bytes],
    metadata: Mapping[str, str] | None,
    replace: bool,
    keys: LockArguments,
) -> None:
    given: dict[str, _frameworks.Given] = {}
    device = None
    for name, tensor in tensors.items():
        given[name] = _frameworks.given(name, tensor, device)
        device = device or given[name].device
    described = ((name, one.dtype, one.shape) for name, one in given.items())
    header, order = _tensors.write(described, metadata)
    recipients, identities, passphrase, key, engine = _values(LockArguments, {**keys})
    _native.save_tensors(
        dst,
        [header, *(given[name].part for name in order)],
        None if device is None else _frameworks.Torch(device).place(),
        recipients,
        identities,
        passphrase,
        key,
        replace,
        engine,
    )


def save_file(
    tensors: Mapping[str, Any],
    filename: _Path | IO[bytes],
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
    _save(tensors, filename, metadata, replace, keys)


def save(
    tensors: Mapping[str, Any],
    metadata: Mapping[str, str] | None = None,
    **keys: Unpack[LockArguments],
) -> bytes:
    """An encrypted file of tensors, as bytes."""
    store = io.BytesIO()
    _save(tensors, store, metadata, True, keys)
    return store.getvalue()


# ---- Models of several files -----------------------------------------------------------------

_SUFFIX = ".wl"
_STREAMS = "warplock_streams"
"""In the index's metadata: the beginning of each file's stream, which no other file has."""


def save_sharded(
    tensors: Mapping[str, Any],
    folder: _Path,
    *,
    name: str = "model",
    max_shard_size: int = 5_000_000_000,
    metadata: Mapping[str, str] | None = None,
    **keys: Unpack[LockArguments],
) -> None:
    """Saves a model to a folder, in files of at most `max_shard_size` bytes, with an index.

    Names are those of Hugging Face with `.wl`. The index is encrypted like the files, and says which
    ones belong to it: older ones, exchanged ones and those of another model are refused.
    """
    top = pathlib.Path(folder)
    top.mkdir(parents=True, exist_ok=True)
    shards: list[dict[str, Any]] = [{}]
    room, total = max_shard_size, 0
    for key, tensor in tensors.items():
        size = int(tensor.nbytes)
        if size > room and shards[-1]:
            shards.append({})
            room = max_shard_size
        shards[-1][key] = tensor
        room -= size
        total += size
    if len(shards) == 1:
        _save(tensors, top / f"{name}.safetensors{_SUFFIX}", metadata, True, {**keys})
        return
    weights, streams = {}, {}
    for number, shard in enumerate(shards, 1):
        file = f"{name}-{number:05}-of-{len(shards):05}.safetensors"
        _save(shard, top / (file + _SUFFIX), metadata, True, {**keys})
        streams[file] = _stream_header(top / (file + _SUFFIX))
        weights.update(dict.fromkeys(shard, file))
    index = {"metadata": {"total_size": total, _STREAMS: streams}, "weight_map": weights}
    store = io.BytesIO(json.dumps(index, indent=2).encode())
    path = top / f"{name}.safetensors.index.json{_SUFFIX}"
    _files.encrypt_file(store, path, replace=True, **keys)


def _stream_header(path: pathlib.Path) -> str:
    at = _files.inspect(path).stream_offset
    with path.open("rb") as file:
        file.seek(at or 0)
        return file.read(56).hex()


class _Index:
    """Which file has which tensor, and which streams those files must have, if it says."""

    def __init__(self, folder: _Path, name: str, keys: UnlockArguments) -> None:
        self.top = pathlib.Path(folder)
        index = self.top / f"{name}.safetensors.index.json"
        sealed = index.with_name(index.name + _SUFFIX)
        text: bytes | None = None
        if sealed.exists():
            with _files.open(sealed, **keys) as file:
                text = file.read()
        elif index.exists():
            text = index.read_bytes()
        self.streams: dict[str, str] | None = None
        self.weights: dict[str, str] | None = None
        if text is None:
            return
        try:
            found = json.loads(text)
            weights, streams = found["weight_map"], found.get("metadata", {}).get(_STREAMS)
            texts = [*weights, *weights.values(), *(streams or {}), *(streams or {}).values()]
        except (ValueError, KeyError, TypeError, AttributeError):
            texts = [None]
        if not all(isinstance(text, str) for text in texts):
            raise FormatError(f"{index.name} is not an index of safetensors files")
        if any(os.path.basename(file) != file for file in weights.values()):
            raise FormatError(f"{index.name} names files in other folders")
        self.weights, self.streams = weights, streams

    def check(self, file: str, opened: _File) -> None:
        """Refuses a file that is not the index's."""
        wanted = {name for name, place in (self.weights or {}).items() if place == file}
        found = opened.native.stream_header().hex()
        if self.streams is not None and self.streams.get(file) != found:
            raise CorruptedError(f"{file}: this is not the file that the index was made with")
        if wanted != set(opened.header.entries):
            raise CorruptedError(f"{file}: it does not have the tensors that the index says")


def weight_map(
    folder: _Path, *, name: str = "model", **keys: Unpack[UnlockArguments]
) -> dict[str, str]:
    """For each tensor of a folder, the path of its file, for `safe_open`: each of the files was
    compared with the index."""
    index = _Index(folder, name, {**keys})
    paths = {}
    for file in _shards(index, name):
        path = index.top / (file + _SUFFIX)
        opened = _File(path, "np", "cpu", {**keys})
        if index.weights is not None:
            index.check(file, opened)
        paths.update(dict.fromkeys(opened.header.entries, str(path)))
    return paths


def _shards(index: _Index, name: str) -> Sequence[str]:
    if index.weights is None:
        return [f"{name}.safetensors"]
    return sorted(set(index.weights.values()))


def load_sharded(
    folder: _Path,
    device: Any = "cpu",
    *,
    name: str = "model",
    framework: str = "pt",
    **keys: Unpack[UnlockArguments],
) -> dict[str, Any]:
    """All tensors of a folder: of `save_sharded`, or one whose safetensors files were encrypted.

    An index that is not encrypted is read, too; it is not authenticated, and may name old files.
    """
    index = _Index(folder, name, {**keys})
    tensors: dict[str, Any] = {}
    for file in _shards(index, name):
        opened = _File(index.top / (file + _SUFFIX), framework, device, {**keys})
        if index.weights is not None:
            index.check(file, opened)
        tensors.update(opened.all())
    return tensors
