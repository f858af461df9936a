"""Encrypted Parquet files (Parquet Modular Encryption) to plain ones, which any engine reads, and
plain ones to encrypted ones.

>>> from warplock import parquet
>>> table = pyarrow.parquet.read_table(parquet.open("table.parquet", key))  # doctest: +SKIP

AES_GCM_V1 and AES_GCM_CTR_V1 with keys of 128, 192 and 256 bits, encrypted and plaintext footers,
keys of columns, AAD prefixes in the file or given.
"""

from __future__ import annotations

import contextlib
import io
import mmap
import os
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, Any, Literal, overload

from warplock import _native
from warplock._key_tools import KeyTools
from warplock._native import DeviceFile

if TYPE_CHECKING:
    from collections.abc import Buffer, Callable, Iterator

    from warplock._native import Engine

    _Source = str | os.PathLike[str] | Buffer | IO[bytes]
    _Key = bytes | bytearray | memoryview
    _Algorithm = Literal["AES_GCM_V1", "AES_GCM_CTR_V1"]
    _Lookup = Callable[[bytes | None, str | None], _Key | None]

__all__ = ["DeviceFile", "KeyTools", "decrypt", "encrypt", "open"]


@overload
def decrypt(
    source: _Source,
    key: _Key | _Lookup | None = None,
    *,
    column_keys: Mapping[str, _Key] | None = None,
    aad_prefix: bytes | None = None,
    out: None = None,
    replace: bool = False,
    device: None = None,
    engine: Engine | None = None,
) -> bytes: ...
@overload
def decrypt(
    source: _Source,
    key: _Key | _Lookup | None = None,
    *,
    column_keys: Mapping[str, _Key] | None = None,
    aad_prefix: bytes | None = None,
    out: str | os.PathLike[str] | IO[bytes],
    replace: bool = False,
    device: None = None,
    engine: Engine | None = None,
) -> int: ...
@overload
def decrypt(
    source: _Source,
    key: _Key | _Lookup | None = None,
    *,
    column_keys: Mapping[str, _Key] | None = None,
    aad_prefix: bytes | None = None,
    out: None = None,
    replace: bool = False,
    device: int,
    engine: Engine | None = None,
) -> DeviceFile: ...
def decrypt(
    source: _Source,
    key: _Key | _Lookup | None = None,
    *,
    column_keys: Mapping[str, _Key] | None = None,
    aad_prefix: bytes | None = None,
    out: str | os.PathLike[str] | IO[bytes] | None = None,
    replace: bool = False,
    device: int | None = None,
    engine: Engine | None = None,
) -> bytes | int | DeviceFile:
    """Decrypts a file (bytes, a path, or a seekable binary file) to a plain Parquet file: to `out`,
    to bytes, or to memory of the GPU `device`.

    `key` is the footer's key, which uniformly encrypted files have for their columns too, or a
    function: `key(metadata, column)` is called once for each key with what the writer stored to
    find it, and with the column's path (`"a.list.element"`), or None for the footer. For files of
    pyarrow's, Spark's and Java's key tools, `KeyTools` is that function. `column_keys` has keys by
    column path.

    If the file was made with an AAD prefix, give it to make sure that it is the file that you
    expect.

    Row groups, pages, indexes and bloom filters stay as they are; page checksums are left out. All
    is verified (but pages of AES_GCM_CTR_V1, which that algorithm does not authenticate), and a
    file `out` appears only when it is complete. If this raises, discard what a file object `out`
    got. Memory: the largest column chunk; bytes are held as a whole.

    To a GPU, pages are opened there, so that the host never has their plaintext. The result has
    `__cuda_array_interface__`, `ptr` and `nbytes`, for cuDF, CuPy and PyTorch. It waits until all is
    verified. A path is mapped into memory: nothing may cut the file meanwhile.
    """
    _check_bytes(aad_prefix=aad_prefix)
    if device is not None:
        if out is not None:
            raise ValueError("out and device are two places: give one")
        with _bytes_of(source) as (data, descriptor):
            return _native.decrypt_parquet_to_gpu(
                data, descriptor, _lookup(key, column_keys), aad_prefix, device, engine
            )
    return _native.decrypt_parquet(
        source, _lookup(key, column_keys), aad_prefix, out, replace, engine
    )


def open(
    source: _Source,
    key: _Key | _Lookup | None = None,
    *,
    column_keys: Mapping[str, _Key] | None = None,
    aad_prefix: bytes | None = None,
    engine: Engine | None = None,
) -> io.RawIOBase:
    """The plain Parquet file of an encrypted one as a file object, for pyarrow and pandas. Pages are
    decrypted when they are read.

    The footer, the headers of all pages, indexes and bloom filters are verified here, with the keys
    of all columns; a page is when a part of it is read, which raises `CorruptedError` if the page was
    changed. A path is mapped into memory: nothing may cut the file meanwhile. A file object is read
    as a whole.
    """
    _check_bytes(aad_prefix=aad_prefix)
    return _PlainFile(source, _lookup(key, column_keys), aad_prefix, engine)


