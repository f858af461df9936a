"""Keys and batches."""

from __future__ import annotations

import array
import copy
import mmap
import os
import pickle

import pytest

import warplock
from warplock import BatchError, InvalidTag, Key, Keys

np = pytest.importorskip("numpy")
pyca = pytest.importorskip("cryptography.hazmat.primitives.ciphers")
aead = pytest.importorskip("cryptography.hazmat.primitives.ciphers.aead")

AEADS = ["aes-128-gcm", "aes-192-gcm", "aes-256-gcm", "acorn-128"]
SHAPES = ["rows", "offsets", "sizes"]


def pyca_cipher(algorithm, key, iv):
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    _, _, mode = algorithm.split("-")
    made = {
        "ecb": lambda: modes.ECB(),
        "cbc": lambda: modes.CBC(iv),
        "ctr": lambda: modes.CTR(iv),
        "xts": lambda: modes.XTS(iv),
    }[mode]()
    return Cipher(algorithms.AES(key), made)


def key_len(algorithm):
    if algorithm == "acorn-128":
        return 16
    return int(algorithm.split("-")[1]) // 8 * (2 if algorithm.endswith("xts") else 1)


def texts_of(shape, count=50):
    if shape == "rows":
        return [os.urandom(100) for _ in range(count)]
    return [os.urandom(i * 7 % 130) for i in range(count)]


def arguments(shape, texts, gap=0, room=0):
    """The messages as one call's arguments: the buffer, and where they are in it."""
    if shape == "rows":
        joined = b"".join(text + bytes(room) for text in texts)
        return np.frombuffer(bytearray(joined), "u1").reshape(len(texts), -1), {}
    starts, memory = [], bytearray()
    for text in texts:
        memory += b"\xaa" * gap
        starts.append(len(memory))
        memory += text + bytes(room)
    if shape == "offsets":
        assert not gap and not room
        return memory, {"offsets": np.array([*starts, len(memory)], "i4")}
    return memory, {
        "offsets": np.array(starts, "u8"),
        "sizes": array.array("q", map(len, texts)),
    }


@pytest.mark.parametrize("algorithm", AEADS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("tags", [None, "appended"])
def test_a_batch_is_what_its_messages_are_alone(algorithm, shape, tags):
    texts = texts_of(shape)
    data, where = arguments(shape, texts)
    raw = os.urandom(key_len(algorithm))
    key = Key(algorithm, raw)
    sealed = key.seal(data, aad=b"v1", tags=tags, **where)
    nonces = np.asarray(sealed.nonces).reshape(len(texts), -1)
    assert len({nonce.tobytes() for nonce in nonces}) == len(texts)
    for i, text in enumerate(texts):
        alone = key.seal(text, nonces=nonces[i].tobytes(), aad=b"v1", tags="appended").data
        if algorithm != "acorn-128":
            assert bytes(alone) == aead.AESGCM(raw).encrypt(nonces[i].tobytes(), text, b"v1")
        if shape == "rows":
            found = np.asarray(sealed.data)[i].tobytes()
        else:
            at = sealed.offsets if sealed.offsets is not None else None
            if at is None:
                at = where["offsets"]
            start = int(at[i])
            found = bytes(sealed.data[start : start + len(text) + (16 if tags else 0)])
        if tags is None:
            found += np.asarray(sealed.tags).reshape(len(texts), 16)[i].tobytes()
        assert found == bytes(alone)
    if tags == "appended" and shape != "rows":
        opened = key.open(sealed, aad=b"v1")
    else:
        opened = key.open(sealed, aad=b"v1", **where)
    assert bytes(np.asarray(opened).reshape(-1)) == b"".join(texts)


def test_what_fails_is_named_and_zero():
    key = Key.generate("aes-256-gcm")
    rows = np.full((1000, 64), 7, "u1")
    sealed = key.seal(rows)
    sealed.data[[3, 500, 999], 5] ^= 1
    out = np.full_like(rows, 255)
    with pytest.raises(InvalidTag) as refused:
        key.open(sealed, out=out)
    assert refused.value.failed == [3, 500, 999]
    assert refused.value.total == 1000
    good = np.ones(1000, bool)
    good[refused.value.failed] = False
    assert (out[good] == 7).all() and not out[~good].any()
    again = pickle.loads(pickle.dumps(refused.value))
    assert again.failed == [3, 500, 999] and str(again) == str(refused.value)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, "mmap", "array", "numpy"])
