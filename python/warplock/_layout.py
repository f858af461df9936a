"""Where messages lie in buffers, and memory for results."""

from __future__ import annotations

import sys
from typing import Any

from warplock._errors import BatchError


class Layout:
    """Where messages lie in a buffer, from the arguments of a call."""

    def __init__(self, data: Any, offsets: Any, sizes: Any, what: str = "data") -> None:
        view = memoryview(data)
        # memoryview's own type says that it may have no shape, which no view of an object lacks.
        shape: Any = view.shape
        strides: Any = view.strides
        if not view.c_contiguous:
            raise BatchError(f"{what} is not C-contiguous: make a copy that is")
        self.nbytes = view.nbytes
        self.rows: tuple[int, int] | None = None
        self.ragged: tuple[Any, Any] | None = None
        if offsets is not None:
            self.ragged = (integers(offsets), None if sizes is None else integers(sizes))
            count = len(self.ragged[0])
            self.count = count if sizes is not None else count - 1
        elif sizes is not None:
            raise BatchError("sizes need offsets")
        elif view.ndim == 2:
            self.count = shape[0]
            self.rows = (shape[0], strides[0] if shape[0] else 0)
        elif view.ndim <= 1:
            self.count = 1
        else:
            raise BatchError(
                f"{what} has {view.ndim} dimensions: give rows of messages (2), or one dimension"
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


def integers(values: Any) -> Any:
    if isinstance(values, (list, tuple)):
        import array

        return array.array("q", values)
    return values


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
    # No memoryview has rows of no bytes, or no rows.
    if 0 in shape:
        return bytearray()
    return memoryview(bytearray(shape[0] * shape[1])).cast("B", shape)


def sized(layout: Layout, more: int) -> tuple[Any, Any]:
    """The same starts, with sizes that are `more` bytes longer."""
    assert layout.ragged is not None
    starts = memoryview(layout.ragged[0]).tolist()[: layout.count]
    return integers(starts), integers([length + more for length in layout.lengths()])
