"""Encrypted files."""

from __future__ import annotations

import io
import operator
import warnings
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple, overload

from warplock import _native
from warplock._errors import CorruptedError
from warplock._keys_kept import as_list, refuse_key_files
from warplock._native import Engine

if TYPE_CHECKING:
    import os
    from collections.abc import Buffer, Callable, Iterable

    from warplock.keys import Identity, Recipient

    _Path = str | os.PathLike[str]
    _File = _Path | IO[bytes]
    _Passphrase = str | Buffer | Callable[[str], str]
    _SomeRecipients = str | Recipient | Identity | os.PathLike[str]
    _Recipients = _SomeRecipients | Iterable[_SomeRecipients]
    _SomeIdentities = _Path | Identity
    _Identities = _SomeIdentities | Iterable[_SomeIdentities]
    _Key = _Path | Buffer | Callable[[], Buffer]
    _Progress = Callable[[int], object]


def encrypt_file(
    src: _File,
    dst: _File,
    *,
    recipients: _Recipients | None = None,
    identities: _Identities | None = None,
    passphrase: _Passphrase | None = None,
    key: _Key | None = None,
    replace: bool = False,
    attributes: bool = True,
    progress: _Progress | None = None,
    engine: Engine | None = None,
) -> int:
    """Encrypts `src` to `dst`; returns the bytes of plaintext.

    `recipients` may open it: "age1..." or SSH public keys, `Recipient`, `Identity`, or paths of
    files of such lines; a text is always a recipient, and a path a `pathlib.Path`. `identities`: paths
    of identity files whose owners may. `passphrase`: text, or a function that is asked for it. `key`:
    32 bytes, the path of a key file, or a function that returns 32 bytes, such as one that asks a key
    service; then the file is a bare stream without an envelope.

    The permissions and the time of modification of a path `src` go with it, encrypted, unless
    `attributes` is false; next to a passphrase or under a `key` there is no room for them.

    A path `dst` appears under its name when all of it is on the disk; an exception before that,
    KeyboardInterrupt included, leaves nothing new. An existing file is refused without `replace`.
    `progress` is called some 20 times a second with the bytes of input that are done, and once more
    when `dst` is in place. If this last call raises, or Ctrl-C comes as late, the exception is
    raised although `dst` is there, complete.

    >>> import warplock, tempfile, os
    >>> from warplock.keys import Identity
    >>> folder = tempfile.TemporaryDirectory(); os.chdir(folder.name)
    >>> me = Identity.generate()
    >>> with io.open("a.txt", "wb") as file:
    ...     _ = file.write(b"a long story")
    >>> warplock.encrypt_file("a.txt", "a.txt.wl", recipients=me)
    12
    >>> warplock.decrypt_file("a.txt.wl", "b.txt", identities=me)
    12
    """
    recipients, identities = as_list(recipients), as_list(identities)
    if replace:
        refuse_key_files(dst, recipients, identities, key)
    return _native.encrypt_file(
        src, dst, recipients, identities, passphrase, key, replace, attributes, progress, engine
    )


def decrypt_file(
    src: _File,
    dst: _File,
    *,
    identities: _Identities | None = None,
    passphrase: _Passphrase | None = None,
    key: _Key | None = None,
    range: tuple[int, int | None] | None = None,
    replace: bool = False,
    attributes: bool = True,
    max_work: int | None = None,
    progress: _Progress | None = None,
    engine: Engine | None = None,
) -> int:
    """Decrypts `src` to `dst`; returns the bytes written.

    `identities`: `Identity` or paths of identity files, SSH private keys included. `passphrase`
    opens the file, or encrypted identity files. `range`: only the plaintext from (start, stop).
    `max_work`: the most work of a passphrase, as base-2 logarithm of scrypt's. A path `dst` gets the
    permissions and the time of modification that came with the file, but no permission that the
    umask, or a file that is replaced, does not give; not with a `range`, or if `attributes` is
    false.

    A path appears under its name only when all of it was verified. A file object gets verified
    bytes as they come: only when this function returns is it certain that none is missing. For
    `replace`, `progress` and exceptions see `encrypt_file`.
    """
    identities = as_list(identities)
    if replace:
        refuse_key_files(dst, identities, key)
    if range is not None:
        start, stop = range
        start, stop = operator.index(start), None if stop is None else operator.index(stop)
        if start < 0 or stop is not None and stop < start:
            raise ValueError(f"a range is (start, stop), from 0 on and in this order, not {range}")
        range = start, stop
    return _native.decrypt_file(
        src, dst, identities, passphrase, key, range, replace, attributes, max_work, progress, engine
    )


