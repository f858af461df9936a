"""The layout of messages in buffers, and memory for results."""

from __future__ import annotations

import operator
import re
import sys
from typing import Any, NamedTuple

from warplock._errors import BatchError


class Places(NamedTuple):
    """Where a batch's texts and results lie, for the engine."""

    source: tuple[Any, ...]
    target: tuple[Any, ...]
    shape: tuple[int, ...]
    """Of a new output."""
    offsets: Any
    """Of the results, if they lie elsewhere than the texts."""


class Layout:
    """Where messages lie in a buffer, from the arguments of a call."""

    def __init__(
        self,
        nbytes: int,
        rows: tuple[int, int] | None,
        offsets: Any,
        sizes: Any,
    ) -> None:
        """`rows`: their number and bytes of each, if the buffer has them."""
        self.nbytes = nbytes
        self.rows: tuple[int, int] | None = None
        self.ragged: tuple[Any, Any] | None = None
        if offsets is not None:
            self.ragged = (
                integers(offsets, "offsets"),
                None if sizes is None else integers(sizes, "sizes"),
            )
            count = len(self.ragged[0])
            if sizes is None and not count:
                raise BatchError(
                    "offsets without sizes are one more than there are messages, at least 1"
                )
            self.count = count if sizes is not None else count - 1
        elif sizes is not None:
            raise BatchError("sizes need offsets")
        else:
            self.count = 1 if rows is None else rows[0]
            self.rows = rows

    @classmethod
    def of(cls, data: Any, offsets: Any, sizes: Any, what: str = "data") -> Layout:
        """Of an object with the buffer protocol."""
        view = buffer(data, what)
        # memoryview's own type says that it may have no shape, which no view of an object lacks.
        shape: Any = view.shape
        if not view.c_contiguous:
            raise BatchError(f"{what} is not C-contiguous: make a copy that is")
        if offsets is None and view.ndim > 2:
            raise BatchError(
                f"{what} has {view.ndim} dimensions: give rows of messages (2), or one dimension"
            )
        rows = (shape[0], shape[1] * view.itemsize) if view.ndim == 2 else None
        return cls(view.nbytes, rows, offsets, sizes)

    def _check(self, starts: list[int], lengths: list[int]) -> None:
        """Refuses places that the buffer does not have, before memory for them is asked for."""
        if len(lengths) != len(starts):
            raise BatchError(f"there are {len(starts)} offsets and {len(lengths)} sizes")
        if starts and (min(starts) < 0 or min(lengths) < 0):
            raise BatchError(
                "offsets and sizes must not be negative, and offsets without sizes must ascend"
            )
        for place, (start, length) in enumerate(zip(starts, lengths)):
            if start + length > self.nbytes:
                raise BatchError(
                    f"message {place} ends at byte {start + length}, but there are {self.nbytes}",
                    place,
                )

    def native(self, less: int) -> tuple[Any, ...]:
        """For the engine; `less` bytes of each message are no text, but its tag."""
        if self.ragged is not None:
            return self.ragged
        count, stride = self.rows or (1, self.nbytes)
        if count and stride < less:
            raise BatchError(f"messages of {stride} bytes have no room for a tag of {less} bytes")
        return (count, max(stride - less, 0), stride)

    def lengths(self) -> list[int]:
        """Bytes of each ragged message."""
        assert self.ragged is not None
        offsets, sizes = self.ragged
        if sizes is not None:
            return [int(size) for size in memoryview(sizes).tolist()]
        at = memoryview(offsets).tolist()
        return [after - before for before, after in zip(at, at[1:])]

    def places(
        self, encrypts: bool, tag: int, in_place: bool, out_nbytes: int | None, out_offsets: Any
    ) -> Places:
        """Where results go. `tag`: bytes of appended tags. `out_nbytes`: of an output that is
        given."""
        # In place, the appended tag lies in the caller's memory in both directions.
        less = tag if in_place or not encrypts else 0
        grow = tag if encrypts else -tag
        if out_offsets is not None and self.ragged is None:
            raise BatchError("out_offsets are for ragged messages: give offsets as well")
        if self.ragged is None:
            source = self.native(less)
            if in_place:
                return Places(source, source, (), None)
            count, text, _ = source
            width = text + (tag if encrypts else 0)
            if out_nbytes is not None and out_nbytes != count * width:
                raise BatchError(
                    f"out has {out_nbytes} bytes, and {count} messages of {width} bytes need "
                    f"{count * width}"
                )
            shape = (count, width) if self.rows else (width,)
            return Places(source, (count, text, width), shape, None)
        if in_place:
            if out_offsets is not None:
                raise BatchError("in place, each message stays where it is: leave out out_offsets")
            # The sizes are those of texts; each has room for its tag after it.
            target = sized(self, grow) if tag else self.ragged
            return Places(self.ragged, target, (), None)
        if out_nbytes is not None and out_offsets is None and not tag:
            return Places(self.ragged, self.ragged, (), None)
        given = self.lengths()
        self._check(memoryview(self.ragged[0]).tolist()[: self.count], given)
        lengths = [length + grow for length in given]
        if any(length < 0 for length in lengths):
            raise BatchError("an appended tag must fit into each message")
        if out_offsets is not None:
            if out_nbytes is None:
                raise BatchError("out_offsets need out")
            starts = memoryview(integers(out_offsets, "out_offsets")).tolist()[: self.count]
            if len(starts) != self.count:
                raise BatchError(f"there are {len(starts)} out_offsets for {self.count} messages")
            return Places(self.ragged, (integers(starts), integers(lengths)), (), out_offsets)
        if out_nbytes is not None:
            raise BatchError(
                "with appended tags, messages change their length: give out_offsets, or leave out "
                "`out`"
            )
        made = [0]
        for length in lengths:
            made.append(made[-1] + length)
        offsets = integers(made)
        return Places(self.ragged, (offsets, None), (made[-1],), offsets)


