"""Statistics of ciphertexts."""

from __future__ import annotations

import random

import pytest
from fake_gpu import FakeArray, memory

from warplock import Key, _native, analyze

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
        with pytest.raises(ValueError, match="items are not bytes"):
            analyze.statistics(wide)
        with pytest.raises(ValueError, match="items are not bytes"):
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


def test_items_that_are_not_bytes_need_a_shape():
    np = pytest.importorskip("numpy")
    array = np.frombuffer(RANDOM.randbytes(64 * 64 * 2), dtype=np.uint16).reshape(64, 64)
    with pytest.raises(ValueError, match="not bytes"):
        analyze.statistics(array)
    found = analyze.statistics(array, shape=(64, 128))
    assert found == analyze.statistics(array.tobytes(), shape=(64, 128))


@pytest.fixture
def simulated(monkeypatch):
    """Arrays on a GPU that is host memory."""
    calls = []

    def statistics(place, number, address, shape, seed):
        calls.append((number, address))
        return _native.analyze_data(memory(place), shape, seed)

    def compare(left, right, number, address, shape):
        calls.append((number, address))
        return _native.compare_data(memory(left), memory(right), shape)

    monkeypatch.setattr(_native, "gpus", lambda: ["simulated"])
    monkeypatch.setattr(_native, "analyze_on_gpu", statistics)
    monkeypatch.setattr(_native, "compare_on_gpu", compare)
    return calls


def test_arrays_on_a_gpu_are_described(simulated):
    np = pytest.importorskip("numpy")
    host = np.frombuffer(RANDOM.randbytes(64 * 40 * 3), dtype=np.uint8).reshape(64, 40, 3)
    other = host.copy()
    other[5, 6, 1] ^= 1
    array = FakeArray(host)
    assert analyze.statistics(array, seed=3) == analyze.statistics(host, seed=3)
    assert analyze.compare(array, FakeArray(other)) == analyze.compare(host, other)
    flat = host.reshape(-1)
    assert analyze.statistics(FakeArray(flat)) == analyze.statistics(flat)
    shape = (40, 64, 3)
    assert analyze.statistics(array, shape=shape) == analyze.statistics(host, shape=shape)
    assert simulated == [(0, 0)] * 4
    with pytest.raises(ValueError, match="both on the same GPU"):
        analyze.compare(array, host)
    with pytest.raises(ValueError, match="both on the same GPU"):
        analyze.compare(host, array)


def test_tensors_give_the_same_results_wherever_they_are():
    torch = pytest.importorskip("torch")
    data = torch.frombuffer(bytearray(RANDOM.randbytes(3 * 1000 * 30)), dtype=torch.uint8)
    image = data.reshape(30, 1000, 3)
    other = image ^ (torch.arange(30).reshape(30, 1, 1) == 7)
    expected = analyze.statistics(image.numpy())
    assert analyze.statistics(image) == expected
    compared = analyze.compare(image.numpy(), other.numpy())
    assert compared.first == 7 * 3000
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    assert analyze.statistics(image.cuda()) == expected
    assert analyze.compare(image.cuda(), other.cuda()) == compared
    with torch.cuda.stream(torch.cuda.Stream()):
        # Made on this stream just before.
        assert analyze.statistics(image.cuda().clone()) == expected
    # Any alignment.
    cut = data.cuda()[5:]
    assert analyze.statistics(cut) == analyze.statistics(data[5:].numpy())
    with pytest.raises(ValueError, match="only samples of one size"):
        analyze.compare(cut, cut[1:])
    cupy = pytest.importorskip("cupy")
    assert analyze.statistics(cupy.asarray(image.numpy())) == expected


@pytest.mark.parametrize("shape", [(10, 10), (64, 65), (1 << 40, 1 << 40)])
def test_a_shape_is_that_of_the_data(shape):
    """Of (10, 10) the first hundred bytes were taken, without a word."""
    with pytest.raises(ValueError, match="the data has 4096"):
        analyze.statistics(RANDOM.randbytes(4096), shape=shape)
    with pytest.raises(ValueError, match="the data has 4096"):
        analyze.compare(bytes(4096), bytes(4096), shape=shape)


def test_a_tag_after_the_pixels_is_left_out():
    data = RANDOM.randbytes(4096 + 16)
    assert analyze.statistics(data, shape=(64, 64)) == analyze.statistics(data[:4096], shape=(64, 64))