def verify_file(
    src: _File,
    *,
    identities: _Identities | None = None,
    passphrase: _Passphrase | None = None,
    key: _Key | None = None,
    max_work: int | None = None,
    progress: _Progress | None = None,
    engine: Engine | None = None,
) -> int:
    """Verifies every byte of `src`, and keeps none; returns the bytes of plaintext."""
    return _native.decrypt_file(
        src, None, identities, passphrase, key, None, False, False, max_work, progress, engine
    )


def rewrap(
    file: _Path,
    *,
    identities: _Identities | None = None,
    passphrase: _Passphrase | None = None,
    recipients: _Recipients | None = None,
    new_passphrase: _Passphrase | None = None,
    rekey: bool = False,
    max_work: int | None = None,
    progress: _Progress | None = None,
    engine: Engine | None = None,
) -> None:
    """Gives an encrypted file other recipients, or another passphrase.

    `identities` or `passphrase` open it now, `recipients` or `new_passphrase` from then on. Only the
    envelope is written again, so the size does not matter. The key of the content stays the same: a
    former recipient that kept it, or an older copy of the file, can still decrypt the content.
    `rekey` encrypts the content again under a fresh key (only then is `progress` called).

    A crash leaves a file that the old or the new keys open; if `.NAME.rewrap` is left next to it,
    call this again with the old keys.

    >>> import warplock, tempfile, os
    >>> from warplock.keys import Identity
    >>> folder = tempfile.TemporaryDirectory(); os.chdir(folder.name)
    >>> old, new = Identity.generate(), Identity.generate()
    >>> _ = warplock.encrypt_file(io.BytesIO(b"a long story"), "a.wl", recipients=old)
    >>> warplock.rewrap("a.wl", identities=old, recipients=new)
    >>> warplock.verify_file("a.wl", identities=new)
    12
    """
    _native.rewrap(
        file,
        identities,
        passphrase,
        recipients,
        new_passphrase,
        rekey,
        max_work,
        progress,
        engine,
    )


class Inspection(NamedTuple):
    """What can be read from a file without any key. Nothing of it is verified."""

    size: int
    """Bytes of the whole file."""
    format: str
    """ "warplock/1", "stream?" (a bare one begins with random bytes), "empty", or what it looks
    like."""
    opens_with: list[str]
    """What opens the envelope: age's names, such as "X25519" or "scrypt"."""
    content: int | None
    """Bytes of plaintext, judged by the length."""
    chunks: int | None
    """How many chunks of 16 KiB."""
    stream_offset: int | None
    """Where the stream begins."""
    is_cut: bool
    """Whether no stream can have this length."""


def inspect(file: _File) -> Inspection:
    """What a file tells without any key."""
    return Inspection(**_native.inspect(file))


class Reader(io.RawIOBase):
    """The plaintext of an encrypted file, read at any offset. Every byte returned was verified."""

    def __init__(self, native: _native.NativeReader) -> None:
        self._native = native
        self._len = native.len
        self._position = 0

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """As for other files."""
        self._open()
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._len}
        if whence not in base:
            raise ValueError(f"whence is 0, 1 or 2, not {whence}")
        position = base[whence] + offset
        if position < 0:
            raise ValueError("cannot seek before the start of the content")
        self._position = position
        return position

    def tell(self) -> int:
        """The position."""
        self._open()
        return self._position

    @property
    def length(self) -> int:
        """Bytes of content."""
        return self._len

    def readinto(self, buffer: Buffer, /) -> int:
        """As for other files; fills the buffer unless the content ends."""
        self._open()
        try:
            read = self._native.read_into(self._position, buffer)
        except CorruptedError as error:
            # What comes before the chunk at fault is valid, and may be all that is wanted.
            if error.offset is None or error.offset <= self._position:
                raise
            good = memoryview(buffer).cast("B")[: error.offset - self._position]
            read = self._native.read_into(self._position, good)
        self._position += read
        return read

    def read(self, size: int = -1, /) -> bytes:
        """As for other files; returns `size` bytes unless the content ends."""
        self._open()
        left = max(0, self._len - self._position)
        data = self._native.read(self._position, left if size is None or size < 0 else size)
        self._position += len(data)
        return data

    def readall(self) -> bytes:
        """All that is left."""
        return self.read()

    def close(self) -> None:
        """Closes the file."""
        if not self.closed:
            super().close()
            del self._native

    def _open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file.")