def test_kinds_of_buffers(kind, tmp_path):
    text = os.urandom(8192)
    if kind == "mmap":
        with open(tmp_path / "file", "w+b") as file:
            file.write(text)
            file.flush()
            data = mmap.mmap(file.fileno(), 0)
    elif kind == "array":
        data = array.array("d")
        data.frombytes(text)
    elif kind == "numpy":
        data = np.frombuffer(text, "f4").reshape(64, 32)
    else:
        data = kind(text)
    key = Key.generate("aes-128-gcm")
    sealed = key.seal(data)
    assert isinstance(sealed.data, np.ndarray) == (kind == "numpy")
    assert np.asarray(key.open(sealed)).tobytes() == text


@pytest.mark.parametrize("shape", ["rows", "sizes"])
def test_in_place_with_tags_apart(shape):
    texts = texts_of(shape)
    data, where = arguments(shape, texts, gap=0 if shape == "rows" else 3)
    before = bytes(data)
    key = Key.generate("aes-256-gcm")
    sealed = key.seal(data, out=data, **where)
    assert sealed.data is data and bytes(data) != before
    assert key.open(sealed, out=data, **where) is data
    assert bytes(data) == before


@pytest.mark.parametrize("shape", ["rows", "sizes"])
def test_in_place_with_appended_tags(shape):
    texts = texts_of(shape)
    data, where = arguments(shape, texts, room=16)
    raw = os.urandom(16)
    key = Key("aes-128-gcm", raw)
    sealed = key.seal(data, out=data, tags="appended", **where)
    nonce = np.asarray(sealed.nonces).reshape(len(texts), 12)[9].tobytes()
    memory = np.frombuffer(data, "u1")
    start = 9 * 116 if shape == "rows" else int(where["offsets"][9])
    found = memory[start : start + len(texts[9]) + 16].tobytes()
    assert found == aead.AESGCM(raw).encrypt(nonce, texts[9], None)
    if shape == "sizes":
        where["sizes"] = array.array("q", [len(text) + 16 for text in texts])
    key.open(data, "appended", nonces=sealed.nonces, out=data, **where)
    assert np.frombuffer(data, "u1")[start : start + len(texts[9])].tobytes() == texts[9]


def test_places_of_the_caller():
    key = Key.generate("aes-128-gcm")
    data = b"aaaabbbbbbcc"
    out = bytearray(b"." * 100)
    sealed = key.seal(
        data, offsets=[0, 4, 10, 12], tags="appended", out=out, out_offsets=[70, 40, 1]
    )
    assert out[0:1] + out[19:40] == b"." * 22
    sizes = [20, 22, 18]
    opened = bytearray(12)
    key.open(
        out, "appended", nonces=sealed.nonces, offsets=[70, 40, 1], sizes=sizes,
        out=opened, out_offsets=[0, 4, 10],
    )  # fmt: skip
    assert opened == data


def test_aad_shared_each_and_ragged():
    raw = bytes(16)
    key = Key("aes-128-gcm", raw)
    rows = np.zeros((3, 20), "u1")
    nonces = np.arange(36, dtype="u1").reshape(3, 12)
    each = np.arange(12, dtype="u1").reshape(3, 4)
    for given, offsets, wanted in (
        (b"abcd", None, [b"abcd"] * 3),
        (bytearray(b"abcd"), None, [b"abcd"] * 3),
        (each, None, [row.tobytes() for row in each]),
        (b"xyyzzz", [0, 1, 3, 6], [b"x", b"yy", b"zzz"]),
        (None, None, [None] * 3),
    ):
        sealed = key.seal(rows, nonces=nonces, aad=given, aad_offsets=offsets, tags="appended")
        for i in range(3):
            alone = aead.AESGCM(raw).encrypt(nonces[i].tobytes(), bytes(20), wanted[i])
            assert sealed.data[i].tobytes() == alone
        key.open(sealed, aad=given, aad_offsets=offsets)


def test_nonces_of_other_lengths():
    raw = bytes(16)
    key = Key("aes-128-gcm", raw)
    nonces = np.arange(60, dtype="u1").reshape(3, 20)
    sealed = key.seal(np.zeros((3, 20), "u1"), nonces=nonces, tags="appended")
    for i in range(3):
        alone = aead.AESGCM(raw).encrypt(nonces[i].tobytes(), bytes(20), None)
        assert sealed.data[i].tobytes() == alone


def test_short_tags():
    key = Key.generate("aes-128-gcm")
    rows = np.zeros((5, 9), "u1")
    sealed = key.seal(rows, tag_len=12)
    assert sealed.tags.shape == (5, 12)
    assert not key.open(sealed, tag_len=12).any()