class _PlainFile(io.RawIOBase):
    def __init__(
        self,
        source: _Source,
        lookup: _Lookup,
        aad_prefix: bytes | None,
        engine: Engine | None,
    ) -> None:
        with contextlib.ExitStack() as stack:
            self._data, _ = stack.enter_context(_bytes_of(source))
            self._file = _native.LazyParquet(self._data, lookup, aad_prefix, engine)
            self._unmap = stack.pop_all()
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        self._check()
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._check()
        starts = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: len(self._file)}
        if whence not in starts:
            raise ValueError(f"whence is 0, 1 or 2, not {whence!r}")
        place = starts[whence] + offset
        if place < 0:
            raise ValueError("a place before the beginning")
        self._at = place
        return place

    def read(self, size: int | None = -1) -> bytes:
        self._check()
        if size is None or size < 0:
            size = len(self._file)
        data = self._file.read(self._data, self._at, size)
        self._at += len(data)
        return data

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: Any) -> int:
        room = memoryview(buffer).cast("B")
        data = self.read(len(room))
        room[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            super().close()
            if hasattr(self, "_unmap"):
                self._unmap.close()

    def _check(self) -> None:
        if self.closed:
            raise ValueError("the file is closed")


@overload
def encrypt(
    source: _Source,
    key: _Key,
    *,
    column_keys: Mapping[str, _Key] | None = None,
    algorithm: _Algorithm = "AES_GCM_V1",
    plaintext_footer: bool = False,
    aad_prefix: bytes | None = None,
    store_aad_prefix: bool = True,
    key_metadata: bytes | None = None,
    column_key_metadata: Mapping[str, bytes] | None = None,
    out: None = None,
    replace: bool = False,
    engine: Engine | None = None,
) -> bytes: ...
@overload
def encrypt(
    source: _Source,
    key: _Key,
    *,
    column_keys: Mapping[str, _Key] | None = None,
    algorithm: _Algorithm = "AES_GCM_V1",
    plaintext_footer: bool = False,
    aad_prefix: bytes | None = None,
    store_aad_prefix: bool = True,
    key_metadata: bytes | None = None,
    column_key_metadata: Mapping[str, bytes] | None = None,
    out: str | os.PathLike[str] | IO[bytes],
    replace: bool = False,
    engine: Engine | None = None,
) -> int: ...
def encrypt(
    source: _Source,
    key: _Key,
    *,
    column_keys: Mapping[str, _Key] | None = None,
    algorithm: _Algorithm = "AES_GCM_V1",
    plaintext_footer: bool = False,
    aad_prefix: bytes | None = None,
    store_aad_prefix: bool = True,
    key_metadata: bytes | None = None,
    column_key_metadata: Mapping[str, bytes] | None = None,
    out: str | os.PathLike[str] | IO[bytes] | None = None,
    replace: bool = False,
    engine: Engine | None = None,
) -> bytes | int:
    """Encrypts a plain Parquet file (bytes, a path, or a seekable binary file): to `out`, or to
    bytes.

    `key` is the key of the footer and of all columns but those in `column_keys`, by their paths
    (`"a.list.element"`). Take new keys for each file, or at least never encrypt more than 2^32 pages
    and headers with one. `key_metadata` and `column_key_metadata` are stored, not encrypted, for
    readers to find the keys. `KeyTools.new_keys` makes all four for a key management service.

    `AES_GCM_CTR_V1` does not authenticate pages. With `plaintext_footer`, schema and sizes can be
    read without a key; they are signed. `aad_prefix` names the file, so that it cannot be taken for
    another; with `store_aad_prefix=False` readers must give it.
    """
    if algorithm not in ("AES_GCM_V1", "AES_GCM_CTR_V1"):
        raise ValueError("algorithm must be AES_GCM_V1 or AES_GCM_CTR_V1")
    _check_bytes(aad_prefix=aad_prefix, key_metadata=key_metadata)
    metadata: dict[str | None, bytes] = {} if key_metadata is None else {None: key_metadata}
    metadata.update(_by_column(column_key_metadata=column_key_metadata))
    return _native.encrypt_parquet(
        source,
        key,
        list(_by_column(column_keys=column_keys).items()),
        metadata,
        algorithm == "AES_GCM_CTR_V1",
        plaintext_footer,
        aad_prefix,
        store_aad_prefix,
        out,
        replace,
        engine,
    )


def _check_bytes(**given: object) -> None:
    for name, value in given.items():
        if value is not None and not isinstance(value, (bytes, bytearray)):
            raise TypeError(f"{name} must be bytes, not {type(value).__name__}")


@contextlib.contextmanager
def _bytes_of(source: _Source) -> Iterator[tuple[Buffer, int | None]]:
    """The bytes of a source, those of a path without reading them; and the descriptor of a path."""
    if isinstance(source, (str, os.PathLike)):
        with io.open(source, "rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                yield b"", None
                return
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                yield mapped, file.fileno()
        return
    data: Any = source
    try:
        memoryview(data)
    except TypeError:
        data.seek(0)
        data = data.read()
    yield data, None


def _by_column(**given: Mapping[str, Any] | None) -> Mapping[str, Any]:
    [(name, found)] = given.items()
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        what = type(found).__name__
        raise TypeError(f"{name} must be a dict by column path ('a.list.element'), not {what}")
    return found


def _lookup(key: _Key | _Lookup | None, column_keys: Mapping[str, _Key] | None) -> _Lookup:
    keys = _by_column(column_keys=column_keys)

    def lookup(metadata: bytes | None, column: str | None) -> _Key | None:
        if column is not None and column in keys:
            return keys[column]  # type: ignore[no-any-return]
        if callable(key):
            return key(metadata, column)
        return key if column is None else None

    return lookup
