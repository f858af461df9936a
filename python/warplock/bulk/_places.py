"""Where objects come from and go to: object stores, by obstore, and local folders."""

from __future__ import annotations

import errno
import io
import os
import re
import stat
import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    InvalidPathError,
    NotFoundError,
    PreconditionError,
)
from obstore.store import AzureStore, MemoryStore, from_url

from warplock._errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from obstore import ObjectMeta, UpdateVersion
    from obstore.store import ObjectStore

# S3 takes at most 10,000 parts of an object, of 5 MiB or more.
_PART = 8 << 20
_PARTS = 9_000
# What is read at once; `rewrap` needs no more of an object.
_RANGE = 6 << 20
_ATTEMPTS = 4
# What a killed process leaves in a folder has such a name.
_TEMPORARY = ".warplock-"
_is_temporary = re.compile(r"\.warplock-[a-z0-9_]{8}").fullmatch


class Changed(Exception):
    """The source is no longer what was planned."""


_GONE = "it is no longer there"
_ANOTHER = "it is no longer in the planned version"


class FolderMarker(Exception):
    """The object stands for a folder: its key ends in "/"."""


class Pinned(io.RawIOBase):
    """An object that must not change while it is read."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def check(self) -> None:
        """Raises `Changed` if what was read is of more than one version."""


def exactly(file: Pinned, count: int) -> bytes:
    """The next `count` bytes of a file."""
    data = bytearray()
    while len(data) < count:
        more = file.read(count - len(data))
        if not more:
            raise FormatError("it is cut, or no Warplock file")
        data += more
    return bytes(data)


class Listed(NamedTuple):
    """One object of a place."""

    path: str
    size: int
    version: str
    """Changes whenever the object does."""
    skipped: str | None = None
    """Why nothing is to be done with it."""
    failed: str | None = None
    """Why it cannot be worked on, although it should be."""
    unlisted: bool = False
    """Whether it is a folder that could not be listed: it may hold anything."""


class Place(Protocol):
    """A folder or bucket with everything below it."""

    url: str

    def list(self) -> Iterator[Listed]:
        """What it holds."""

    def read(self, path: str, size: int, version: str) -> Pinned:
        """Opens an object to be read anywhere. Raises `Changed` if it is not in that version."""

    def marks(self, path: str) -> dict[str, str] | None:
        """What `write` noted with an object; None if there is no such object."""

    def write(
        self,
        path: str,
        blocks: Iterable[bytes],
        marks: dict[str, str],
        size: int,
        replace: bool | str,
    ) -> None:
        """Makes an object, of about `size` bytes, which appears when it is complete; an exception
        of `blocks` leaves nothing. `replace`: whether another one is replaced, otherwise
        FileExistsError; or the version that alone is replaced, otherwise `Changed`. Both as far as
        the store can tell."""


_memory: dict[str, MemoryStore] = {}


def memory_store(url: str) -> MemoryStore:
    """The store that "memory://NAME" means in this process."""
    return _memory.setdefault(urlsplit(url).netloc, MemoryStore())


def place(url: str) -> Place:
    """The place that a URL or a path names."""
    if not url:
        raise ValueError("a place is a folder or a URL, not an empty text")
    parts = urlsplit(url)
    if len(parts.scheme) < 2:
        return Folder(os.path.abspath(url))
    if parts.query or parts.fragment:
        raise ValueError(f"{url}: a place has no query or fragment")
    if set(url) & set("\t\r\n"):
        # They are left out of URLs, so that another place would be taken.
        raise ValueError(f"{url!r}: a URL has no tabs and line breaks; give a folder as a path")
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise ValueError(f"{url}: a file: URL has three slashes before a path: file:///folder")
        return Folder(os.path.abspath(unquote(parts.path)))
    if parts.scheme == "memory":
        return Store(url, memory_store(url), parts.path.strip("/"))
    # Credentials and endpoints come from the environment, as for the vendors' own tools. Like them,
    # take a prefix literally.
    options: Any = {}
    if parts.scheme == "s3":
        from warplock.bulk._s3 import options_like_boto3

        options = options_like_boto3()
    return Store(url, from_url(url.replace("%", "%25"), **options), "")


def inside(outer: Place, inner: Place) -> str | None:
    """The path of a place in another one: "" if they are the same, None if it is not there."""
    whole, part = outer.url, inner.url
    if isinstance(outer, Folder) and isinstance(inner, Folder):
        whole, part = os.path.realpath(whole), os.path.realpath(part)
    if part == whole:
        return ""
    whole = whole.rstrip("/") + "/"
    return part.removeprefix(whole) if part.startswith(whole) else None


class Store:
    """An object store."""

    def __init__(self, url: str, store: ObjectStore, prefix: str) -> None:
        self.url = url.rstrip("/")
        self.store = store
        self._prefix = f"{prefix}/" if prefix else ""
        self.client: Any = None
        """Of boto3, once `rewrap` needs it."""

    def list(self) -> Iterator[Listed]:
        """What it holds."""
        for some in self._pages():
            for meta in some:
                path = meta["path"].removeprefix(self._prefix)
                yield Listed(path, meta["size"], _object_version(self.store, meta))

    def _pages(self) -> Iterator[Sequence[ObjectMeta]]:
        try:
            yield from obstore.list(self.store, prefix=self._prefix or None, chunk_size=1000)
        except InvalidPathError as error:
            told = str(error).partition("\n")[0]
            raise ValueError(
                f"{self.url}: {told}; keys with empty parts, '.', '..' or control characters "
                "cannot be listed here: rename those objects, or plan the prefixes without them"
            ) from None

    def read(self, path: str, size: int, version: str) -> Pinned:
        """Opens an object in a known version."""
        if size == 0:
            self._check_empty(self._prefix + path, version)
        return _Ranges(self, self._prefix + path, size, version)

    def _check_empty(self, path: str, version: str) -> None:
        # An empty object has no range whose request would tell.
        try:
            found = obstore.head(self.store, path)
        except (NotFoundError, FileNotFoundError):
            # The key "a/" is listed as "a".
            for some in obstore.list(self.store, prefix=path):
                if any(meta["path"] == path for meta in some):
                    raise FolderMarker from None
                break
            raise Changed(_GONE) from None
        if _object_version(self.store, found) != version:
            raise Changed(_ANOTHER)

    def marks(self, path: str) -> dict[str, str] | None:
        """The user's metadata of an object."""
        try:
            found = obstore.get(self.store, self._prefix + path, options={"head": True})
        except (NotFoundError, FileNotFoundError):
            return None
        return dict(found.attributes)

    def write(
        self,
        path: str,
        blocks: Iterable[bytes],
        marks: dict[str, str],
        size: int,
        replace: bool | str,
    ) -> None:
        """Makes an object by one request, or by a multipart upload."""
        part = max(_PART, size // _PARTS)
        attributes: Any = dict(marks)
        if size < _PART:
            whole = b"".join(blocks)
            mode: Literal["overwrite", "create"] | UpdateVersion
            mode = "overwrite" if replace else "create"
            if isinstance(replace, str) and isinstance(self.store, AzureStore | MemoryStore):
                mode = {"e_tag": replace}
            try:
                obstore.put(
                    self.store, self._prefix + path, whole, attributes=attributes, mode=mode
                )
            except AlreadyExistsError:
                raise FileExistsError(path) from None
            except PreconditionError:
                raise Changed(_ANOTHER) from None
            return
        # A multipart upload cannot be conditional here: look, so that only a race replaces.
        if not replace and self.marks(path) is not None:
            raise FileExistsError(path)
        obstore.put(
            self.store,
            self._prefix + path,
            iter(blocks),
            attributes=attributes,
            chunk_size=part,
            max_concurrency=3,
        )

    def range(self, path: str, start: int, stop: int, version: str) -> bytes:
        """Bytes of an object in a known version; tries again what a connection cut."""
        options: Any = {"range": (start, stop)}
        # Without an ETag the version is a date, which `if_match` cannot take.
        if version.startswith(('"', "W/")) or isinstance(self.store, MemoryStore):
            options["if_match"] = version
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                data = bytes(obstore.get(self.store, path, options=options).bytes())
                if len(data) == stop - start:
                    return data
                raise Changed("its length is not the planned one")
            except PreconditionError:
                raise Changed(_ANOTHER) from None
            except (NotFoundError, FileNotFoundError):
                raise Changed(_GONE) from None
            except Changed:
                raise
            except Exception:
                if attempt == _ATTEMPTS:
                    raise
                time.sleep(0.1 * 2**attempt)
        raise AssertionError


_readers = ThreadPoolExecutor(16, "warplock-read")


class _Ranges(Pinned):
    """An object read by ranges; from the second on, the next one ahead."""

    def __init__(self, store: Store, path: str, size: int, version: str) -> None:
        self._store, self._path, self._size, self._version = store, path, size, version
        self._at = 0
        self._blocks: dict[int, Future[bytes]] = {}

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError("cannot seek before the start")
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def _fetch(self, block: int) -> Future[bytes]:
        start = block * _RANGE
        stop = min(start + _RANGE, self._size)
        return _readers.submit(self._store.range, self._path, start, stop, self._version)

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        if self._at >= self._size or not len(view):
            return 0
        block = self._at // _RANGE
        for wanted in (block, block + 1) if block else (0,):
            if wanted * _RANGE < self._size and wanted not in self._blocks:
                self._blocks[wanted] = self._fetch(wanted)
        # An envelope is read before what follows it: keep that block, and drop older ones.
        for old in [each for each in self._blocks if each < block or each > block + 1]:
            del self._blocks[old]
        data = self._blocks[block].result()
        start = self._at - block * _RANGE
        count = min(len(view), len(data) - start)
        view[:count] = memoryview(data)[start : start + count]
        self._at += count
        return count


class Folder:
    """A local folder."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.url = path

    def list(self) -> Iterator[Listed]:
        """The files below it. Links are not followed."""
        unlisted: list[OSError] = []
        os.scandir(self.path).close()
        for folder, folders, files in os.walk(self.path, onerror=unlisted.append):
            folders.sort()
            for name in sorted([*files, *(f for f in folders if _is_link(folder, f))]):
                full = os.path.join(folder, name)
                path = os.path.relpath(full, self.path)
                try:
                    status = os.lstat(full)
                except OSError as refused:
                    # Gone already, or in a folder that may be listed only.
                    yield Listed(_text(path), 0, "", failed=refused.strerror)
                    continue
                skipped = None if stat.S_ISREG(status.st_mode) else "not a regular file"
                if _is_temporary(name):
                    skipped = "its name is that of an unfinished result"
                plain = _text(path)
                failed = None if plain == path else "its name is not UTF-8"
                yield Listed(plain, status.st_size, _version(status), skipped, failed)
        for error in unlisted:
            path = os.path.relpath(error.filename, self.path)
            reason = f"the folder cannot be listed: {error.strerror}"
            yield Listed(_text(path), 0, "", failed=reason, unlisted=True)

    def read(self, path: str, size: int, version: str) -> Pinned:
        """Opens a file in a known version."""
        file = _PinnedFile(self._full(path), version)
        file.check()
        return file

    def marks(self, path: str) -> dict[str, str] | None:
        """The extended attributes that `write` made."""
        full = self._full(path)
        try:
            os.lstat(full)
        except FileNotFoundError:
            return None
        try:
            names = os.listxattr(full)
        except OSError:
            return {}
        names = [name for name in names if name.startswith("user.warplock")]
        marks = {name.removeprefix("user."): os.getxattr(full, name).decode() for name in names}
        # What was cut or written to since is no longer what the marks speak of.
        return marks if marks.pop("warplocklength", "") == str(os.stat(full).st_size) else {}

    def write(
        self,
        path: str,
        blocks: Iterable[bytes],
        marks: dict[str, str],
        size: int,
        replace: bool | str,
    ) -> None:
        """Makes a file under a temporary name, and renames it when it is on the disk."""
        full = self._full(path)
        if not replace and os.path.lexists(full):
            raise FileExistsError(path)
        folder = os.path.dirname(full)
        os.makedirs(folder, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=_TEMPORARY, delete=False) as file:
            try:
                for block in blocks:
                    file.write(block)
                for name, value in {**marks, "warplocklength": str(file.tell())}.items():
                    try:
                        os.setxattr(file.fileno(), f"user.{name}", value.encode())
                    except OSError:
                        # Without it a second run says that the file is there.
                        break
                file.flush()
                os.fsync(file.fileno())
                if isinstance(replace, str):
                    old = _planned(full, replace)
                    os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode))
                if replace:
                    os.replace(file.name, full)
                else:
                    _rename_new(file.name, full)
            except BaseException:
                os.unlink(file.name)
                raise
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _full(self, path: str) -> str:
        # Keys of objects are anything: none may leave the folder.
        parts = path.split("/")
        if "\0" in path or any(part in ("", ".", "..") for part in parts):
            raise ValueError("a key with empty parts, '.' or '..' cannot be a path")
        folder = self.path
        for part in parts[:-1]:
            folder = os.path.join(folder, part)
            if os.path.islink(folder):
                raise ValueError(f"{folder} is a link, where a folder should be")
        return os.path.join(folder, parts[-1])


class _PinnedFile(Pinned):
    """A local file."""

    def __init__(self, path: str, version: str) -> None:
        try:
            self._file = io.FileIO(path, opener=_open_file)
        except FileNotFoundError:
            raise Changed(_GONE) from None
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise Changed(_ANOTHER) from None
            raise
        self._path, self._planned = path, version

    def check(self) -> None:
        # By its name too: a new file may have taken it.
        _planned(self._path, self._planned)
        _planned(self._file.fileno(), self._planned)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readinto(self, buffer: Any, /) -> int:
        return self._file.readinto(buffer) or 0

    def close(self) -> None:
        self._file.close()
        super().close()


def _open_file(path: str, flags: int) -> int:
    # Neither a link nor, waiting for its other end, a pipe that has come since.
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _text(path: str) -> str:
    """A path as a row can hold it."""
    return path.encode(errors="surrogateescape").decode(errors="backslashreplace")


def _is_link(folder: str, name: str) -> bool:
    return os.path.islink(os.path.join(folder, name))


def _version(status: os.stat_result) -> str:
    return f"{status.st_mtime_ns}-{status.st_ino}-{status.st_size}"


def _planned(file: str | int, version: str) -> os.stat_result:
    """What `stat` says about a file, which must be in that version."""
    try:
        status = os.stat(file)
    except FileNotFoundError:
        raise Changed(_GONE) from None
    if _version(status) != version:
        raise Changed(_ANOTHER)
    return status


def _rename_new(old: str, new: str) -> None:
    # Unlike a rename, a link never replaces.
    try:
        os.link(old, new)
    except OSError as error:
        # File systems without hard links: exFAT, some mounts of buckets.
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        if os.path.lexists(new):
            raise FileExistsError(new) from None
        os.rename(old, new)
    else:
        os.unlink(old)


def _object_version(store: ObjectStore, meta: ObjectMeta) -> str:
    found = meta["e_tag"]
    if not found:
        return meta["last_modified"].isoformat()
    # Azure's listings leave out the quotes that its answers to requests have, and wants to get.
    if isinstance(store, AzureStore) and not found.startswith(('"', "W/")):
        return f'"{found}"'
    return found