def test_many_keys_each_and_indexed():
    raw = [os.urandom(32) for _ in range(4)]
    keys = Keys("aes-256-gcm", b"".join(raw))
    assert len(keys) == 4
    for index in (None, [0, 3, 3, 1, 2, 0], np.array([2, 2, 2], "u4")):
        order = list(range(4)) if index is None else [int(i) for i in index]
        rows = np.arange(len(order) * 33, dtype="u1").reshape(len(order), 33)
        sealed = keys.seal(rows, index=index, tags="appended")
        for i, number in enumerate(order):
            alone = aead.AESGCM(raw[number]).encrypt(sealed.nonces[i].tobytes(), rows[i], None)
            assert sealed.data[i].tobytes() == alone
        assert (keys.open(sealed, index=index) == rows).all()
    with pytest.raises(BatchError):
        keys.seal(np.zeros((4, 4), "u1"), index=[0, 1, 2, 4])
    with pytest.raises(BatchError):
        keys.seal(np.zeros((3, 4), "u1"))


@pytest.mark.parametrize(
    "algorithm", [name for name in warplock.algorithms() if name not in AEADS]
)
def test_modes_without_authentication(algorithm):
    raw = os.urandom(key_len(algorithm))
    key = Key(algorithm, raw)
    rows = np.frombuffer(os.urandom(20 * 48), "u1").reshape(20, 48)
    made = key.encrypt(rows)
    for i in range(20):
        iv = None if made.ivs is None else made.ivs[i].tobytes()
        cipher = pyca_cipher(algorithm, raw, iv).encryptor()
        assert made.data[i].tobytes() == cipher.update(rows[i].tobytes()) + cipher.finalize()
    assert (key.decrypt(made.data, ivs=made.ivs) == rows).all()
    with pytest.raises(BatchError, match="does not authenticate"):
        key.seal(rows)
    with pytest.raises(BatchError):
        key.decrypt(made.data[:, :15].copy(), ivs=made.ivs) if "ctr" not in algorithm else (
            key.decrypt(made.data)
        )


def test_sectors():
    raw = os.urandom(64)
    key = Key("aes-256-xts", raw)
    disk = np.zeros((8, 512), "u1")
    made = key.encrypt(disk, sector=100)
    assert made.ivs is None
    for i in range(8):
        cipher = pyca_cipher("aes-256-xts", raw, (100 + i).to_bytes(16, "little")).encryptor()
        assert made.data[i].tobytes() == cipher.update(bytes(512))
    assert not key.decrypt(made.data, sector=100).any()


def test_refused_before_anything_is_written():
    key = Key.generate("aes-256-gcm")
    rows = np.ones((4, 64), "u1")
    out = np.full((4, 64), 9, "u1")
    tags = np.full((4, 16), 9, "u1")
    nonces = np.arange(48, dtype="u1").reshape(4, 12)
    same = np.zeros((4, 12), "u1")
    for options in (
        {"nonces": same},
        {"nonces": nonces[:3]},
        {"nonces": b""},
        {"out": np.full((4, 63), 9, "u1")},
        {"out": out, "tags": tags[:3].copy()},
        {"out": out, "tags": tags, "tag_len": 11},
        {"out": out, "tags": out.reshape(-1)[:64]},
        {"out": out, "aad": np.zeros((3, 5), "u1")},
        {"out": out, "aad": b"abc", "aad_offsets": [0, 1, 2, 3, 4]},
        {"out": out, "offsets": [0, 10, 5]},
        {"out": out, "offsets": [0, 10, 999]},
        {"out": out, "offsets": [-1, 10]},
        {"out": out, "offsets": [], "tags": tags},
        {"out": out, "offsets": [0, 1], "sizes": [1]},
        {"out": out, "sizes": [1]},
        {"out": out, "offsets": np.zeros(3)},
        {"out": out, "offsets": [0, 10], "sizes": [20, 20]},
        {"out": out, "tags": "after"},
    ):
        with pytest.raises(ValueError):
            key.seal(rows, **{"out": out, "tags": tags, **options})
        assert (out == 9).all() and (tags == 9).all() and (rows == 1).all()
    for wrong in ({"out": bytes(256)}, {"out": 5}, {"nonces": 5}, {"aad": "text"}):
        with pytest.raises(TypeError):
            key.seal(rows, **wrong)
    for data in (rows[:, ::2], np.zeros((2, 2, 2), "u1")):
        with pytest.raises(ValueError):
            key.seal(data)
    with pytest.raises(TypeError):
        key.seal("text")
    memory = np.ones(200, "u1")
    with pytest.raises(BatchError, match="in place"):
        key.seal(memory[:100], out=memory[1:101])
    assert (memory == 1).all()
    with pytest.raises(BatchError):
        Key("aes-256-gcm", b"short")
    with pytest.raises(BatchError, match="no algorithm"):
        Key("aes-512-gcm", bytes(64))
    with pytest.raises(BatchError, match="halves"):
        Key("aes-128-xts", bytes(32))
    with pytest.raises(BatchError):
        key.open(rows, tags, nonces=None)
    with pytest.raises(BatchError):
        key.open(rows, nonces=nonces)
    with pytest.raises(BatchError):
        key.encrypt(rows)


