"""Keys, and batches of many messages."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from warplock._errors import BatchError
from warplock._layout import (
    Layout,
    buffer,
    check_aad,
    check_rows,
    check_sectors,
    check_tag_len,
    empty,
    given_nonces,
    integers,
    is_appended,
    is_numpy,
)
from warplock._native import Engine, KeySet

if TYPE_CHECKING:
    from collections.abc import Buffer

    _Integers = Buffer | list[int] | tuple[int, ...]

_TAG_LEN = 16


class Sealed(NamedTuple):
    """What `seal` made; `open` takes it as a whole."""

    data: Any
    """The ciphertexts, each with its tag if tags="appended"."""
    tags: Any
    """The tags, one after the other, or "appended"."""
    nonces: Any
    """The nonces, one after the other. They are not secret, and opening needs them."""
    offsets: Any
    """Where the messages begin in `data`, and one more where the last ends; None where they are
    rows, or lie where the caller has said."""


class Encrypted(NamedTuple):
    """What `encrypt` made."""

    data: Any
    """The ciphertexts."""
    ivs: Any
    """The IVs, one after the other; None where there are none, or where they are sector numbers."""


class _Keys:
    """What one key and many have in common."""

    _keys: KeySet

    @property
    def algorithm(self) -> str:
        """The algorithm's name, such as "aes-256-gcm"."""
        return self._keys.algorithm

    def _run(
        self,
        encrypts: bool,
        authenticated: bool,
        data: Any,
        *,
        ivs: Any = None,
        sector: int | None = None,
        aad: Any = None,
        aad_offsets: Any = None,
        out: Any = None,
        tags: Any = None,
        tag_len: int = _TAG_LEN,
        offsets: Any = None,
        sizes: Any = None,
        out_offsets: Any = None,
        index: Any = None,
        engine: Engine | None = None,
    ) -> tuple[Any, Any, Any, Any]:
        if authenticated and not self._keys.is_aead:
            raise BatchError(f"{self.algorithm} does not authenticate: use encrypt and decrypt")
        check_aad(aad, aad_offsets)
        check_tag_len(tag_len)
        layout = Layout.of(data, offsets, sizes)
        count = layout.count
        if sector is not None:
            check_sectors(sector, count, ivs)
        appended = is_appended(authenticated, tags)
        in_place = out is data
        out_nbytes = None if out is None else buffer(out, "out").nbytes
        places = layout.places(
            encrypts, tag_len if appended else 0, in_place, out_nbytes, out_offsets
        )
        made_offsets = places.offsets
        if out is None:
            out = empty(data, places.shape)
            if made_offsets is not None and is_numpy(data):
                made_offsets = sys.modules["numpy"].array(made_offsets, dtype="i8")

        draw = False
        iv_len = self._keys.iv_len
        if ivs is None and sector is None and iv_len:
            if not encrypts:
                raise BatchError("decryption needs the nonces or IVs of the encryption")
            draw = True
            shape = (count, iv_len) if layout.rows or layout.ragged is not None else (iv_len,)
            ivs = empty(data, shape)
        given_len = None
        if ivs is not None and not draw:
            view = buffer(ivs, "nonces")
            given_len = given_nonces(
                view.shape or (), view.nbytes, count, iv_len, encrypts and authenticated
            )
        aad_layout: tuple[Any, ...] | None = None
        if aad_offsets is not None:
            aad_layout = (integers(aad_offsets, "aad_offsets"), None)
        elif aad is not None and not isinstance(aad, bytes):
            given = Layout.of(aad, None, None, "aad")
            aad_layout = given.native(0) if given.rows else None
        array = None
        if authenticated and not appended:
            if tags is None:
                if not encrypts:
                    raise BatchError('give the tags, or tags="appended"')
                shape = (count, tag_len) if layout.rows or layout.ragged is not None else (tag_len,)
                tags = empty(data, shape)
            else:
                check_rows(buffer(tags, "tags").shape or (), count, "tags")
            array = tags
        try:
            self._keys.run(
                encrypts=encrypts,
                authenticated=authenticated,
                data=data,
                layout=places.source,
                out=None if in_place else out,
                out_layout=places.target,
                ivs=ivs,
                iv_len=given_len,
                draw=draw,
                first_sector=sector,
                aad=aad,
                aad_layout=aad_layout,
                tags=array,
                tag_len=tag_len,
                index=None if index is None else integers(index, "index"),
                engine=engine,
            )
        except BatchError as error:
            # The engine's words for what `nonces` left out does.
            said = str(error).replace(", as Ivs::Random does", ", or leave them out")
            raise BatchError(said, error.index) from None
        return out, tags, ivs, made_offsets

    def _seal(self, data: Any, **options: Any) -> Sealed:
        out, tags, ivs, offsets = self._run(True, True, data, **options)
        return Sealed(out, tags, ivs, offsets)

    def _open(self, data: Any, tags: Any, nonces: Any, **options: Any) -> Any:
        if isinstance(data, Sealed):
            tags = data.tags if tags is None else tags
            nonces = data.nonces if nonces is None else nonces
            if options.get("offsets") is None:
                options["offsets"] = data.offsets
            data = data.data
        return self._run(False, True, data, tags=tags, ivs=nonces, **options)[0]

    def _encrypt(self, data: Any, **options: Any) -> Encrypted:
        self._refuse_aead()
        out, _, ivs, _ = self._run(True, False, data, **options)
        return Encrypted(out, ivs)

    def _decrypt(self, data: Any, **options: Any) -> Any:
        self._refuse_aead()
        return self._run(False, False, data, **options)[0]

    def _refuse_aead(self) -> None:
        if self._keys.is_aead:
            raise BatchError(f"{self.algorithm} authenticates: use seal and open")


