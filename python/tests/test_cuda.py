"""Arrays in GPU memory: the same tests for host memory, a simulated GPU, and each library that this
machine has on a GPU."""

from __future__ import annotations

import os

import pytest

import warplock
from array_libraries import (  # noqa: F401
    AEADS,
    Fake,
    Jax,
    Numpy,
    Torch,
    flat,
    is_fake,
    key_len,
    lib,
    np,
    rows_of,
    sealed_texts,
)
from warplock import BatchError, InvalidTag
from warplock.cuda import Counter, Key, add32_nonces, xor_nonces

try:
    from cryptography.hazmat.primitives.ciphers import aead
except ImportError:
    # Then the host's engine, which its own tests compare with it, is the reference.
    aead = None

SHAPES = {
    "one": ((1000,), {}, [(0, 1000)]),
    "rows": ((50, 100), {}, [(i * 100, 100) for i in range(50)]),
    "floats": ((6, 5, 4), {}, [(i * 80, 80) for i in range(6)]),
    "offsets": ((500,), {"offsets": [0, 5, 5, 200, 500]}, [(0, 5), (5, 0), (5, 195), (200, 300)]),
    "sizes": (
        (500,),
        {"offsets": np.array([100, 3], "i8"), "sizes": np.array([64, 33], "i8")},
        [(100, 64), (3, 33)],
    ),
    "empty": ((0,), {}, [(0, 0)]),
    "none": ((0, 16), {}, []),
}


def texts(shape):
    size, where, spans = SHAPES[shape]
    kind = "f4" if shape == "floats" else "u1"
    array = np.random.default_rng(1).integers(0, 255, size, "u1").astype(kind)
    return array, dict(where), spans


@pytest.mark.parametrize("algorithm", AEADS)
@pytest.mark.parametrize("shape", list(SHAPES))
@pytest.mark.parametrize("tags", [None, "appended"])
def test_messages_are_those_of_the_standard(lib, algorithm, shape, tags):
    array, where, spans = texts(shape)
    raw = os.urandom(key_len(algorithm))
    key = Key(algorithm, raw)
    data = lib.put(array)
    sealed = key.seal(data, aad=lib.bytes(b"v1"), tags=tags, **where)
    assert lib.owns(sealed.data) and lib.owns(sealed.nonces)
    count = len(spans)
    plain = array.reshape(-1).view("u1")
    seen = set()
    host = warplock.Key(algorithm, raw)
    for (start, length), (found, nonce) in zip(
        spans, sealed_texts(lib, sealed, count), strict=True
    ):
        text = plain[start : start + length].tobytes()
        if aead is None or algorithm == "acorn-128":
            wanted = bytes(host.seal(text, nonces=nonce, aad=b"v1", tags="appended").data)
        else:
            wanted = aead.AESGCM(raw).encrypt(nonce, text, b"v1")
        assert found == wanted
        seen.add(nonce)
    assert len(seen) == count
    back = key.open(sealed, aad=lib.bytes(b"v1"), **({} if sealed.offsets is not None else where))
    back.status.check()
    assert back.status.failed() == []
    wanted = [plain[start : start + length] for start, length in spans]
    assert flat(lib, back.data).tobytes() == b"".join(each.tobytes() for each in wanted)


def test_host_and_gpu_agree_bit_for_bit(lib):
    raw = os.urandom(32)
    array = np.random.default_rng(2).integers(0, 255, (40, 33), "u1")
    nonces = np.random.default_rng(3).integers(0, 255, (40, 12), "u1")
    aad = np.random.default_rng(4).integers(0, 255, (40, 7), "u1")
    key = Key("aes-256-gcm", raw)
    wanted = warplock.Key("aes-256-gcm", raw).seal(array, nonces=nonces, aad=aad)
    found = key.seal(lib.put(array), nonces=lib.put(nonces), aad=lib.put(aad))
    assert (lib.get(found.data) == wanted.data).all()
    assert (lib.get(found.tags) == wanted.tags).all()
    opened = key.open(found, aad=lib.put(aad))
    opened.status.check()
    assert (lib.get(opened.data) == array).all()


def test_what_is_refused_is_zeros_and_counted(lib):
    key = Key.generate("aes-256-gcm")
    array = np.full((100, 64), 7, "u1")
    sealed = key.seal(lib.put(array))
    forged = lib.get(sealed.data).copy()
    forged[[3, 50, 99], 5] ^= 1
    refused = None
    if not isinstance(lib, (Jax,)):
        refused = lib.put(np.zeros(1, "i4"))
    opened = key.open(
        lib.put(forged), sealed.tags, nonces=sealed.nonces,
        **({} if refused is None else {"refused": refused}),
    )  # fmt: skip
    assert opened.status.failed() == [3, 50, 99]
    with pytest.raises(InvalidTag) as error:
        opened.status.check()
    assert error.value.failed == [3, 50, 99] and error.value.total == 100
    good = np.ones(100, bool)
    good[[3, 50, 99]] = False
    found = lib.get(opened.data)
    assert (found[good] == 7).all() and not found[~good].any()
    words = flat(lib, opened.status.array).view("u4")
    assert (words == ~good).all()
    if refused is not None:
        assert lib.get(refused)[0] == 3
    if not isinstance(lib, Fake):
        assert bool(opened.status.any_failed)


