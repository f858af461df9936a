"""`AESGCM` that raises the exception of cryptography, so that only the import changes:

>>> from warplock.compat.pyca import AESGCM, InvalidTag
>>> aead = AESGCM(AESGCM.generate_key(256))
>>> try:
...     aead.decrypt(bytes(12), bytes(16), None)
... except InvalidTag:
...     print("refused")
refused
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidTag

from warplock import _native
from warplock._errors import InvalidTag as _InvalidTag

if TYPE_CHECKING:
    from collections.abc import Buffer

__all__ = ["AESGCM", "InvalidTag"]


class AESGCM(_native.AESGCM):
    """As `warplock.AESGCM`, but raises `cryptography.exceptions.InvalidTag`."""

    def decrypt(self, nonce: Buffer, data: Buffer, associated_data: Buffer | None) -> bytes:
        """The text of a ciphertext with its tag."""
        try:
            return super().decrypt(nonce, data, associated_data)
        except _InvalidTag:
            raise InvalidTag from None

    def decrypt_into(
        self, nonce: Buffer, data: Buffer, associated_data: Buffer | None, buf: Buffer
    ) -> int:
        """As `decrypt`, into a buffer."""
        try:
            return super().decrypt_into(nonce, data, associated_data, buf)
        except _InvalidTag:
            raise InvalidTag from None
