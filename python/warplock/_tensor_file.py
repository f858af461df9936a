"""Encrypted files of tensors: the header read, the rest on demand; and written."""

from __future__ import annotations

import os
from typing import IO, TYPE_CHECKING, Any, TypedDict

from warplock import _frameworks, _native, _tensors
from warplock._errors import CorruptedError, FormatError
from warplock._keys_kept import as_list, refuse_key_files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from warplock import _files
    from warplock._native import Engine

Path = str | os.PathLike[str]


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


class File:
    """An encrypted file whose header was read."""

    def __init__(
        self, file: Path | IO[bytes], framework: str, device: Any, keys: UnlockArguments
    ) -> None:
        self.framework = _frameworks.chosen(framework, device)
        self.native = _native.TensorFile(file, *_values(UnlockArguments, {**keys}))
        try:
            self.header = self._header()
        except FormatError:
            # A cut or extended file is not another format.
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
        # A small tensor must not keep the chunks around it in memory.
        alone = self.framework.on_gpu and length < 8 * _tensors.CHUNK
        return block.tensor(start - begin, dtype, shape, alone=alone)


def _named(error: CorruptedError, what: str, tensor: str | None = None) -> CorruptedError:
    return type(error)(f"{what}: {error}", error.chunk, error.offset, tensor)


def save(
    tensors: Mapping[str, Any],
    dst: Path | IO[bytes],
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
    recipients, identities = as_list(recipients), as_list(identities)
    if replace:
        refuse_key_files(dst, recipients, identities, key)
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