def is_appended(authenticated: bool, tags: Any) -> bool:
    """Whether tags lie after their ciphertexts."""
    if not authenticated or not isinstance(tags, str):
        return False
    if tags != "appended":
        raise BatchError('tags are a buffer or "appended"')
    return True


def check_aad(aad: Any, aad_offsets: Any) -> None:
    """Refuses places in associated data that is not there."""
    if aad is None and aad_offsets is not None:
        raise BatchError("aad_offsets need aad")


def check_tag_len(tag_len: Any) -> None:
    """Refuses lengths for which there is no memory; which others fit, the engine says."""
    if not 0 <= operator.index(tag_len) <= 16:
        raise BatchError(f"a tag has at most 16 bytes, not {tag_len}")


def integers(values: Any, what: str = "offsets") -> Any:
    """A buffer of integers in one dimension."""
    if isinstance(values, (list, tuple)):
        import array

        try:
            return array.array("q", values)
        except (OverflowError, TypeError) as error:
            raise BatchError(f"{what} must be integers of 64 bits: {error}") from None
    view = buffer(values, what)
    if view.format.lstrip("@=<") not in _INTEGERS or view.itemsize not in (4, 8):
        raise BatchError(
            f"{what} must be an array of integers with 4 or 8 bytes, such as NumPy's int64"
        )
    if view.ndim != 1 or not view.c_contiguous:
        raise BatchError(f"{what} must be a contiguous array of one dimension")
    return values


_INTEGERS = frozenset("iIlLqQnN")
_FIELD_NAMES = re.compile(":[^:]*:")


def buffer(data: Any, what: str = "data") -> memoryview:
    """A view of a host object that its bytes describe completely."""
    numpy_ma = sys.modules.get("numpy.ma")
    if numpy_ma is not None and isinstance(data, numpy_ma.MaskedArray):
        raise BatchError(
            f"{what} is a masked array, whose mask would be lost: give its data, or filled()"
        )
    try:
        view = memoryview(data)
    except TypeError as error:
        if hasattr(data, "__dlpack__") or hasattr(data, "__cuda_array_interface__"):
            raise TypeError(
                f"{what} is a {type(data).__name__}: use warplock.cuda.Key, which is for tensors and "
                "for arrays on GPUs, or give a NumPy array of it, such as numpy.from_dlpack makes"
            ) from None
        raise TypeError(f"{what}: {error}") from None
    except ValueError as error:
        # Released memory, and NumPy's types for which the protocol has no name.
        raise BatchError(
            f"{what} cannot be taken as bytes: {error}; of a NumPy array, give view('u1')"
        ) from None
    if "O" in _FIELD_NAMES.sub("", view.format):
        raise BatchError(
            f"{what} holds Python objects, of which only addresses would be taken: serialize them"
        )
    return view


def is_numpy(data: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(data, numpy.ndarray)


def empty(like: Any, shape: tuple[int, ...]) -> Any:
    """New memory: a NumPy array for NumPy's, else a bytearray, for rows a memoryview of one."""
    if is_numpy(like):
        numpy = sys.modules["numpy"]
        return numpy.empty(shape, dtype="u1")
    if len(shape) == 1:
        return bytearray(shape[0])
    # A memoryview cannot have empty rows, or no rows.
    if 0 in shape:
        return bytearray()
    return memoryview(bytearray(shape[0] * shape[1])).cast("B", shape)


def sized(layout: Layout, more: int) -> tuple[Any, Any]:
    """The same starts, with sizes that are `more` bytes longer."""
    assert layout.ragged is not None
    starts = memoryview(layout.ragged[0]).tolist()[: layout.count]
    return integers(starts), integers([length + more for length in layout.lengths()])


def flat(data: Any) -> memoryview:
    """The bytes of a contiguous buffer."""
    view = memoryview(data)
    # A memoryview with a dimension of 0 cannot be cast.
    return view.cast("B") if view.nbytes else memoryview(bytearray())


def check_rows(shape: Any, count: int, what: str) -> None:
    """An array of more dimensions than one has a row for each message."""
    if len(shape) > 1 and shape[0] != count:
        raise BatchError(f"{what} has {shape[0]} rows for {count} messages")


# The least bytes of nonces given for sealing: shorter ones soon repeat.
_LEAST_NONCE = 8


def given_nonces(shape: Any, nbytes: int, count: int, iv_len: int, seals: bool) -> int:
    """The bytes of each of a batch's nonces or IVs, from the array of them."""
    check_rows(shape, count, "nonces")
    if not count:
        each = iv_len
    elif len(shape) > 1 or count == 1:
        each = nbytes // count
    elif nbytes == iv_len * count:
        each = iv_len
    else:
        raise BatchError(
            f"the nonces have {nbytes} bytes, and {count} messages need {iv_len} bytes each: "
            f"{iv_len * count} (nonces of another length: an array with a row for each message)"
        )
    if seals and count and each < _LEAST_NONCE:
        raise BatchError(
            f"a nonce of {each} bytes is too short to seal with: {_LEAST_NONCE} bytes at least"
        )
    return each


def check_sectors(sector: Any, count: int, ivs: Any) -> None:
    """Checks that sector numbers fit 128 bits and do not wrap."""
    if ivs is not None:
        raise BatchError("give ivs or sector, not both")
    first = operator.index(sector)
    if first < 0 or first + count > 1 << 128:
        raise BatchError(f"the numbers of {count} sectors must all be from 0 to 2**128 - 1")