@pytest.mark.parametrize("how", ["apart", "appended", "ragged"])
def test_in_place(lib, how):
    if isinstance(lib, Jax):
        pytest.skip("JAX's arrays are immutable")
    key = Key.generate("aes-128-gcm")
    array = np.random.default_rng(5).integers(0, 255, (20, 48), "u1")
    room = 16 if how == "appended" else 0
    data = lib.put(np.pad(array, ((0, 0), (0, room))))
    where = {}
    if how == "ragged":
        data = lib.put(array.reshape(-1))
        where = {"offsets": [0, 48, 100], "sizes": [48, 30, 700]}
    tags = "appended" if room else None
    sealed = key.seal(data, out=data, tags=tags, **where)
    assert sealed.data is data
    opened = key.open(sealed, out=data, **where)
    opened.status.check()
    assert opened.data is data
    found = flat(lib, data)
    if how == "appended":
        found = found.reshape(20, 64)[:, :48].reshape(-1)
    assert (found == array.reshape(-1)).all()


def test_given_arrays_are_written(lib):
    if isinstance(lib, Jax):
        pytest.skip("JAX's arrays are immutable")
    key = Key.generate("aes-256-gcm")
    array = np.random.default_rng(6).random((30, 10))
    out, tags = lib.put(np.zeros((30, 80), "u1")), lib.put(np.zeros((30, 16), "u1"))
    nonces = lib.put(np.zeros((30, 12), "u1"))
    sealed = key.seal(lib.put(array), out=out, tags=tags, nonces_out=nonces)
    assert sealed.data is out and sealed.tags is tags and sealed.nonces is nonces
    assert len({row.tobytes() for row in lib.get(nonces)}) == 30
    back, words = lib.put(np.zeros((30, 10))), lib.put(np.full(30, 9, "i4"))
    opened = key.open(sealed, out=back, statuses=words)
    opened.status.check()
    assert opened.data is back and (lib.get(back) == array).all()
    assert not lib.get(words).any()
    shifted = lib.put(np.zeros(401, "u1"))
    if not isinstance(lib, Fake):
        # At any byte.
        part = shifted[1:]
        single = key.seal(lib.put(np.arange(400, dtype="u1") % 251), out=part)
        assert (lib.get(key.open(single).data) == np.arange(400, dtype="u1") % 251).all()


def test_nonces_never_repeat(lib):
    key, counter = Key.generate("aes-256-gcm"), Counter()
    prefixed = Counter(b"\1\2\3\4")
    data = lib.put(np.zeros((100, 16), "u1"))
    for nonces in (None, counter, prefixed):
        seen = set()
        for _ in range(20):
            sealed = key.seal(data, nonces=nonces)
            seen |= {row.tobytes() for row in rows_of(lib, sealed.nonces, 100)}
            key.open(sealed).status.check()
        assert len(seen) == 2000
        if nonces is prefixed:
            assert all(nonce[:4] == b"\1\2\3\4" for nonce in seen)
    with pytest.raises(BatchError, match="counter"):
        key.open(data, sealed.tags, nonces=counter)
    with pytest.raises(BatchError, match="one device"):
        prefixed._on(7, "aes-256-gcm")


@pytest.mark.parametrize("kind", ["xor", "add32"])
def test_counted_nonces_are_those_of_the_formula(lib, kind):
    raw, base = os.urandom(32), bytes(range(250, 256)) + b"\xff\xff\xff\xff\xff\xfe"
    key = Key("aes-256-gcm", raw)
    array = np.random.default_rng(7).integers(0, 255, (9, 20), "u1")
    counted = (xor_nonces if kind == "xor" else add32_nonces)(base, 5)
    sealed = key.seal(lib.put(array), nonces=counted)
    number = int.from_bytes(base, "big")
    for i, row in enumerate(rows_of(lib, sealed.data, 9)):
        if kind == "xor":
            nonce = number ^ (5 + i)
        else:
            nonce = number >> 32 << 32 | (number + 5 + i) % (1 << 32)
        alone = warplock.Key("aes-256-gcm", raw).seal(
            array[i].tobytes(), nonces=nonce.to_bytes(12, "big")
        )
        assert row.tobytes() == bytes(alone.data)
    opened = key.open(sealed)
    opened.status.check()
    assert (lib.get(opened.data) == array).all()


