"""PyTorch: sealed tensors as operators, and sealed state dicts.

`seal` and `open` are traced by `torch.compile`; the operators that they call are
`torch.ops.warplock.seal_`, `open_` (in place), `seal_into` and `open_into`. They take the number of
a `warplock.cuda.Key` (`key.handle`), which must live as long as what was traced. They queue work on
the current stream and wait for nothing; CPU tensors go to the host's engine.

Importing this module imports torch.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from typing import TYPE_CHECKING, Any

import torch

from warplock._arrays import library, refuse_special, refuse_without_memory
from warplock._batch import Sealed
from warplock._errors import BatchError, InvalidTag
from warplock._status import refusal
from warplock.cuda import Key, _handles

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["check", "open", "open_state_dict", "seal", "seal_state_dict"]

_TAG_LEN = 16

_LIBRARY = torch.library.Library("warplock", "DEF")
_TAGS = [
    getattr(torch.Tag, name)
    for name in ("pt2_compliant_tag", "needs_exact_strides", "cudagraph_unsafe")
    if hasattr(torch.Tag, name)
]
# Two calls with new nonces are not the same.
_SEALING_TAGS = [*_TAGS, torch.Tag.nondeterministic_seeded]


def _key(handle: int) -> Key:
    key = _handles.get(handle)
    if key is None:
        raise BatchError(f"there is no key {handle}: it was freed")
    return key


def _check(key: Any, *tensors: Any) -> None:
    if not isinstance(key, Key):
        raise TypeError(f"tensors need a warplock.cuda.Key, not {key!r}")
    for tensor in tensors:
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"a tensor is needed, not a {type(tensor).__name__}")
        if not torch.compiler.is_compiling():
            # The operators look again, at what is not traced but run.
            refuse_special(tensor)


def _seal_into(
    src: Any, out: Any, tags: Any, nonces: Any, aad: Any, key: int, fresh: bool
) -> None:
    if fresh:
        _key(key).seal(src, nonces_out=nonces, aad=aad, out=out, tags=tags)
    else:
        _key(key).seal(src, nonces=nonces, aad=aad, out=out, tags=tags)


def _seal_(text: Any, tags: Any, nonces: Any, aad: Any, key: int, fresh: bool) -> None:
    _seal_into(text, text, tags, nonces, aad, key, fresh)


def _open_into(
    src: Any, tags: Any, nonces: Any, out: Any, aad: Any, statuses: Any, key: int
) -> None:
    _key(key).open(src, tags, nonces=nonces, aad=aad, out=out, statuses=statuses)


def _open_(text: Any, tags: Any, nonces: Any, aad: Any, statuses: Any, key: int) -> None:
    _open_into(text, tags, nonces, text, aad, statuses, key)


def _nothing(*_: Any) -> None:
    """What the operators return, when only shapes are wanted."""


for _schema, _function, _tags in (
    (
        "seal_(Tensor(a!) text, Tensor(b!) tags, Tensor(c!) nonces, Tensor? aad, int key, "
        "bool fresh) -> ()",
        _seal_,
        _SEALING_TAGS,
    ),
    (
        "seal_into(Tensor src, Tensor(a!) out, Tensor(b!) tags, Tensor(c!) nonces, Tensor? aad, "
        "int key, bool fresh) -> ()",
        _seal_into,
        _SEALING_TAGS,
    ),
    (
        "open_(Tensor(a!) text, Tensor tags, Tensor nonces, Tensor? aad, Tensor(b!) statuses, "
        "int key) -> ()",
        _open_,
        _TAGS,
    ),
    (
        "open_into(Tensor src, Tensor tags, Tensor nonces, Tensor(a!) out, Tensor? aad, "
        "Tensor(b!) statuses, int key) -> ()",
        _open_into,
        _TAGS,
    ),
):
    _name = _schema.partition("(")[0]
    _LIBRARY.define(_schema, tags=tuple(_tags))
    _LIBRARY.impl(_name, _function, "CompositeExplicitAutograd")
    torch.library.register_fake(f"warplock::{_name}", _nothing, lib=_LIBRARY)


def _shape(tensor: Any) -> tuple[int, int]:
    """Messages, and bytes of each."""
    if tensor.dim() < 2:
        return 1, tensor.numel() * tensor.element_size()
    count, *row = tensor.shape
    return count, math.prod(row) * tensor.element_size()


def seal(tensor: Any, key: Key, *, aad: Any = None) -> Sealed:
    """`Key.seal` as an operator: ciphertext, tags and nonces, as bytes. With more than one
    dimension, the first one counts messages. `aad`: a tensor, the same for all messages, or with
    two dimensions each its own."""
    _check(key, tensor)
    tensor = tensor.contiguous()
    count, width = _shape(tensor)
    rows = tensor.dim() > 1
    iv_len = key._iv_len

    def new(length: int) -> Any:
        shape = (count, length) if rows else (length,)
        return torch.empty(shape, dtype=torch.uint8, device=tensor.device)

    out, tags, nonces = new(width), new(_TAG_LEN), new(iv_len)
    torch.ops.warplock.seal_into(tensor, out, tags, nonces, aad, key.handle, True)
    return Sealed(out, tags, nonces, None)


def open(
    sealed: Sealed, key: Key, *, aad: Any = None, dtype: Any = None
) -> tuple[Any, Any]:
    """`Key.open` as an operator: the texts, viewed as `dtype` if that is given, and for each message
    a 32-bit integer, 0 if it verified, 1 if it was refused and is zeros. What was sealed without
    dimensions comes back with one."""
    _check(key, sealed.data)
    data = sealed.data.contiguous()
    count = data.shape[0] if data.dim() > 1 else 1
    out = torch.empty_like(data)
    statuses = torch.empty((count,), dtype=torch.int32, device=data.device)
    torch.ops.warplock.open_into(
        data, sealed.tags, sealed.nonces, out, aad, statuses, key.handle
    )
    if dtype is not None and data.dim() > 1 and not data.shape[1]:
        # Empty rows cannot be viewed as another type.
        return out.to(dtype), statuses
    return (out if dtype is None else out.view(dtype)), statuses


def check(statuses: Any) -> None:
    """Waits, and raises `InvalidTag` if a message was refused."""
    failed = statuses.nonzero().flatten().tolist()
    if failed:
        raise refusal(failed, len(statuses))


_FORMAT = "warplock.state_dict/1"
_ENTRY = "warplock.state_dict"
_DIGEST = 32


def seal_state_dict(state: Mapping[str, Any], key: Key) -> dict[str, Any]:
    """A state dict whose tensors are sealed where they lie; `open_state_dict` opens it.

    The result is a dict of tensors of bytes with the same names, and one entry more, so that
    `torch.save` and safetensors take it. Names, types and shapes stay readable; none of them can be
    changed, no tensor exchanged, removed, or taken from another state dict without notice.
    """
    _check(key)
    tensors = {}
    for name, tensor in state.items():
        if not isinstance(name, str):
            raise BatchError(f"{name!r} is no text, as names of tensors are")
        if not isinstance(tensor, torch.Tensor):
            raise BatchError(f"{name} is no tensor but {type(tensor).__name__}: leave it out")
        if name == _ENTRY:
            raise BatchError(f"{name} is no name for a tensor here")
        try:
            library(tensor)
            refuse_special(tensor)
            refuse_without_memory(tensor)
        except BatchError as error:
            raise BatchError(f"{name}: {error}") from None
        tensors[name] = tensor.detach().contiguous()
    entries = [
        [name, str(tensor.dtype).removeprefix("torch."), list(tensor.shape)]
        for name, tensor in tensors.items()
    ]
    # The random number binds the tensors of one call together.
    header = {"format": _FORMAT, "id": os.urandom(16).hex(), "tensors": entries}
    text = json.dumps(header, separators=(",", ":")).encode()
    seal = key._host.seal(b"", aad=text)
    head = bytes(seal.nonces) + bytes(seal.tags) + text
    sealed = {_ENTRY: torch.frombuffer(bytearray(head), dtype=torch.uint8)}
    aad = _Aad(text, len(tensors))
    iv_len = key._iv_len
    for number, (name, tensor) in enumerate(tensors.items()):
        # Text, tag, nonce: the text is where memory is aligned.
        nbytes = tensor.numel() * tensor.element_size()
        made = torch.empty(nbytes + _TAG_LEN + iv_len, dtype=torch.uint8, device=tensor.device)
        text_part, tag, nonce = made.split([nbytes, _TAG_LEN, iv_len])
        flat = tensor.reshape(-1).view(torch.uint8) if nbytes else text_part
        key.seal(flat, out=text_part, tags=tag, nonces_out=nonce, aad=aad.on(made, number))
        sealed[name] = made
    return sealed


def open_state_dict(sealed: Mapping[str, Any], key: Key, *, device: Any = None) -> dict[str, Any]:
    """The state dict of which `seal_state_dict` made this one. Waits, and raises `InvalidTag` if
    anything was changed. `device`: where to open, if not where the sealed tensors are; then only
    ciphertext is copied."""
    _check(key)
    iv_len = key._iv_len
    if _ENTRY not in sealed:
        raise BatchError("this is no sealed state dict")
    head = bytes(_bytes_of(sealed, _ENTRY).cpu().numpy())
    if len(head) < iv_len + _TAG_LEN:
        raise InvalidTag(f"{_ENTRY} has another length")
    nonce, tag, text = head[:iv_len], head[iv_len:][:_TAG_LEN], head[iv_len + _TAG_LEN :]
    key._host.open(b"", tag, nonces=nonce, aad=text)
    header = json.loads(text)
    if header["format"] != _FORMAT:
        raise BatchError(f"{header['format']} is of a newer version of Warplock")
    entries = header["tensors"]
    aad = _Aad(text, len(entries))
    opened = {}
    statuses: dict[Any, list[tuple[str, Any]]] = {}
    for number, (name, dtype, shape) in enumerate(entries):
        if name not in sealed:
            raise InvalidTag(f"{name} is missing", [number], len(entries))
        made = _bytes_of(sealed, name)
        if device is not None:
            made = made.to(device, non_blocking=True)
        out = torch.empty(shape, dtype=getattr(torch, dtype), device=made.device)
        nbytes = out.numel() * out.element_size()
        if made.numel() != nbytes + _TAG_LEN + iv_len:
            raise InvalidTag(f"{name} has another length", [number], len(entries))
        text_part, tag, nonce = made.split([nbytes, _TAG_LEN, iv_len])
        words = torch.empty((1,), dtype=torch.int32, device=made.device)
        flat = out.reshape(-1).view(torch.uint8)
        key.open(
            text_part, tag, nonces=nonce, out=flat, aad=aad.on(made, number), statuses=words
        )  # fmt: skip
        statuses.setdefault(made.device, []).append((name, words))
        opened[name] = out
    refused = [
        name
        for each in statuses.values()
        for (name, _), word in zip(each, torch.cat([words for _, words in each]).tolist())
        if word
    ]
    if refused:
        failed = [number for number, (name, *_) in enumerate(entries) if name in refused]
        raise InvalidTag(f"authentication failed: {', '.join(refused)}", failed, len(entries))
    return opened


def _bytes_of(sealed: Mapping[str, Any], name: str) -> Any:
    """A tensor of a sealed state dict."""
    made = sealed[name]
    if not isinstance(made, torch.Tensor) or made.dtype is not torch.uint8 or made.dim() != 1:
        raise InvalidTag(f"{name} is not the tensor of bytes that was made")
    return made


class _Aad:
    """Each tensor's associated data: the header's digest, and the tensor's number."""

    def __init__(self, header: bytes, count: int) -> None:
        digest = hashlib.sha256(header).digest()
        rows = b"".join(digest + number.to_bytes(4, "big") for number in range(count))
        self._rows = torch.frombuffer(bytearray(rows or b"\0"), dtype=torch.uint8)
        self._on: dict[Any, Any] = {}

    def on(self, like: Any, number: int) -> Any:
        found = self._on.get(like.device)
        if found is None:
            found = self._on[like.device] = self._rows.to(like.device)
        return found[number * (_DIGEST + 4) :][: _DIGEST + 4]