class Writer(io.BufferedIOBase):
    """An encrypted file under way. It is complete once `close` returns, or its `with` block has ended:
    if that ends by an exception, or `close` is never called, nothing appears. What wraps it
    (`io.TextIOWrapper`) closes it in either case: use `with` for this file as well. It belongs to the
    process that opened it: in a forked child it refuses to work."""

    def __init__(self, native: _native.NativeWriter) -> None:
        self._native = native
        self._position = 0
        self._is_in_block = False

    def writable(self) -> bool:
        """True."""
        return True

    def write(self, data: Buffer, /) -> int:
        """Writes all of `data`."""
        if self.closed:
            raise ValueError("I/O operation on closed file.")
        written = self._native.write(data)
        self._position += written
        return written

    def tell(self) -> int:
        """Bytes of plaintext written."""
        return self._position

    def close(self) -> None:
        """Ends the stream; a file appears under its name, in a `with` block when that ends."""
        if not self.closed:
            try:
                # What closes it in a block does not know how that ends.
                if not self._is_in_block:
                    self._native.finish()
            finally:
                super().close()

    def abandon(self) -> None:
        """Discards what was written, and closes."""
        self._native.abandon()
        super().close()

    def __enter__(self) -> Writer:
        super().__enter__()
        self._is_in_block = True
        return self

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        self._is_in_block = False
        if kind is not None:
            self.abandon()
            return
        try:
            self._native.finish()
        finally:
            super().close()

    def __del__(self) -> None:
        # Without `close` it is not known to be complete. What a file of Python would have by now is
        # lost, so this is told to those, too, who have not asked for ResourceWarning.
        native = getattr(self, "_native", None)
        if native is not None and native.abandon():
            warnings.warn(
                "an encrypted file was not closed, so nothing of it appears: use with, or close()",
                RuntimeWarning,
                stacklevel=2,
                source=self,
            )


@overload
def open(
    file: _File,
    mode: Literal["rb", "r"] = "rb",
    *,
    identities: _Identities | None = None,
    passphrase: _Passphrase | None = None,
    key: _Key | None = None,
    max_work: int | None = None,
    engine: Engine | None = None,
) -> io.BufferedReader: ...
@overload
def open(
    file: _File,
    mode: Literal["wb", "w", "xb", "x"],
    *,
    recipients: _Recipients | None = None,
    identities: _Identities | None = None,
    passphrase: _Passphrase | None = None,
    key: _Key | None = None,
    engine: Engine | None = None,
) -> Writer: ...
def open(
    file: _File,
    mode: str = "rb",
    *,
    recipients: _Recipients | None = None,
    identities: _Identities | None = None,
    passphrase: _Passphrase | None = None,
    key: _Key | None = None,
    max_work: int | None = None,
    engine: Engine | None = None,
) -> io.BufferedReader | Writer:
    """Opens an encrypted file: a path, or a binary file object (seekable, to read).

    Modes: "rb" reads at any offset, and verifies what it returns; "wb" writes, and replaces a file
    when it is closed; "xb" refuses an existing one. The other arguments are those of `decrypt_file`
    and `encrypt_file`.

    >>> import warplock, io
    >>> from warplock.keys import Identity
    >>> me = Identity.generate()
    >>> store = io.BytesIO()
    >>> with warplock.open(store, "wb", recipients=me) as file:
    ...     _ = file.write(b"a long story")
    >>> with warplock.open(store, identities=me) as file:
    ...     file.seek(2), file.read(4)
    (2, b'long')
    """
    if mode in ("rb", "r"):
        if recipients is not None:
            raise ValueError("recipients are for writing; to read, give identities")
        native = _native.NativeReader(file, identities, passphrase, key, max_work, engine)
        return io.BufferedReader(Reader(native), 1 << 16)
    if mode in ("wb", "w", "xb", "x"):
        recipients, identities = as_list(recipients), as_list(identities)
        if mode[0] == "w":
            refuse_key_files(file, recipients, identities, key)
        writer = _native.NativeWriter(
            file, recipients, identities, passphrase, key, mode[0] == "w", engine
        )
        return Writer(writer)
    raise ValueError(f"mode {mode!r} is not rb, wb or xb")
