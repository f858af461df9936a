"""Statistics of ciphertexts."""

from __future__ import annotations

import random

import pytest

from warplock import Key, analyze

RANDOM = random.Random(5)


def flagged(results):
    return {result.name for result in results if result.p_value < 0.001}


def test_sound_data_passes_and_a_picture_does_not():
    data = RANDOM.randbytes(128 * 128)
    results = analyze.statistics(data, shape=(128, 128))
    assert not flagged(results)
    entropy = next(result for result in results if result.name == "entropy")
    assert entropy.bounds[0].level == 0.05 and entropy.bounds[0].low < entropy.expected < 8
    picture = bytes(x ^ y for y in range(128) for x in range(128))
    assert "correlation_horizontal" in flagged(analyze.statistics(picture, shape=(128, 128)))


def test_repeated_blocks_of_ecb_show():
    picture = bytes(64 * (x // 32 % 2) for y in range(256) for x in range(256))
    sealed = Key.generate("aes-256-ecb").encrypt(picture).data
    assert "repeated_blocks" in flagged(analyze.statistics(sealed, shape=(256, 256)))


def test_shapes_are_those_of_arrays():
    np = pytest.importorskip("numpy")
    array = np.frombuffer(RANDOM.randbytes(64 * 40 * 3), dtype=np.uint8).reshape(64, 40, 3)
    names = {result.channel for result in analyze.statistics(array)}
    assert names == {"red", "green", "blue", ""}
    assert analyze.statistics(array) == analyze.statistics(array.tobytes(), shape=(64, 40, 3))
    for wide in (np.zeros((64, 64)), np.zeros((64, 64, 3), "u2")):
        with pytest.raises(ValueError, match="an array of uint8"):
            analyze.statistics(wide)
        with pytest.raises(ValueError, match="an array of uint8"):
            analyze.compare(wide, wide)
    for shape in [(-1, 64), (64, 0), (64, 64, -3)]:
        with pytest.raises(ValueError, match="numbers from 1 on"):
            analyze.statistics(array, shape=shape)
    with pytest.raises(ValueError, match="needs 7680 bytes"):
        analyze.statistics(array.tobytes()[:-1], shape=(64, 40, 3))
    with pytest.raises(ValueError, match="rows, columns"):
        analyze.statistics(array.tobytes(), shape=(7680,))


def test_npcr_and_uaci():
    left, right = RANDOM.randbytes(65536), RANDOM.randbytes(65536)
    found = analyze.compare(left, right, shape=(256, 256))
    assert [result.name for result in found.results] == ["npcr", "uaci", "bit_change"]
    npcr = sum(a != b for a, b in zip(left, right, strict=True)) / 65536 * 100
    uaci = sum(abs(a - b) for a, b in zip(left, right, strict=True)) / 65536 / 255 * 100
    assert found.results[0].value == pytest.approx(npcr, abs=1e-9)
    assert found.results[1].value == pytest.approx(uaci, abs=1e-9)
    assert analyze.compare(left, left).first is None
    with pytest.raises(ValueError, match="only samples of one size"):
        analyze.compare(left, right[:-1])
