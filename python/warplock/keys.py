"""Identities and recipients, with the names that pyrage has.

>>> me = Identity.generate()
>>> me.to_public()  # doctest: +ELLIPSIS
<warplock.keys.Recipient age1...>
>>> Identity.from_str(str(me)).to_public() == me.to_public()
True

A file key for streams that are made in parts comes with its envelope:

>>> key, envelope = new_envelope([me])
>>> len(key)
32
"""

from __future__ import annotations

from warplock._native import (
    Identity,
    Recipient,
    new_envelope,
    recipients_of,
    write_identity,
    write_key_file,
)

__all__ = [
    "Identity",
    "Recipient",
    "new_envelope",
    "recipients_of",
    "write_identity",
    "write_key_file",
]
