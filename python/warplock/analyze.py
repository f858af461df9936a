"""Statistics of ciphertexts, as papers on image encryption have them: with what is expected for the
size at hand, critical values and p-values. docs/analyze.md says how to read each number.

Such tests find flaws and never show security: a cipher that passes all of them may be broken.

>>> import os
>>> from warplock import analyze
>>> results = analyze.statistics(os.urandom(256 * 256), shape=(256, 256))
>>> [result.name for result in results][:3]
['histogram', 'evenness', 'entropy']
>>> results[2].value > 7.99
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from warplock import _native

if TYPE_CHECKING:
    from collections.abc import Buffer, Sequence

__all__ = ["Bounds", "Comparison", "Result", "compare", "statistics"]


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


def statistics(data: Buffer, *, shape: Sequence[int] | None = None, seed: int = 0) -> list[Result]:
    """Every statistic of a ciphertext that it is long enough for (1,280 bytes). Waits.

    `data`: bytes, or an array of them. `shape`: rows and columns of an image, with channels last
    (1 to 4), as NumPy and Pillow have them; without it, that of an array of 2 or 3 dimensions is
    taken. `seed` chooses the sampled pairs and blocks.
    """
    return [_result(each) for each in _native.analyze_data(data, _shape(data, shape), seed)]


def compare(left: Buffer, right: Buffer, *, shape: Sequence[int] | None = None) -> Comparison:
    """NPCR, UACI and changed bits of two ciphertexts of one size. Waits.

    What they mean depends on what differs: under one key and nonce, a changed pixel changes one byte
    in CTR and GCM, by design.

    >>> import os
    >>> from warplock import analyze
    >>> a = bytearray(os.urandom(4096)); b = bytearray(a); b[7] ^= 1
    >>> found = analyze.compare(a, b)
    >>> found.first, found.results[0].name, round(found.results[0].value, 5)
    (7, 'npcr', 0.02441)
    """
    results, first = _native.compare_data(left, right, _shape(left, shape))
    return Comparison([_result(each) for each in results], first)


def _shape(data: Buffer, shape: Sequence[int] | None) -> tuple[int, int, int] | None:
    if shape is None:
        found = memoryview(data).shape
        if found is None or len(found) < 2:
            return None
        if memoryview(data).itemsize != 1:
            raise ValueError(
                "an image has 8 bits for each channel: give an array of uint8, or `shape` for raw "
                "pixels"
            )
        shape = found
    if len(shape) not in (2, 3):
        raise ValueError(f"a shape is (rows, columns) or (rows, columns, channels), not {shape}")
    rows, columns, channels = (*shape, 1)[:3]
    if min(rows, columns, channels) < 1:
        raise ValueError(f"a shape has numbers from 1 on, not {tuple(shape)}")
    return rows, columns, channels


def _result(told: _native._Statistic) -> Result:
    channel, name, title, value, expected, deviation, bounds, p_value, sentence = told
    made = tuple(Bounds(*each) for each in bounds)
    return Result(channel, name, title, value, expected, deviation, made, p_value, sentence)