def test_empty_batches_and_messages():
    key = Key.generate("aes-128-gcm")
    for data, where in (
        (np.zeros((0, 16), "u1"), {}),
        (b"", {"offsets": [0]}),
        (np.zeros((3, 0), "u1"), {}),
        (b"", {}),
        (b"", {"offsets": [0, 0, 0]}),
    ):
        for tags in (None, "appended"):
            sealed = key.seal(data, tags=tags, **where)
            if sealed.offsets is not None:
                where = {}
            assert np.asarray(key.open(sealed, **where)).size == 0


def test_keys_show_nothing_and_are_not_copied():
    key = Key("aes-128-gcm", b"0123456789abcdef")
    assert "0123" not in repr(key)
    with pytest.raises(TypeError):
        copy.deepcopy(key)
    with pytest.raises(TypeError):
        pickle.dumps(key)


def test_acorn_vectors(vectors):
    records = (vectors / "acorn" / "acorn128v3_random_shared.rsp").read_text().split("\n\n")
    tried = 0
    for record in records:
        fields = dict(
            line.split(" = ", 1) if " = " in line else (line.removesuffix(" ="), "")
            for line in record.splitlines()
            if "=" in line and not line.startswith(("#", "["))
        )
        fields = {name.strip().upper(): value.strip() for name, value in fields.items()}
        if not {"KEY", "CT"} <= fields.keys():
            continue
        value = {name: bytes.fromhex(text) for name, text in fields.items() if name != "COUNT"}
        nonce = value.get("NONCE", value.get("IV"))
        key = Key("acorn-128", value["KEY"])
        aad = value.get("AD", value.get("AAD", b""))
        made = key.seal(value["PT"], nonces=nonce, aad=aad, tags="appended")
        assert bytes(made.data) == value["CT"]
        tried += 1
        if tried == 100:
            break
    assert tried == 100


def test_a_number_of_keys_is_not_negative():
    for count in (-1, -(1 << 70)):
        with pytest.raises(BatchError, match="count must be at least 0"):
            Keys.generate("aes-128-gcm", count)
    with pytest.raises(BatchError, match="count is larger"):
        Keys.generate("aes-128-gcm", 1 << 70)


def test_what_is_more_than_its_bytes_is_refused():
    key, keys = Key.generate("aes-256-gcm"), Keys.generate("aes-128-gcm", 1)
    objects = [
        np.array([{}, "text"], dtype=object),
        np.array([(1, {})], dtype=[("O", "i4"), ("b", object)]),
        np.ma.masked_array([1, 2], [0, 1]),
    ]
    for bad in objects:
        for seal in (key.seal, keys.seal):
            with pytest.raises(BatchError, match="Python objects|masked"):
                seal(bad)
        for name in ("out", "tags", "nonces", "aad"):
            with pytest.raises(BatchError, match=f"{name}.*(Python objects|masked)"):
                key.seal(bytes(16), **{name: bad})
    # A field's name is no type.
    key.seal(np.array([(1, 2)], dtype=[("O", "i4"), ("b", "f4")]))


def test_places_that_are_none():
    key = Key.generate("aes-256-gcm")
    huge = [0, 1 << 70], [0, 1 << 62], [1 << 62, 1 << 62]
    for offsets in ([], [-1, 4], [4, 0], [[0, 4]], [0, 4.5], *huge):
        with pytest.raises(BatchError):
            key.seal(bytes(12), offsets=offsets)
    for kind in ("f8", "u1", "?"):
        with pytest.raises(BatchError, match="integers"):
            key.seal(bytes(12), offsets=np.array([0, 1], kind))
    with pytest.raises(BatchError, match="one dimension"):
        key.seal(bytes(12), offsets=np.zeros((2, 2), "i8"))
    with pytest.raises(BatchError, match="one dimension"):
        key.seal(bytes(12), offsets=[0, 4, 8], aad=b"abc", aad_offsets=np.zeros((3, 1), "i8"))
    with pytest.raises(BatchError, match="message 1 ends at byte 13"):
        key.seal(bytes(12), offsets=[0, 4], sizes=[4, 9])
    for sizes in ([4], [4, -1]):
        with pytest.raises(BatchError):
            key.seal(bytes(12), offsets=[0, 4], sizes=sizes)
    out = bytearray(90)
    with pytest.raises(BatchError, match="out_offsets"):
        key.seal(bytes(12), offsets=[0, 4], sizes=[4, 4], tags="appended", out=out, out_offsets=[0])
    sealed = key.seal(bytes(12), offsets=[0])
    assert bytes(key.open(sealed)) == b""
    assert key.seal(np.zeros((0, 256), "u1")).data.shape == (0, 256)


