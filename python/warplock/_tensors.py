"""The header of safetensors files, read and written as the package safetensors does.

It is short: a length, JSON, spaces. So that package is not needed at run time, and nothing here
depends on how it reads files; the tests compare with it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from warplock._errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

CHUNK = 16384
"""Bytes of a chunk; a header that ends with one keeps tensors out of its chunks."""
_MOST_HEADER = 100_000_000
_BEYOND_MEMORY = 1 << 63

BITS = {
    "BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8,
    "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
    "I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64, "I64": 64, "U64": 64,
}  # fmt: skip
"""Bits of an element; tensors are ordered by type, the last one first, so that each is aligned."""
_RANK = {dtype: rank for rank, dtype in enumerate(BITS)}


class Entry(NamedTuple):
    """A tensor of a header."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    """Where it begins, after the header."""
    stop: int


class Header(NamedTuple):
    """What a file says about its tensors."""

    entries: dict[str, Entry]
    """In the order of their places."""
    metadata: dict[str, str] | None
    data: int
    """Where the tensors begin in the file."""

    def near(self, offset: int) -> str | None:
        """The first tensor with bytes in the chunk at `offset` of the file; None: the header."""
        for entry in self.entries.values():
            if entry.stop > entry.start and self.data + entry.stop > offset:
                return entry.name if self.data + entry.start < offset + CHUNK else None
        return None


def _wrong(what: str) -> FormatError:
    return FormatError(f"not a safetensors file inside: {what}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _wrong("the header has a name twice")
    return found


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < _BEYOND_MEMORY


def byte_len(dtype: str, shape: Sequence[int]) -> int | None:
    """Bytes of a tensor; None if its type is not known, if its last byte is not full, or if it is
    longer than memory."""
    total = BITS.get(dtype)
    if total is None:
        return None
    if 0 in shape:
        return 0
    for length in shape:
        total *= length
        # Here, not at the end: the product of a hostile shape of millions of numbers takes hours.
        if total >= 8 * _BEYOND_MEMORY:
            return None
    return None if total % 8 else total // 8


def header_len(start: bytes, content: int) -> int:
    """Bytes of JSON that the first eight bytes announce."""
    length = int.from_bytes(start, "little")
    if len(start) < 8 or length > content - 8:
        raise _wrong("the header is longer than the content")
    if length > _MOST_HEADER:
        raise _wrong(f"the header has {length} bytes, more than {_MOST_HEADER}")
    return length


def parse(text: bytes, content: int) -> Header:
    """A header of a file of `content` bytes: every byte after it belongs to one tensor."""
    try:
        if not text.startswith(b"{"):
            raise ValueError("the header does not begin with '{'")
        found = json.loads(text.decode("utf-8"), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise _wrong(str(error)) from None
    metadata = found.pop("__metadata__", None)
    if metadata is not None and not (
        isinstance(metadata, dict) and all(isinstance(value, str) for value in metadata.values())
    ):
        raise _wrong("the metadata is not a map of texts")
    entries = []
    for name, info in found.items():
        if not (isinstance(info, dict) and set(info) == {"dtype", "shape", "data_offsets"}):
            raise _wrong(f"tensor {name!r} is not described by type, shape and offsets")
        dtype, shape, offsets = info["dtype"], info["shape"], info["data_offsets"]
        if not (isinstance(shape, list) and all(map(_is_count, shape))):
            raise _wrong(f"tensor {name!r} has an invalid shape")
        if not (isinstance(offsets, list) and len(offsets) == 2 and all(map(_is_count, offsets))):
            raise _wrong(f"tensor {name!r} has invalid offsets")
        if not (isinstance(dtype, str) and dtype in BITS):
            raise _wrong(f"tensor {name!r} has the unknown type {dtype!r}")
        start, stop = offsets
        if byte_len(dtype, shape) != stop - start:
            raise _wrong(f"tensor {name!r} has more or fewer bytes than its shape")
        entries.append(Entry(name, dtype, tuple(shape), start, stop))
    entries.sort(key=lambda entry: (entry.start, entry.stop))
    reached = 0
    for entry in entries:
        if entry.start != reached:
            raise _wrong(f"tensor {entry.name!r} overlaps another, or bytes before it have no tensor")
        reached = entry.stop
    data = 8 + len(text)
    if data + reached != content:
        raise _wrong(f"its tensors end at byte {data + reached} of {content}")
    return Header({entry.name: entry for entry in entries}, metadata, data)


def write(
    tensors: Iterable[tuple[str, str, tuple[int, ...]]], metadata: Mapping[str, str] | None
) -> tuple[bytes, list[str]]:
    """The start of a file of tensors (name, type, shape), and the order of their bytes.

    Spaces after the JSON, which the format allows, let the tensors begin with a chunk.
    """
    described: dict[str, Any] = {}
    if metadata is not None:
        for key, value in metadata.items():
            if not (isinstance(key, str) and isinstance(value, str)):
                raise TypeError("metadata is a map of texts")
        described["__metadata__"] = dict(metadata)
    order = []
    offset = 0
    tensors = list(tensors)
    for name, _, _ in tensors:
        if not isinstance(name, str):
            raise TypeError(f"a tensor's name is a text, not {name!r}")
    for name, dtype, shape in sorted(tensors, key=lambda given: (-_RANK[given[1]], given[0])):
        length = byte_len(dtype, shape)
        if name == "__metadata__" or length is None:
            raise ValueError(f"tensor {name!r} cannot be saved under this name, type and shape")
        described[name] = {
            "dtype": dtype,
            "shape": list(shape),
            "data_offsets": [offset, offset + length],
        }
        offset += length
        order.append(name)
    text = json.dumps(described, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    text += b" " * (-(8 + len(text)) % CHUNK)
    if len(text) > _MOST_HEADER:
        raise ValueError(f"the header would have more than {_MOST_HEADER} bytes")
    return len(text).to_bytes(8, "little") + text, order
