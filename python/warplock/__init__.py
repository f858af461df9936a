"""Symmetric encryption at memory speed.

- `AESGCM`: one message, as in cryptography.
- `Key`, `Keys`: batches of messages, any algorithm.
- `open`, `encrypt_file`, `decrypt_file`, `verify_file`, `rewrap`, `inspect`, `PartSealer`: encrypted
  files.
- `warplock.keys`: identities and recipients.
- `warplock.fs`: encrypted files through fsspec.
- `warplock.safetensors`: encrypted tensors, also straight to GPUs.
- `warplock.parquet`: encrypted Parquet files to plain ones, and back.
- `warplock.bulk`: buckets and folders, on many machines.
- `warplock.analyze`: statistics of ciphertexts.
- `warplock.cuda`, `warplock.torch`: arrays in GPU memory.

Everything but the last works in host memory (tensors: in any), waits for its result, and raises if
something is wrong.
"""

from __future__ import annotations

from warplock._batch import Encrypted, Key, Keys, Sealed
from warplock._errors import (
    BackendError,
    BatchError,
    CorruptedError,
    DecryptionError,
    Error,
    FormatError,
    InvalidTag,
    KeyringError,
    NoBackendError,
    TruncatedError,
    WrongKeyError,
)
from warplock._files import (
    Inspection,
    Reader,
    Writer,
    decrypt_file,
    encrypt_file,
    inspect,
    open,
    rewrap,
    verify_file,
)
from warplock._native import (
    AESGCM,
    Engine,
    PartSealer,
    __version__,
    algorithms,
    default_backend,
    sealed_len,
)

__all__ = [
    "AESGCM",
    "BackendError",
    "BatchError",
    "CorruptedError",
    "DecryptionError",
    "Encrypted",
    "Engine",
    "Error",
    "FormatError",
    "Inspection",
    "InvalidTag",
    "Key",
    "Keys",
    "KeyringError",
    "NoBackendError",
    "PartSealer",
    "Reader",
    "Sealed",
    "TruncatedError",
    "Writer",
    "WrongKeyError",
    "__version__",
    "algorithms",
    "decrypt_file",
    "default_backend",
    "encrypt_file",
    "inspect",
    "open",
    "rewrap",
    "sealed_len",
    "verify_file",
]

for _error in (
    Error, InvalidTag, BatchError, BackendError, NoBackendError, KeyringError, DecryptionError,
    FormatError, WrongKeyError, CorruptedError, TruncatedError,
):  # fmt: skip
    _error.__module__ = "warplock"
del _error