def test_given_nonces_have_a_length_that_is_meant():
    key = Key.generate("aes-256-gcm")
    rows = np.zeros((3, 4), "u1")
    for nonces in (b"a", bytes(7), b""):
        with pytest.raises(BatchError, match="too short"):
            key.seal(b"abc", nonces=nonces)
    with pytest.raises(BatchError, match="too short"):
        key.seal(rows, nonces=np.arange(21, dtype="u1").reshape(3, 7))
    # 36 bytes, but not of three nonces.
    with pytest.raises(BatchError, match="2 rows for 3 messages"):
        key.seal(rows, nonces=np.arange(36, dtype="u1").reshape(2, 18))
    with pytest.raises(BatchError, match="2 rows for 3 messages"):
        key.seal(rows, tags=np.zeros((2, 24), "u1"))
    key.seal(rows, nonces=np.arange(36, dtype="u1"))
    # What others sealed is opened.
    with pytest.raises(InvalidTag):
        key.open(b"abc", bytes(16), nonces=b"a")


def test_sectors_do_not_start_again():
    key = Key.generate("aes-128-xts")
    rows = np.zeros((3, 32), "u1")
    key.encrypt(rows, sector=2**128 - 3)
    key.encrypt(rows, sector=np.int64(5))
    for call in (key.encrypt, key.decrypt):
        for sector in (2**128 - 2, 2**128, -1):
            with pytest.raises(BatchError, match="sectors"):
                call(rows, sector=sector)
        with pytest.raises(BatchError, match="not both"):
            call(rows, sector=1, ivs=bytes(48))


def test_messages_speak_of_python():
    rows = np.zeros((3, 32), "u1")
    for algorithm, options in (
        ("aes-256-gcm", {"nonces": bytes(13)}),
        ("aes-256-gcm", {"nonces": bytes(36)}),
        ("aes-128-ctr", {}),
    ):
        with pytest.raises(BatchError) as error:
            Key.generate(algorithm).seal(rows, **options)
        assert "::" not in str(error.value)


def test_arrays_of_gpus_need_another_class():
    class Tensor:
        __cuda_array_interface__ = None

    with pytest.raises(TypeError, match=r"warplock\.cuda\.Key"):
        Key.generate("aes-256-gcm").seal(Tensor())


def test_no_place_that_is_given_is_passed_over():
    """They were ignored: results lay elsewhere than said, and nothing was authenticated with them."""
    key = Key.generate("aes-256-gcm")
    rows = np.zeros((4, 8), "u1")
    with pytest.raises(BatchError, match="out_offsets are for ragged"):
        key.seal(rows, out=bytearray(32), out_offsets=[24, 16, 8, 0])
    with pytest.raises(BatchError, match="out_offsets are for ragged"):
        key.seal(b"12345678", out=bytearray(8), out_offsets=[4])
    with pytest.raises(BatchError, match="aad_offsets need aad"):
        key.seal(rows, aad_offsets=[0, 1, 2, 3, 4])
    with pytest.raises(BatchError, match="aad_offsets need aad"):
        key.open(key.seal(rows), aad_offsets=[0, 1, 2, 3, 4])


@pytest.mark.parametrize("tag_len", [-1, 17, 1 << 64])
def test_lengths_of_tags_are_refused_before_memory_for_them_is_asked_for(tag_len):
    key = Key.generate("aes-256-gcm")
    for tags in (None, "appended"):
        with pytest.raises(BatchError, match="a tag has at most 16 bytes"):
            key.seal(np.zeros((4, 8), "u1"), tags=tags, tag_len=tag_len)


def test_memory_that_has_no_bytes_to_take():
    key = Key.generate("aes-256-gcm")
    released = memoryview(b"abc")
    released.release()
    for data in (released, np.array(["2026-11-30"], "M8[D]")):
        with pytest.raises(BatchError, match=r"data cannot be taken as bytes.*view\('u1'\)"):
            key.seal(data)
