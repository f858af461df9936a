"""Encrypted files through fsspec: `warplock::s3://bucket/data.wl`, `warplock::file://...`.

Names and folders are those of the file system underneath; what is read is verified plaintext, and
sizes are those of the content. A range costs its chunks only.

Bad key arguments are refused before the file underneath is opened, so that an older one survives.
If a `with fs.open(...)` block that writes ends by an exception, what it wrote is thrown away or
counts as cut; a local file stays as it was. `fsspec.open` does not tell its file of the exception,
so there it is an ordinary, shorter file.

>>> import fsspec
>>> from warplock.keys import Identity
>>> me = Identity.generate()
>>> with fsspec.open("warplock::memory://a.wl", "wb", warplock={"recipients": me}) as file:
...     _ = file.write(b"a long story")
>>> with fsspec.open("warplock::memory://a.wl", "rb", warplock={"identities": me}) as file:
...     file.read()
b'a long story'
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any

import fsspec
from fsspec.asyn import AsyncFileSystem
from fsspec.compression import compr
from fsspec.core import get_compression
from fsspec.implementations.chained import ChainedFileSystem
from fsspec.implementations.local import LocalFileSystem
from fsspec.spec import AbstractFileSystem
from fsspec.utils import stringify_path

from warplock._files import open as _open
from warplock._keys_kept import as_list, refuse_key_files

__all__ = ["WarplockFileSystem"]

# What fsspec gives to any file system.
_OPTIONS = frozenset({
    "add_aliases", "add_docs", "asynchronous", "batch_size", "listings_expiry_time", "loop", "max_paths",
    "use_listings_cache",
})  # fmt: skip
_TEXT_OPTIONS = ("encoding", "errors", "newline")


class WarplockFileSystem(ChainedFileSystem):  # type: ignore[misc]
    """Decrypts what is read through it from another file system, and encrypts what is written.

    The key arguments are those of `warplock.open`. `fs` is the other file system, or
    `target_protocol` and `target_options` name it.
    """

    protocol = "warplock"
    root_marker = ""
    # Arguments may be secrets, and fsspec caches instances by them.
    cachable = False

    def __init__(
        self,
        fs: AbstractFileSystem | None = None,
        fo: str | None = None,
        target_protocol: str | None = None,
        target_options: dict[str, Any] | None = None,
        recipients: Any = None,
        identities: Any = None,
        passphrase: Any = None,
        key: Any = None,
        **options: Any,
    ) -> None:
        for name, value in options.items():
            # fsspec also gives the dictionaries of file systems that are not in the URL.
            if name not in _OPTIONS and not isinstance(value, dict):
                raise TypeError(
                    f"{name} is no option of warplock's file system; those of the one underneath go "
                    "under its own name, as in {'s3': {'anon': True}}"
                )
        super().__init__(**options)
        if fs is None:
            fs = fsspec.filesystem(target_protocol or "file", **(target_options or {}))
        self.fs = fs
        # They are used for each file.
        self._recipients = as_list(recipients)
        self._unlock = {"identities": as_list(identities), "passphrase": passphrase, "key": key}
        self._sizes: dict[str, tuple[Any, int]] = {}

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        path = stringify_path(path)
        for prefix in ("warplock::", "warplock://"):
            if path.startswith(prefix):
                path = path[len(prefix) :]
        return path

    def _under(self, path: str) -> str:
        return str(self.fs._strip_protocol(self._strip_protocol(path)))

    def open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | str | None = None,
        cache_options: dict[str, Any] | None = None,
        compression: str | None = None,
        **options: Any,
    ) -> Any:
        """As for other file systems; closing what compresses closes the file, too."""
        if "r" in mode:
            return super().open(path, mode, block_size, cache_options, compression, **options)
        if "b" not in mode:
            text = {name: options.pop(name) for name in _TEXT_OPTIONS if name in options}
            mode = mode.replace("t", "") + "b"
            return _Text(
                self.open(path, mode, block_size, cache_options, compression, **options), **text
            )
        if compression is None:
            return super().open(path, mode, block_size, cache_options, None, **options)
        compress = compr[get_compression(path, compression)]
        file = super().open(path, mode, block_size, cache_options, None, **options)
        return _Compressed(compress(file, mode=mode[0]), file)

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | str | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        **options: Any,
    ) -> Any:
        under = self._under(path)
        if mode == "rb":
            # Whole chunks are read: a cache underneath would only read more.
            options = {"cache_type": "none"} if isinstance(self.fs, AsyncFileSystem) else {}
            inner = self.fs.open(under, "rb", **options)
            try:
                return _Owned(_open(inner, "rb", **self._unlock), inner)
            except BaseException:
                inner.close()
                raise
        if mode not in ("wb", "xb"):
            raise NotImplementedError(f"mode {mode!r}: encrypted files are read or written whole")
        if mode == "wb" and isinstance(self.fs, LocalFileSystem):
            refuse_key_files(under, self._recipients, *self._unlock.values())
        lock = dict(self._unlock, recipients=self._recipients)
        if isinstance(self.fs, LocalFileSystem) and (
            os.path.isfile(under) or not os.path.lexists(under)
        ):
            # Appears when it is complete.
            if self.fs.auto_mkdir:
                os.makedirs(os.path.dirname(under), exist_ok=True)
            file = _open(under, "xb" if mode == "xb" else "wb", **lock)
            return file if autocommit else _Pending(file)
        if not autocommit:
            raise NotImplementedError(f"{path}: transactions are for local files")
        late: Any = _Late()
        writer = _open(late, "wb", **lock)
        try:
            inner = self.fs.open(under, mode)
            try:
                late.start(inner)
            except BaseException:
                _discard(inner)
                raise
        except BaseException:
            writer.abandon()
            raise
        return _Owned(writer, inner)

    def _content(self, info: dict[str, Any]) -> dict[str, Any]:
        """The entry of a file, with the length of its content."""
        if info.get("type") == "file":
            name = info["name"]
            stamp = (info.get("size"), info.get("mtime"), info.get("ETag"), info.get("created"))
            known = self._sizes.get(name)
            if known is None or known[0] != stamp:
                with self._open(name) as file:
                    known = self._sizes[name] = (stamp, file.seek(0, 2))
            info = dict(info, size=known[1], sealed_size=info.get("size"))
        return info

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        """As the file system underneath, with the size of the content."""
        return self._content(self.fs.info(self._under(path), **options))

    def ls(self, path: str, detail: bool = True, **options: Any) -> list[Any]:
        """As the file system underneath. Sizes are those of the encrypted files: `info` gives the
        content's, for which it must read the file's envelope."""
        found: list[Any] = self.fs.ls(self._under(path), detail=detail, **options)
        return found

    def exists(self, path: str, **options: Any) -> bool:
        """Whether there is such a file or folder."""
        return bool(self.fs.exists(self._under(path), **options))

    def isfile(self, path: str) -> bool:
        """Whether it is a file."""
        return bool(self.fs.isfile(self._under(path)))

    def isdir(self, path: str) -> bool:
        """Whether it is a folder."""
        return bool(self.fs.isdir(self._under(path)))

    def mkdir(self, path: str, create_parents: bool = True, **options: Any) -> None:
        """Makes a folder."""
        self.fs.mkdir(self._under(path), create_parents=create_parents, **options)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Makes folders."""
        self.fs.makedirs(self._under(path), exist_ok=exist_ok)

    def rm_file(self, path: str) -> None:
        """Removes a file."""
        self.fs.rm_file(self._under(path))

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Removes files, or with `recursive` folders with all that is in them."""
        depth = {} if maxdepth is None else {"maxdepth": maxdepth}
        # What is in a folder, and whether links lead out of it, the other file system knows.
        found = [self._under(each) for each in self.expand_path(path)]
        self.fs.rm(found, recursive=recursive, **depth)

    def _rm(self, path: str) -> None:
        self.fs.rm_file(self._under(path))

    def rmdir(self, path: str) -> None:
        """Removes an empty folder."""
        self.fs.rmdir(self._under(path))

    def cp_file(self, path1: str, path2: str, **options: Any) -> None:
        """Copies a file as it is."""
        self.fs.cp_file(self._under(path1), self._under(path2), **options)

    def created(self, path: str) -> Any:
        """As the file system underneath."""
        return self.fs.created(self._under(path))

    def modified(self, path: str) -> Any:
        """As the file system underneath."""
        return self.fs.modified(self._under(path))


def _discard(inner: Any) -> None:
    """Closes a file that is being written without letting it appear, if possible."""
    discard = getattr(inner, "discard", None)
    if discard is not None:
        try:
            discard()
        except Exception:
            pass
    inner.close()


class _Late:
    """A file that is opened after its first bytes, so that bad keys leave an older file alone."""

    def __init__(self) -> None:
        self._first = bytearray()
        self._inner: Any = None

    def start(self, inner: Any) -> None:
        """Writes what came so far to `inner`, and from now on what comes."""
        first = memoryview(bytes(self._first))
        while first:
            written = inner.write(first)
            first = first[len(first) if written is None else written :]
        self._inner = inner

    def write(self, data: bytes) -> Any:
        """Writes all of `data`."""
        if self._inner is not None:
            return self._inner.write(data)
        self._first += data
        return len(data)

    def flush(self) -> None:
        """As for other files."""
        if self._inner is not None:
            self._inner.flush()


class _Pending:
    """A file of a transaction, which appears when that ends."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def close(self) -> None:
        """Leaves it to the transaction."""

    def commit(self) -> None:
        """Lets the file appear, unless its block ended by an exception."""
        self._file.close()

    def discard(self) -> None:
        """Throws away what was written."""
        self._file.abandon()

    def __enter__(self) -> _Pending:
        return self

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        if kind is not None:
            self.discard()


