"""Statistics of ciphertexts, as papers on image encryption have them: with what is expected for the
size at hand, critical values and p-values. docs/analyze.md says how to read each number.

Such tests find flaws and never show security: a cipher that passes all of them may be broken.

Arrays in GPU memory (PyTorch, CuPy, JAX, DLPack, `__cuda_array_interface__`) are analysed where they
lie, with the same results bit for bit.

>>> import os
>>> from warplock import analyze
>>> results = analyze.statistics(os.urandom(256 * 256), shape=(256, 256))
>>> [result.name for result in results][:3]
['histogram', 'evenness', 'entropy']
>>> results[2].value > 7.99
True
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from warplock import _native
from warplock._arrays import Host, library

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Bounds", "Comparison", "Result", "compare", "statistics"]


# Bytes after the pixels: a tag, or padding.
_MOST_AFTER = 32


class Bounds(NamedTuple):
    """Between which values a statistic lies at one level; a side that is no flaw is None."""

    level: float
    """The chance that random data lies outside."""
    low: float | None
    high: float | None


class Result(NamedTuple):
    """The result of one statistical test."""

    channel: str
    """Of an image, such as "red"; otherwise empty."""
    name: str
    """For programs: "entropy", "correlation_horizontal"."""
    title: str
    """For people."""
    value: float
    expected: float
    """What random data has on average."""
    deviation: float
    """Its standard deviation for random data of this size."""
    bounds: tuple[Bounds, ...]
    """At 5, 1 and 0.1 %."""
    p_value: float
    """The chance that random data is at least as far from what is expected."""
    sentence: str
    """The result in one sentence."""


class Comparison(NamedTuple):
    """Two ciphertexts."""

    results: list[Result]
    """NPCR, UACI and changed bits, for each channel."""
    first: int | None
    """The first byte that differs."""


def statistics(data: Any, *, shape: Sequence[int] | None = None, seed: int = 0) -> list[Result]:
    """Every statistic of a ciphertext that it is long enough for (1,280 bytes). Waits.

    `data`: bytes, or a contiguous array of them, in host memory or on a GPU. `shape`: rows and columns
    of an image, with channels last (1 to 4), as NumPy and Pillow have them; without it, that of an
    array of 2 or 3 dimensions is taken. Up to 32 bytes after the pixels, such as a tag, are left out.
    `seed` chooses the sampled pairs and blocks.
    """
    array = _Array(data)
    form = array.form(shape)
    if array.device < 0:
        told = _native.analyze_data(array.data, form, seed)
    else:
        told = _native.analyze_on_gpu(array.place, array.device, array.stream, form, seed)
    return [_result(each) for each in told]


def compare(left: Any, right: Any, *, shape: Sequence[int] | None = None) -> Comparison:
    """NPCR, UACI and changed bits of two ciphertexts of one size. Waits. Both are in host memory, or
    on one GPU.

    What they mean depends on what differs: under one key and nonce, a changed pixel changes one byte
    in CTR and GCM, by design.

    >>> import os
    >>> from warplock import analyze
    >>> a = bytearray(os.urandom(4096)); b = bytearray(a); b[7] ^= 1
    >>> found = analyze.compare(a, b)
    >>> found.first, found.results[0].name, round(found.results[0].value, 5)
    (7, 'npcr', 0.02441)
    """
    one = _Array(left)
    other = _Array(right, one.stream)
    form = one.form(shape)
    if one.device != other.device:
        raise ValueError("both ciphertexts must be in host memory, or both on the same GPU")
    if one.device < 0:
        results, first = _native.compare_data(one.data, other.data, form)
    else:
        if other.stream != one.stream:
            _native.synchronize(other.device, other.stream)
        results, first = _native.compare_on_gpu(
            one.place, other.place, one.device, one.stream, form
        )
    return Comparison([_result(each) for each in results], first)


class _Array:
    """Bytes in host memory, or on a GPU."""

    def __init__(self, data: Any, stream: int | None = None) -> None:
        lib = library(data)
        address, nbytes, self.device, shape, current, _ = lib.view(data, stream)
        self.data = data
        self.stream = 0
        if self.device >= 0:
            self.stream = lib.stream(self.device) if current is None else current
            self.place = (address, nbytes)
        elif isinstance(lib, Host):
            view = memoryview(data)
            shape, nbytes = view.shape, view.nbytes
        else:
            # Such as a tensor of the CPU.
            self.data = lib.host(data)
            nbytes = memoryview(self.data).nbytes
        self._shape = shape
        self._nbytes = nbytes

    def form(self, shape: Sequence[int] | None) -> tuple[int, int, int] | None:
        """Rows, columns and channels."""
        if shape is None:
            if len(self._shape) < 2:
                return None
            if math.prod(self._shape) != self._nbytes:
                raise ValueError("the array's items are not bytes: give bytes, or shape=")
            shape = self._shape
        if len(shape) not in (2, 3):
            raise ValueError(f"a shape is (rows, columns) or (rows, columns, channels), not {shape}")
        rows, columns, channels = (*shape, 1)[:3]
        if min(rows, columns, channels) < 1:
            raise ValueError(f"a shape has numbers from 1 on, not {tuple(shape)}")
        wanted = rows * columns * channels
        if not wanted <= self._nbytes <= wanted + _MOST_AFTER:
            raise ValueError(
                f"the shape {tuple(shape)} needs {wanted} bytes, and the data has {self._nbytes}: "
                f"after the pixels there may be at most {_MOST_AFTER}, such as a tag"
            )
        return rows, columns, channels


def _result(told: _native._Statistic) -> Result:
    channel, name, title, value, expected, deviation, bounds, p_value, sentence = told
    made = tuple(Bounds(*each) for each in bounds)
    return Result(channel, name, title, value, expected, deviation, made, p_value, sentence)