class Key(_Keys):
    """A secret key for one algorithm: any of `warplock.algorithms()`.

    The copy in here is wiped when it is freed. The caller's own (a `bytes` object cannot be wiped)
    is the caller's affair: `Key.generate` and key files leave none in Python.

    >>> key = Key.generate("aes-256-gcm")
    >>> sealed = key.seal(b"hello", aad=b"v1")
    >>> key.open(sealed, aad=b"v1")
    bytearray(b'hello')

    Many messages in one call, here the rows of an array:

    >>> import numpy as np
    >>> rows = np.zeros((1000, 256), dtype="u1")
    >>> sealed = key.seal(rows)
    >>> sealed.data.shape, sealed.tags.shape, sealed.nonces.shape
    ((1000, 256), (1000, 16), (1000, 12))
    >>> bool((key.open(sealed) == rows).all())
    True
    """

    def __init__(self, algorithm: str, key: Buffer) -> None:
        self._keys = KeySet(algorithm, key, False)

    @classmethod
    def generate(cls, algorithm: str) -> Key:
        """A random key."""
        made = cls.__new__(cls)
        made._keys = KeySet.generate(algorithm, None)
        return made

    def __repr__(self) -> str:
        return f"<warplock.Key {self.algorithm}>"

    def seal(
        self,
        data: Buffer,
        *,
        nonces: Buffer | None = None,
        aad: Buffer | None = None,
        aad_offsets: _Integers | None = None,
        out: Buffer | None = None,
        tags: Buffer | Literal["appended"] | None = None,
        tag_len: int = _TAG_LEN,
        offsets: _Integers | None = None,
        sizes: _Integers | None = None,
        out_offsets: _Integers | None = None,
        engine: Engine | None = None,
    ) -> Sealed:
        """Authenticated encryption of one message or many.

        `data` is one message; or with two dimensions, a message for each row; or with `offsets`
        and `sizes` (or one offset more than messages, as in Arrow), ragged messages.

        The rest is optional. `nonces`: one after the other; otherwise random ones are drawn and
        returned. `aad`: associated data, the same for all, or with two dimensions or `aad_offsets`
        each its own. `out`: where to write; `out=data` works in place. `tags`: where to write
        them, or "appended" to have each after its ciphertext.

        Appended tags make messages longer: with `out=data`, rows end in the room for it, and
        ragged messages have it after them.
        """
        return self._seal(
            data, ivs=nonces, aad=aad, aad_offsets=aad_offsets, out=out, tags=tags,
            tag_len=tag_len, offsets=offsets, sizes=sizes, out_offsets=out_offsets, engine=engine,
        )  # fmt: skip

    def open(
        self,
        data: Buffer | Sealed,
        tags: Buffer | Literal["appended"] | None = None,
        *,
        nonces: Buffer | None = None,
        aad: Buffer | None = None,
        aad_offsets: _Integers | None = None,
        out: Buffer | None = None,
        tag_len: int = _TAG_LEN,
        offsets: _Integers | None = None,
        sizes: _Integers | None = None,
        out_offsets: _Integers | None = None,
        engine: Engine | None = None,
    ) -> Any:
        """Verified decryption of what `seal` made: its result, or the parts of it.

        With appended tags, lengths and sizes count them. Raises `InvalidTag`, whose `failed` names
        the messages that did not verify; their output is zeros, and that of the others is good.
        """
        return self._open(
            data, tags, nonces, aad=aad, aad_offsets=aad_offsets, out=out, tag_len=tag_len,
            offsets=offsets, sizes=sizes, out_offsets=out_offsets, engine=engine,
        )  # fmt: skip

    def encrypt(
        self,
        data: Buffer,
        *,
        ivs: Buffer | None = None,
        sector: int | None = None,
        out: Buffer | None = None,
        offsets: _Integers | None = None,
        sizes: _Integers | None = None,
        engine: Engine | None = None,
    ) -> Encrypted:
        """Encryption that detects no changes: ECB, CBC (without padding), CTR and XTS.

        `ivs`: one after the other (16 bytes each); otherwise random ones are drawn and returned.
        For XTS, `sector` is the number of the first message, and the next ones count on.
        """
        return self._encrypt(
            data, ivs=ivs, sector=sector, out=out, offsets=offsets, sizes=sizes,
            engine=engine,
        )  # fmt: skip

    def decrypt(
        self,
        data: Buffer,
        *,
        ivs: Buffer | None = None,
        sector: int | None = None,
        out: Buffer | None = None,
        offsets: _Integers | None = None,
        sizes: _Integers | None = None,
        engine: Engine | None = None,
    ) -> Any:
        """The opposite of `encrypt`. Nothing is verified."""
        return self._decrypt(
            data, ivs=ivs, sector=sector, out=out, offsets=offsets, sizes=sizes,
            engine=engine,
        )  # fmt: skip


