"""The encryption of LMCache's "aesgcm" serde, on all cores and without copies.

The frames are LMCache's own: a version byte (1), an IV of 12 bytes, ciphertext, a tag of 16 bytes.
So are the keys: one per tenant, from the master key by HKDF-SHA256. Each side reads what the other
wrote. `register()` makes it known to LMCache as the serde "warplock"; everything else works without
LMCache.

>>> keys = TenantKeys(bytes(range(32)))
>>> frame = bytearray(5 + OVERHEAD)
>>> seal_frame(keys.key("tenant"), b"chunk", frame)
34
>>> out = bytearray(5)
>>> open_frame(keys.key("tenant"), frame, out)
>>> out
bytearray(b'chunk')
"""

from __future__ import annotations

import hashlib
import hmac
import threading
from typing import TYPE_CHECKING, Any

from warplock._batch import Key

if TYPE_CHECKING:
    from collections.abc import Buffer

    from warplock import Engine

__all__ = ["OVERHEAD", "TenantKeys", "open_frame", "register", "seal_frame"]

_VERSION = 1
_IV_LEN = 12
_TAG_LEN = 16
_HEADER_LEN = 1 + _IV_LEN
OVERHEAD = _HEADER_LEN + _TAG_LEN
"""Bytes that a frame adds to its content."""


class TenantKeys:
    """The key of each tenant, from one master key."""

    def __init__(self, master: Buffer, bits: int = 128) -> None:
        # A number would become as many zeros.
        master = bytes(memoryview(master))
        if not master:
            raise ValueError("the master key is empty")
        if bits not in (128, 256):
            raise ValueError(f"keys have 128 or 256 bits, not {bits}")
        self._algorithm = f"aes-{bits}-gcm"
        self._len = bits // 8
        # HKDF-Extract without a salt; the first block of HKDF-Expand is all that is needed.
        self._extracted = hmac.digest(bytes(32), master, hashlib.sha256)
        self._keys: dict[str, Key] = {}
        self._lock = threading.Lock()

    def key(self, tenant: str) -> Key:
        """The key of `tenant` (LMCache's cache_salt), derived once."""
        with self._lock:
            key = self._keys.get(tenant)
            if key is None:
                info = b"lmcache-l2-aesgcm-v1" + tenant.encode()
                block = hmac.digest(self._extracted, info + b"\x01", hashlib.sha256)
                key = self._keys[tenant] = Key(self._algorithm, block[: self._len])
            return key


def seal_frame(key: Key, src: Buffer, dst: Buffer, engine: Engine | None = None) -> int:
    """Seals `src` into the start of `dst`, under a random IV; returns the bytes written."""
    plain = memoryview(src).cast("B")
    end = len(plain) + OVERHEAD
    out = memoryview(dst).cast("B")[:end]
    if len(out) < end:
        raise ValueError(f"the frame needs {end} bytes, and the buffer has {len(out)}")
    sealed = key.seal(plain, out=out[_HEADER_LEN:], tags="appended", engine=engine)
    out[0] = _VERSION
    out[1:_HEADER_LEN] = sealed.nonces
    return end


def open_frame(key: Key, src: Buffer, dst: Buffer, engine: Engine | None = None) -> None:
    """Opens the frame at the start of `src` into `dst`, whose length is that of the content.

    Raises `ValueError` for anything but such a frame, and `InvalidTag` if it does not verify; then
    `dst` holds zeros.
    """
    out = memoryview(dst).cast("B")
    end = len(out) + OVERHEAD
    frame = memoryview(src).cast("B")[:end]
    if len(frame) < end or frame[0] != _VERSION:
        raise ValueError("this is no frame of LMCache's serde aesgcm, version 1")
    nonce, sealed = frame[1:_HEADER_LEN], frame[_HEADER_LEN:]
    key.open(sealed, "appended", nonces=nonce, out=out, engine=engine)


def register(name: str = "warplock") -> None:
    """Registers the serde `name` with LMCache; its options are those of "aesgcm"."""
    from lmcache.v1.distributed.serde.async_processor import AsyncSerdeProcessor
    from lmcache.v1.distributed.serde.base import Deserializer, Serializer
    from lmcache.v1.distributed.serde.factory import register_serde_factory

    # LMCache's own code computes sizes, so that they stay right in later versions.
    from lmcache.v1.distributed.serde.aesgcm import AesGcmSerializer  # isort: skip

    class WarplockSerializer(Serializer):  # type: ignore[misc]
        def __init__(self, keys: TenantKeys) -> None:
            self._keys = keys
            self._sizes = AesGcmSerializer(None)

        def serialize(self, src: Any, dst: Any, key: Any) -> int:
            return seal_frame(self._keys.key(key.cache_salt), src.byte_array, dst.byte_array)

        def estimate_serialized_size(self, layout_desc: Any) -> Any:
            return self._sizes.estimate_serialized_size(layout_desc)

    class WarplockDeserializer(Deserializer):  # type: ignore[misc]
        def __init__(self, keys: TenantKeys) -> None:
            self._keys = keys

        def deserialize(self, src: Any, dst: Any, key: Any) -> None:
            open_frame(self._keys.key(key.cache_salt), src.byte_array, dst.byte_array)

    def create(options: dict[str, Any]) -> Any:
        path = options.get("master_key_path")
        if not path:
            raise ValueError("the serde needs master_key_path")
        with open(path, "rb") as file:
            keys = TenantKeys(file.read(), int(options.get("aes_bits", 128)))
        workers = int(options.get("max_workers", 1))
        return AsyncSerdeProcessor(
            WarplockSerializer(keys), WarplockDeserializer(keys), max_workers=workers
        )

    register_serde_factory(name, create)
