"""Keys of Parquet files that a key management service wraps, in the format of Parquet's key tools."""

from __future__ import annotations

import base64
import json
import os
from typing import TYPE_CHECKING, Any, Literal, Protocol

from warplock._errors import InvalidTag, WrongKeyError
from warplock._native import AESGCM

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Kms(Protocol):
    """pyarrow's `KmsClient`, or anything with its methods."""

    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> bytes | str: ...
    def unwrap_key(self, wrapped_key: Any, master_key_identifier: str) -> bytes: ...


_TYPE = "PKMT1"
_NONCE = 12
_KEK = 16


class KeyTools:
    """Finds and makes the keys of files as the key tools of pyarrow, Spark and Java do: each file
    has keys of its own, which the master keys of a key management service wrap.

    >>> parquet.decrypt("table.parquet", KeyTools(kms))  # doctest: +SKIP
    >>> parquet.encrypt("plain.parquet", **KeyTools(kms).new_keys("master"))  # doctest: +SKIP

    `kms` is a `pyarrow.parquet.encryption.KmsClient`, or any object with its methods `wrap_key(key,
    master)` and `unwrap_key(wrapped, master)`. The service's instance and URL in a file are not
    used: a file from a stranger must not choose where a token is sent.

    `material` is the path of the key material (`_KEY_MATERIAL_FOR_table.parquet.json`) of a file
    that does not hold it.

    With double wrapping, the service wraps key encryption keys, and those the keys. They are kept
    in memory as long as this object, so that the service is asked once for each.
    """

    def __init__(self, kms: Kms, *, material: str | os.PathLike[str] | None = None) -> None:
        self._kms = kms
        self._material: dict[str, Any] | None = None
        if material is not None:
            with open(material, encoding="utf-8") as file:
                self._material = json.load(file)
        self._opened: dict[tuple[str, str], bytes] = {}
        # By master key: the identifier, the key, and the key as the service wrapped it.
        self._made: dict[str, tuple[bytes, bytes, str]] = {}

    def __call__(self, metadata: bytes | None, column: str | None) -> bytes:
        """The key of a column, or of the footer."""
        whose = "the footer" if column is None else f"column '{column}'"
        try:
            found = self._find(metadata)
            master, wrapped = str(found["masterKeyID"]), str(found["wrappedDEK"])
            double = bool(found["doubleWrapping"])
            if double:
                wrapped_kek = str(found["wrappedKEK"])
                identifier = base64.b64decode(found["keyEncryptionKeyID"], validate=True)
                sealed = base64.b64decode(wrapped, validate=True)
        except (KeyError, TypeError, ValueError, RecursionError):
            raise WrongKeyError(f"the key of {whose} was not stored by key tools") from None
        # What the service raises is the caller's to see.
        if not double:
            return self._kms.unwrap_key(wrapped.encode(), master)
        kek = self._opened.get((wrapped_kek, master))
        if kek is None:
            kek = self._kms.unwrap_key(wrapped_kek.encode(), master)
            self._opened[wrapped_kek, master] = kek
        try:
            return AESGCM(kek).decrypt(sealed[:_NONCE], sealed[_NONCE:], identifier)
        except (InvalidTag, ValueError):
            raise WrongKeyError(
                f"the key of {whose} does not open with the key encryption key that the service "
                f"unwrapped with its master key '{master}'"
            ) from None

    def new_keys(
        self,
        footer: str,
        columns: Mapping[str, Iterable[str]] | None = None,
        *,
        double_wrapping: bool = True,
        bits: Literal[128, 192, 256] = 128,
    ) -> dict[str, Any]:
        """Arguments of `encrypt` for one file: new keys, wrapped by the master key `footer`, and
        for columns, by those in `columns`: `{"master": ["card.number"]}`. Other columns are
        encrypted with the footer's key.
        """
        key, metadata = self._new_key(footer, True, double_wrapping, bits)
        keys: dict[str, bytes] = {}
        stored: dict[str, bytes] = {}
        for master, names in (columns or {}).items():
            for name in names:
                keys[name], stored[name] = self._new_key(master, False, double_wrapping, bits)
        return {
            "key": key,
            "column_keys": keys,
            "key_metadata": metadata,
            "column_key_metadata": stored,
        }

    def _find(self, metadata: bytes | None) -> Any:
        """The key material that the metadata are, or refer to."""
        found = json.loads(metadata or b"")
        if found["keyMaterialType"] != _TYPE:
            raise ValueError
        if found["internalStorage"]:
            return found
        if self._material is None:
            raise WrongKeyError(
                "the keys are in a file of key material next to this one: give its path as material"
            )
        return json.loads(self._material[found["keyReference"]])

    def _new_key(
        self, master: str, is_footer: bool, double_wrapping: bool, bits: int
    ) -> tuple[bytes, bytes]:
        """A key, and what is stored to find it."""
        key = AESGCM.generate_key(bits)
        material: dict[str, Any] = {
            "keyMaterialType": _TYPE,
            "internalStorage": True,
            "isFooterKey": is_footer,
        }
        if is_footer:
            # Readers take those of their own configuration instead.
            material |= {"kmsInstanceID": "DEFAULT", "kmsInstanceURL": "DEFAULT"}
        material |= {"masterKeyID": master, "doubleWrapping": double_wrapping}
        if double_wrapping:
            if master not in self._made:
                kek = AESGCM.generate_key(8 * _KEK)
                self._made[master] = os.urandom(_KEK), kek, self._wrap(kek, master)
            identifier, kek, wrapped_kek = self._made[master]
            nonce = os.urandom(_NONCE)
            sealed = nonce + AESGCM(kek).encrypt(nonce, key, identifier)
            material |= {
                "wrappedDEK": base64.b64encode(sealed).decode(),
                "keyEncryptionKeyID": base64.b64encode(identifier).decode(),
                "wrappedKEK": wrapped_kek,
            }
        else:
            material["wrappedDEK"] = self._wrap(key, master)
        return key, json.dumps(material).encode()

    def _wrap(self, key: bytes, master: str) -> str:
        wrapped = self._kms.wrap_key(key, master)
        return wrapped if isinstance(wrapped, str) else wrapped.decode()
