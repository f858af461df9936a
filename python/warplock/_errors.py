"""The exceptions."""

from __future__ import annotations


class Error(Exception):
    """The base of all exceptions of Warplock."""


class InvalidTag(Error):
    """Messages that did not verify: a wrong key, nonce or associated data, or changed bytes.

    Their output is zeros; that of the others is good.
    """

    failed: list[int]
    """The indices of those messages in their batch, ascending."""
    total: int
    """How many messages the batch had."""

    def __init__(
        self,
        message: str = "authentication failed",
        failed: list[int] | None = None,
        total: int = 1,
    ) -> None:
        super().__init__(message)
        self.failed = [0] if failed is None else failed
        self.total = total

    def __reduce__(self) -> tuple[type[InvalidTag], tuple[str, list[int], int]]:
        return type(self), (str(self), self.failed, self.total)


class BatchError(Error, ValueError):
    """Arguments that do not fit together. Nothing was written."""

    index: int | None
    """The message at fault, if it is one."""

    def __init__(self, message: str, index: int | None = None) -> None:
        super().__init__(message)
        self.index = index

    def __reduce__(self) -> tuple[type[BatchError], tuple[str, int | None]]:
        return type(self), (str(self), self.index)


class BackendError(Error, RuntimeError):
    """A GPU or the system failed. Discard what was written."""


class NoBackendError(BackendError):
    """The backend that was asked for cannot run here."""


class CaptureError(BackendError):
    """A call while its stream captures a graph: make a plan before the capture."""


class KeyringError(Error):
    """A recipient, an identity, a passphrase or a plugin that cannot be used."""


class DecryptionError(Error):
    """A file that cannot be decrypted."""


class FormatError(DecryptionError):
    """It is not an encrypted Warplock file."""


class WrongKeyError(DecryptionError):
    """The key, passphrase or identity does not open it."""


class CorruptedError(DecryptionError):
    """It was changed."""

    chunk: int | None
    """The chunk of 16 KiB that does not verify, from 0."""
    offset: int | None
    """Where the chunk's plaintext begins in the content."""
    tensor: str | None
    """In a file of tensors, the first one with bytes in the chunk."""

    def __init__(
        self,
        message: str,
        chunk: int | None = None,
        offset: int | None = None,
        tensor: str | None = None,
    ) -> None:
        super().__init__(message)
        self.chunk = chunk
        self.offset = offset
        self.tensor = tensor

    def __reduce__(
        self,
    ) -> tuple[type[CorruptedError], tuple[str, int | None, int | None, str | None]]:
        return type(self), (str(self), self.chunk, self.offset, self.tensor)


class TruncatedError(CorruptedError):
    """It was cut short."""