class _Text(io.TextIOWrapper):
    """Text that is thrown away if its `with` block ends by an exception."""

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        if kind is None:
            self.close()
        else:
            written: Any = self.buffer
            written.__exit__(kind, value, traceback)


class _Compressed:
    """A file of a compressor, which would leave open what it writes to."""

    def __init__(self, file: Any, inner: Any) -> None:
        self._file = file
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def close(self) -> None:
        """Closes both, the file only if the compressor could write its end."""
        try:
            self._file.close()
        except BaseException:
            self._inner.__exit__(*sys.exc_info())
            raise
        self._inner.close()

    def __enter__(self) -> _Compressed:
        self._inner.__enter__()
        return self

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        if kind is None:
            self.close()
        self._inner.__exit__(kind, value, traceback)


class _Owned:
    """An encrypted file that closes the one underneath, too."""

    def __init__(self, file: Any, inner: Any) -> None:
        self._file = file
        self._inner = inner
        self._is_in_block = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    @property
    def size(self) -> int:
        """Bytes of content, when reading."""
        length: int = self._file.raw.length
        return length

    def __iter__(self) -> Any:
        return iter(self._file)

    def __next__(self) -> Any:
        return next(self._file)

    def __enter__(self) -> _Owned:
        self._file.__enter__()
        self._is_in_block = True
        return self

    def close(self) -> None:
        """Closes both, in a `with` block the one underneath when that ends."""
        try:
            self._file.close()
        finally:
            if not self._is_in_block:
                self._inner.close()

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        self._is_in_block = False
        if kind is not None and hasattr(self._file, "abandon"):
            self._file.abandon()
            _discard(self._inner)
            return
        try:
            self._file.__exit__(None, None, None)
        finally:
            self._inner.close()