@pytest.mark.parametrize("algorithm", ["aes-128-ctr", "aes-256-cbc", "aes-128-xts", "aes-192-ecb"])
def test_modes_without_authentication(lib, algorithm):
    if isinstance(lib, Fake) and not algorithm.endswith(("ecb", "xts")):
        pytest.skip("nothing is uploaded to the simulated GPU")
    key = Key.generate(algorithm)
    array = np.random.default_rng(8).integers(0, 255, (32, 512), "u1")
    data = lib.put(array)
    options = {"sector": 77} if algorithm.endswith("xts") else {}
    encrypted = key.encrypt(data, **options)
    assert (lib.get(encrypted.data) != array).any()
    if encrypted.ivs is not None:
        options = {"ivs": encrypted.ivs}
    assert (lib.get(key.decrypt(encrypted.data, **options)) == array).all()
    with pytest.raises(BatchError):
        key.seal(data)


def test_associated_data(lib):
    key = Key.generate("aes-256-gcm")
    array = np.random.default_rng(9).integers(0, 255, (3, 10), "u1")
    data = lib.put(array)
    shared = lib.put(np.frombuffer(b"shared", "u1"))
    sealed = key.seal(data, aad=shared)
    key.open(sealed, aad=lib.bytes(b"shared")).status.check()
    with pytest.raises(InvalidTag):
        key.open(sealed, aad=lib.bytes(b"other")).status.check()
    with pytest.raises(InvalidTag):
        key.open(sealed).status.check()
    ragged = lib.put(np.frombuffer(b"abcdef", "u1"))
    sealed = key.seal(data, aad=ragged, aad_offsets=[0, 1, 3, 6])
    rows = lib.put(np.frombuffer(b"abbccc", "u1").reshape(3, 2))
    assert key.open(sealed, aad=rows).status.failed() == [0, 2]
    key.open(sealed, aad=ragged, aad_offsets=[0, 1, 3, 6]).status.check()


def test_bad_arguments_are_refused_before_anything_is_done(lib):
    key = Key.generate("aes-256-gcm")
    data = lib.put(np.zeros((10, 16), "u1"))
    sealed = key.seal(data)
    with pytest.raises(BatchError, match="nonces"):
        key.open(sealed.data, sealed.tags)
    with pytest.raises(BatchError, match="tags"):
        key.open(sealed.data, nonces=sealed.nonces)
    with pytest.raises(BatchError):
        key.seal(data, tags="somewhere")
    with pytest.raises(BatchError):
        key.seal(data, tag_len=3)
    with pytest.raises(BatchError):
        key.seal(data, nonces=sealed.nonces, nonces_out=sealed.nonces)
    with pytest.raises(BatchError):
        key.encrypt(data)
    if isinstance(lib, Jax):
        with pytest.raises(BatchError, match="cannot be written"):
            key.seal(data, out=data)
    else:
        with pytest.raises((BatchError, ValueError)):
            key.seal(data, out=lib.put(np.zeros((10, 15), "u1")))
    if not isinstance(lib, (Jax, Fake)):
        with pytest.raises(BatchError, match="contiguous"):
            key.seal(lib.put(np.zeros((10, 16), "u1"))[:, ::2])


def test_what_is_no_array():
    key = Key.generate("aes-256-gcm")
    with pytest.raises(BatchError, match="no array"):
        key.seal(object())
    sealed = key.seal(b"bytes", tags="appended")
    assert bytes(key.open(sealed).data) == b"bytes"


def test_plans(lib):
    if isinstance(lib, (Numpy, Jax)) and not isinstance(lib, Fake):
        key = Key.generate("aes-256-gcm")
        with pytest.raises(BatchError, match="plan"):
            key.plan("seal", lib.put(np.zeros(10, "u1")))
        return
    if isinstance(lib, Torch) and lib.device == "cpu" and not is_fake(lib):
        pytest.skip("plans are for GPUs")
    key = Key.generate("aes-256-gcm")
    array = np.random.default_rng(10).integers(0, 255, (64, 100), "u1")
    data = lib.put(array)
    seal = key.plan("seal", data)
    open_ = key.plan("open", seal.data, seal.tags, nonces=seal.nonces)
    seen = set()
    for _ in range(10):
        seal.launch()
        open_.launch()
        open_.status.check()
        assert (lib.get(open_.data) == array).all()
        seen |= {row.tobytes() for row in rows_of(lib, seal.nonces, 64)}
    assert len(seen) == 640 and seal.status is None
    forged = lib.get(seal.tags).copy().reshape(64, 16)
    forged[9, 0] ^= 1
    refusing = key.plan("open", seal.data, lib.put(forged), nonces=seal.nonces)
    refusing.launch()
    assert refusing.status.failed() == [9]
    if not is_fake(lib):
        words = lib.get(refusing.status.array)
        assert words.tolist() == [int(i == 9) for i in range(64)]
    for plan in (seal, open_, refusing):
        plan.close()


def test_the_simulated_gpu_is_asked_once_for_each_shape(lib):
    if not is_fake(lib):
        pytest.skip("of the simulated GPU")
    key = Key.generate("aes-256-gcm", device=0)
    data = lib.put(np.zeros((10, 16), "u1"))
    for _ in range(5):
        key.seal(data)
    assert key._devices[0].native.asked == 1