class Keys(_Keys):
    """Many keys of one algorithm: message i of a batch takes key i, or with `index` key index[i].

    >>> keys = Keys.generate("aes-128-gcm", 3)
    >>> sealed = keys.seal(bytes(12), offsets=[0, 4, 8, 12])
    >>> keys.open(sealed) == bytes(12)
    True
    >>> some = keys.seal(bytes(8), offsets=[0, 4, 8], index=[2, 0])
    >>> keys.open(some, index=[2, 0]) == bytes(8)
    True
    """

    def __init__(self, algorithm: str, keys: Buffer) -> None:
        self._keys = KeySet(algorithm, keys, True)

    @classmethod
    def generate(cls, algorithm: str, count: int) -> Keys:
        """`count` random keys."""
        made = cls.__new__(cls)
        made._keys = KeySet.generate(algorithm, count)
        return made

    def __len__(self) -> int:
        return self._keys.count

    def __repr__(self) -> str:
        return f"<warplock.Keys {self.algorithm}, {len(self)}>"

    def seal(
        self,
        data: Buffer,
        *,
        index: _Integers | None = None,
        nonces: Buffer | None = None,
        aad: Buffer | None = None,
        aad_offsets: _Integers | None = None,
        out: Buffer | None = None,
        tags: Buffer | Literal["appended"] | None = None,
        tag_len: int = _TAG_LEN,
        offsets: _Integers | None = None,
        sizes: _Integers | None = None,
        out_offsets: _Integers | None = None,
        engine: Engine | None = None,
    ) -> Sealed:
        """As `Key.seal`."""
        return self._seal(
            data, ivs=nonces, aad=aad, aad_offsets=aad_offsets, out=out, tags=tags,
            tag_len=tag_len, offsets=offsets, sizes=sizes, out_offsets=out_offsets, index=index,
            engine=engine,
        )  # fmt: skip

    def open(
        self,
        data: Buffer | Sealed,
        tags: Buffer | Literal["appended"] | None = None,
        *,
        index: _Integers | None = None,
        nonces: Buffer | None = None,
        aad: Buffer | None = None,
        aad_offsets: _Integers | None = None,
        out: Buffer | None = None,
        tag_len: int = _TAG_LEN,
        offsets: _Integers | None = None,
        sizes: _Integers | None = None,
        out_offsets: _Integers | None = None,
        engine: Engine | None = None,
    ) -> Any:
        """As `Key.open`."""
        return self._open(
            data, tags, nonces, aad=aad, aad_offsets=aad_offsets, out=out, tag_len=tag_len,
            offsets=offsets, sizes=sizes, out_offsets=out_offsets, index=index, engine=engine,
        )  # fmt: skip

    def encrypt(
        self,
        data: Buffer,
        *,
        index: _Integers | None = None,
        ivs: Buffer | None = None,
        sector: int | None = None,
        out: Buffer | None = None,
        offsets: _Integers | None = None,
        sizes: _Integers | None = None,
        engine: Engine | None = None,
    ) -> Encrypted:
        """As `Key.encrypt`."""
        return self._encrypt(
            data, ivs=ivs, sector=sector, out=out, offsets=offsets, sizes=sizes,
            index=index, engine=engine,
        )  # fmt: skip

    def decrypt(
        self,
        data: Buffer,
        *,
        index: _Integers | None = None,
        ivs: Buffer | None = None,
        sector: int | None = None,
        out: Buffer | None = None,
        offsets: _Integers | None = None,
        sizes: _Integers | None = None,
        engine: Engine | None = None,
    ) -> Any:
        """As `Key.decrypt`."""
        return self._decrypt(
            data, ivs=ivs, sector=sector, out=out, offsets=offsets, sizes=sizes,
            index=index, engine=engine,
        )  # fmt: skip
