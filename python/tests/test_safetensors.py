"""Encrypted safetensors, on the host; the package safetensors is the other reader and writer."""

from __future__ import annotations

import ctypes.util
import io
import json
import os
import pathlib
import pickle
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest

import warplock
from warplock import _native, _tensors
from warplock.keys import Identity, write_key_file
from warplock.safetensors import (
    load,
    load_file,
    load_sharded,
    safe_open,
    save,
    save_file,
    save_sharded,
    weight_map,
)

plain = pytest.importorskip("safetensors.numpy")
from safetensors import SafetensorError  # noqa: E402
from safetensors import safe_open as plain_open  # noqa: E402

KEY = bytes(range(32))
PATH = "model.safetensors.wl"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def some_tensors():
    """Of every type that NumPy has, with sizes around a chunk, empty ones and single numbers."""
    random = np.random.default_rng(7)
    tensors = {
        str(np.dtype(kind)): random.integers(0, 100, (3, 5)).astype(kind)
        for kind in "? u1 i1 u2 i2 f2 u4 i4 f4 u8 i8 f8 c8".split()
    }
    tensors["b.small"] = random.integers(0, 255, 70, dtype="u1")
    tensors["b.chunk"] = random.integers(0, 255, 16384, dtype="u1")
    tensors["a.large"] = random.random((40, 50, 60), dtype="f4")
    tensors["empty"] = np.zeros((0, 4), "f4")
    tensors["number"] = np.array(3.5)
    tensors["Ünïcode 'name'\n"] = np.arange(6, dtype="i8").reshape(2, 3)
    return tensors


def assert_same(found, expected):
    assert set(found) == set(expected)
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype and found[name].shape == tensor.shape, name
        assert np.array_equal(found[name], tensor), name


def decrypted(path=PATH):
    warplock.decrypt_file(path, "plain", key=KEY, replace=True)
    return pathlib.Path("plain").read_bytes()


def test_saved_here_loads_here_and_with_safetensors_once_decrypted():
    tensors = some_tensors()
    save_file(tensors, PATH, {"format": "np", "ü": "ö"}, key=KEY)
    assert_same(load_file(PATH, framework="np", key=KEY), tensors)
    text = decrypted()
    assert_same(plain.load(text), tensors)
    header = 8 + int.from_bytes(text[:8], "little")
    assert header % 16384 == 0
    with plain_open("plain", "np") as file:
        assert file.metadata() == {"format": "np", "ü": "ö"}
    # The same order and offsets as safetensors has them.
    theirs = plain.save(tensors, {"format": "np", "ü": "ö"})
    length = int.from_bytes(theirs[:8], "little")
    ours = json.loads(text[8:header])
    other = json.loads(theirs[8 : 8 + length])
    assert ours == other and list(ours)[1:] == list(other)[1:]
    assert text[header:] == theirs[8 + length :]


def test_what_safetensors_wrote_loads_once_it_is_encrypted():
    tensors = some_tensors()
    plain.save_file(tensors, "model.safetensors", {"a": "b"})
    me = Identity.generate()
    warplock.encrypt_file("model.safetensors", PATH, recipients=me)
    assert_same(load_file(PATH, framework="np", identities=me), tensors)
    assert_same(load(pathlib.Path(PATH).read_bytes(), framework="np", identities=me), tensors)
    with safe_open(PATH, "np", identities=me) as file:
        assert file.metadata() == {"a": "b"}
        with plain_open("model.safetensors", "np") as other:
            assert file.keys() == sorted(other.keys())
            assert file.offset_keys() == other.offset_keys()
        assert_same({name: file.get_tensor(name) for name in file.keys()}, tensors)
        assert_same(file.get_tensors(), tensors)


def test_every_way_to_open():
    tensors = {"a": np.arange(5)}
    me = Identity.generate()
    write_key_file("key")
    for lock, unlock in [
        ({"recipients": me}, {"identities": me}),
        ({"recipients": me.to_public()}, {"identities": [me]}),
        ({"key": "key"}, {"key": "key"}),
        ({"key": KEY}, {"key": bytearray(KEY)}),
        ({"passphrase": "secret"}, {"passphrase": lambda _: "secret"}),
    ]:
        save_file(tensors, PATH, **lock)
        assert_same(load_file(PATH, framework="np", **unlock), tensors)
        sealed = save(tensors, **lock)
        assert_same(load(sealed, framework="np", **unlock), tensors)
        with safe_open(io.BytesIO(sealed), "np", **unlock) as file:
            assert np.array_equal(file.get_tensor("a"), tensors["a"])
    save_file(tensors, PATH, recipients=me)
    with pytest.raises(warplock.WrongKeyError):
        load_file(PATH, framework="np", identities=Identity.generate())
    with pytest.raises(ValueError, match="identities"):
        load_file(PATH, framework="np")
    with pytest.raises(TypeError, match="colour"):
        load_file(PATH, framework="np", colour="red")
    with pytest.raises(FileExistsError):
        save_file(tensors, PATH, key=KEY, replace=False)


def test_slices_are_those_of_the_array():
    tensors = some_tensors()
    save_file(tensors, PATH, key=KEY)
    large = tensors["a.large"]
    with safe_open(PATH, "np", key=KEY) as file:
        part = file.get_slice("a.large")
        assert part.get_shape() == [40, 50, 60] and part.get_dtype() == "F32"
        for index in [
            np.s_[:], np.s_[3], np.s_[-1], np.s_[3:9], np.s_[3:9:2], np.s_[:, 4], np.s_[2, 4, 5],
            np.s_[..., 7], np.s_[2, ...], np.s_[5:5], np.s_[1, 3:7, 2:9], np.s_[:, 10:20, ::3],
            np.s_[100:], np.s_[-3:], np.s_[39, 49, 59], np.s_[0:1, :, 1],
        ]:  # fmt: skip
            found = part[index]
            assert np.array_equal(found, large[index]), index
            assert found.flags.c_contiguous
        assert file.get_slice("number")[()] == 3.5
        assert file.get_slice("empty")[:, 1].shape == (0,)
        for wrong in [np.s_[40], np.s_[-41], np.s_[0, 0, 0, 0], np.s_[::-1], np.s_[..., ...]]:
            with pytest.raises(IndexError):
                part[wrong]
        # NumPy would add an axis or take a copy.
        for wrong in [None, True, [0, 1], "a", 1.0]:
            with pytest.raises(TypeError):
                part[wrong]
        with pytest.raises(KeyError, match="no tensor 'none'"):
            file.get_tensor("none")
    for use in (file.keys, file.metadata, file.get_tensors, lambda: file.get_slice("number")):
        with pytest.raises(ValueError, match="the file is closed"):
            use()


def test_a_flipped_bit_is_refused_and_named_wherever_it_is():
    tensors = {"first": np.ones(20_000, "u1"), "second": np.ones(20_000, "u1"),
               "third": np.ones(20_000, "u1")}  # fmt: skip
    save_file(tensors, PATH, key=KEY)
    sealed = pathlib.Path(PATH).read_bytes()
    assert len(sealed) == warplock.sealed_len(16384 + 60_000)
    chunk = lambda number: 56 + number * 16400  # noqa: E731
    damage = {
        chunk(0) + 3: "the header",  # the length
        chunk(0) + 100: "the header",  # its JSON
        chunk(0) + 16000: "the header",  # its padding
        chunk(0) + 16390: "the header",  # a tag
        chunk(1) + 5: "tensor 'first'",
        chunk(1) + 16399: "tensor 'first'",
        chunk(2): "tensor 'first'",  # shared with the second
        chunk(3): "tensor 'second'",
        chunk(3) + 8000: "tensor 'second'",
        chunk(4) + 7: "tensor 'third'",
        len(sealed) - 1: "tensor 'third'",
    }
    for place, what in damage.items():
        bad = bytearray(sealed)
        bad[place] ^= 1
        with pytest.raises(warplock.CorruptedError) as caught:
            load(bytes(bad), framework="np", key=KEY)
        error = caught.value
        assert str(error).startswith(f"{what}: "), (place, str(error))
        assert error.chunk == (place - 56) // 16400 and error.offset == error.chunk * 16384
        assert error.tensor == (what[8:-1] if "tensor" in what else None)
        again = pickle.loads(pickle.dumps(error))
        assert (str(again), again.chunk, again.tensor) == (str(error), error.chunk, error.tensor)
    # One tensor can be read if another was damaged, unless the file's end was.
    bad = bytearray(sealed)
    bad[chunk(1)] ^= 1
    with safe_open(io.BytesIO(bad), "np", key=KEY) as file:
        assert file.get_tensor("third").all()
        with pytest.raises(warplock.CorruptedError, match="tensor 'first'"):
            file.get_tensor("first")
        with pytest.raises(warplock.CorruptedError, match="tensor 'first'"):
            file.get_slice("first")[:5]
    for place in (10, 30, 55):  # salt and commitment
        bad = bytearray(sealed)
        bad[place] ^= 1
        with pytest.raises(warplock.WrongKeyError):
            load(bytes(bad), framework="np", key=KEY)


def test_the_end_of_a_file_without_bytes_of_tensors_is_verified():
    save_file({"empty": np.zeros((0, 3))}, PATH, key=KEY)
    bad = bytearray(pathlib.Path(PATH).read_bytes())
    bad[-1] ^= 1
    with pytest.raises(warplock.CorruptedError):
        load(bytes(bad), framework="np", key=KEY)


def test_what_was_loaded_before_a_fault_is_zeroed(monkeypatch):
    made = []
    empty = np.empty

    def keep(*arguments, **keywords):
        made.append(empty(*arguments, **keywords))
        made[-1][:] = 0xCC
        return made[-1]

    save_file({"a": np.ones(3_000_000, "u1")}, PATH, key=KEY)
    sealed = bytearray(pathlib.Path(PATH).read_bytes())
    monkeypatch.setattr(np, "empty", keep)
    for place in (len(sealed) - 1, len(sealed) // 2, 20_000):
        sealed[place] ^= 1
        with pytest.raises(warplock.CorruptedError, match="tensor 'a'"):
            load(bytes(sealed), framework="np", key=KEY)
        sealed[place] ^= 1
        assert made[-1].size == 3_000_000 and not made[-1].any()


def test_cut_and_extended_files_are_refused():
    save_file({"a": np.ones(50_000, "u1")}, PATH, key=KEY)
    sealed = pathlib.Path(PATH).read_bytes()
    for length in [0, 20, 56, 60, 56 + 16400, 56 + 2 * 16400, 56 + 2 * 16400 + 16, len(sealed) - 1]:
        for way in (load, lambda *a, **k: safe_open(io.BytesIO(a[0]), **k)):
            with pytest.raises(warplock.CorruptedError):
                way(sealed[:length], framework="np", key=KEY)
    for more in (b"x", bytes(16), bytes(16400)):
        with pytest.raises((warplock.CorruptedError, warplock.FormatError)):
            load(sealed + more, framework="np", key=KEY)
    # Chunks of another file under the same key, and moved ones.
    save_file({"a": np.zeros(50_000, "u1")}, "other", key=KEY)
    other = pathlib.Path("other").read_bytes()
    for bad in (
        sealed[: 56 + 16400] + other[56 + 16400 :],
        sealed[: 56 + 16400] + sealed[56 + 2 * 16400 : 56 + 3 * 16400] + sealed[56 + 2 * 16400 :],
    ):
        with pytest.raises(warplock.CorruptedError, match="tensor 'a'"):
            load(bad, framework="np", key=KEY)


def sealed_text(header: bytes, data: bytes = b"") -> bytes:
    """An encrypted file with this header, rightly sealed."""
    store = io.BytesIO()
    text = len(header).to_bytes(8, "little") + header + data
    warplock.encrypt_file(io.BytesIO(text), store, key=KEY)
    return store.getvalue()


def entry(dtype="U8", shape=(4,), offsets=(0, 4)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


@pytest.mark.parametrize(
    ("header", "data"),
    [
        (b"", b""),
        (b"[]", b""),
        (b"{", b""),
        (b'{"a":1}', b""),
        (b'{"a":\xff}', b""),
        (b'{"__metadata__":{"a":1}}', b""),
        (b'{"__metadata__":[]}', b""),
        (b"{}", b"x"),  # bytes of no tensor
        (json.dumps({"a": entry()}).encode(), b"12345"),
        (json.dumps({"a": entry()}).encode(), b"123"),
        (json.dumps({"a": entry(), "b": entry()}).encode(), b"1234"),  # one place for two
        (json.dumps({"a": entry(), "b": entry(offsets=(3, 7))}).encode(), b"1234567"),
        (json.dumps({"a": entry(), "b": entry(offsets=(5, 9))}).encode(), b"123456789"),
        (json.dumps({"a": entry(offsets=(1, 5))}).encode(), b"12345"),
        (json.dumps({"a": entry(offsets=(4, 0))}).encode(), b"1234"),
        (json.dumps({"a": entry(offsets=(-4, 0))}).encode(), b""),
        (json.dumps({"a": entry(shape=(5,))}).encode(), b"1234"),
        (json.dumps({"a": entry(shape=(-4,))}).encode(), b"1234"),
        (json.dumps({"a": entry(shape=(2.0, 2))}).encode(), b"1234"),
        (json.dumps({"a": entry(shape=(True, 4))}).encode(), b"1234"),
        (json.dumps({"a": entry(shape=(2**64 - 3,) * 3)}).encode(), b"1234"),
        (json.dumps({"a": entry(dtype="F33")}).encode(), b"1234"),
        (json.dumps({"a": entry(dtype="f32", shape=())}).encode(), b"1234"),
        (json.dumps({"a": entry(dtype="F4", shape=(3,), offsets=(0, 1))}).encode(), b"1"),
        (json.dumps({"a": {**entry(), "dtype": None}}).encode(), b"1234"),
        (b'{"a":' + b"[" * 100_000, b""),
    ],
)
def test_a_header_that_is_wrong_is_refused_by_both(header, data):
    sealed = sealed_text(header, data)
    with pytest.raises(warplock.FormatError, match="safetensors"):
        load(sealed, framework="np", key=KEY)
    with pytest.raises(SafetensorError):
        plain.load(len(header).to_bytes(8, "little") + header + data)


def test_a_name_that_comes_twice_is_refused():
    one = json.dumps({"a": entry()})[:-1]
    two = json.dumps({"a": entry(offsets=(4, 8))})[1:]
    with pytest.raises(warplock.FormatError, match="twice"):
        load(sealed_text(f"{one},{two}".encode(), b"12345678"), framework="np", key=KEY)


def test_headers_that_claim_too_much_are_refused_before_they_are_read():
    for content in (b"", b"1234567", (1 << 40).to_bytes(8, "little") + b"{}"):
        store = io.BytesIO()
        warplock.encrypt_file(io.BytesIO(content), store, key=KEY)
        with pytest.raises(warplock.FormatError, match="longer than the content"):
            load(store.getvalue(), framework="np", key=KEY)
    with pytest.raises(warplock.FormatError, match="more than"):
        _tensors.header_len((100_000_001).to_bytes(8, "little"), 1 << 40)


def test_a_shape_of_many_large_numbers_is_refused_at_once():
    number = str(10**3999)
    shape = ",".join([number] * 1000 + [str(2**62)] * 200_000)
    started = time.monotonic()
    for shape in (shape, shape + ",0", ",".join([str(2**62)] * 200_000)):
        header = f'{{"a":{{"dtype":"U8","shape":[{shape}],"data_offsets":[0,1]}}}}'
        with pytest.raises(warplock.FormatError, match="shape"):
            load(sealed_text(header.encode(), b"1"), framework="np", key=KEY)
    # The product of all of them takes minutes.
    assert time.monotonic() - started < 20


def test_what_cannot_be_saved_is_refused_by_name():
    for bad in (np.zeros((4, 4))[:, 1], np.zeros((4, 4), order="F")):
        with pytest.raises(ValueError, match="'bad' is not contiguous"):
            save_file({"bad": bad}, PATH, key=KEY)
    for bad in (np.zeros(3, "c16"), np.array(["text"]), np.array([None])):
        with pytest.raises(TypeError, match="'bad' has the type"):
            save_file({"bad": bad}, PATH, key=KEY)
    with pytest.raises(TypeError, match="texts"):
        save_file({}, PATH, {"a": 1}, key=KEY)
    with pytest.raises(ValueError, match="__metadata__"):
        save_file({"__metadata__": np.zeros(3)}, PATH, key=KEY)
    assert not os.path.exists(PATH)
    save_file({"big": np.arange(4, dtype=">i4")}, PATH, key=KEY)
    assert list(load_file(PATH, framework="np", key=KEY)["big"]) == [0, 1, 2, 3]
    save_file({}, PATH, key=KEY)
    assert load_file(PATH, framework="np", key=KEY) == {}
    assert plain.load(decrypted()) == {}


def test_types_that_numpy_lacks_need_ml_dtypes():
    data = sealed_text(json.dumps({"a": entry(dtype="BF16", shape=(2,))}).encode(), b"1234")
    try:
        import ml_dtypes
    except ImportError:
        with pytest.raises(TypeError, match="ml_dtypes"):
            load(data, framework="np", key=KEY)
    else:
        found = load(data, framework="np", key=KEY)["a"]
        assert found.dtype == ml_dtypes.bfloat16 and found.tobytes() == b"1234"
        assert load(save({"a": found}, key=KEY), framework="np", key=KEY)["a"].tobytes() == b"1234"


def test_devices_and_frameworks_are_checked():
    save_file({"a": np.zeros(3)}, PATH, key=KEY)
    with pytest.raises(ValueError, match="host memory"):
        load_file(PATH, "cuda", framework="np", key=KEY)
    with pytest.raises(ValueError, match="neither 'pt' nor 'np'"):
        load_file(PATH, framework="xy", key=KEY)


@pytest.mark.skipif(ctypes.util.find_library("cuda") is not None, reason="there may be a GPU")
def test_without_a_gpu_the_native_ways_there_say_so():
    save_file({"a": np.zeros(3)}, PATH, key=KEY)
    native = _native.TensorFile(PATH, None, None, KEY, None, None)
    with pytest.raises(warplock.NoBackendError):
        native.load(native.len, 0, 0, 0, 0)
    with pytest.raises(warplock.NoBackendError):
        _native.save_tensors("new", [b""], (0, 0), None, None, None, KEY, True, None)
    assert not os.path.exists("new")


def shards(folder="model"):
    random = np.random.default_rng(3)
    tensors = {f"layer.{i}": random.random((30, 40 + i)) for i in range(8)}
    me = Identity.generate()
    save_sharded(tensors, folder, max_shard_size=30_000, recipients=me)
    return tensors, me


def test_sizes_of_shards_are_numbers_or_texts():
    for most, files in ((30_000, 4), ("30KB", 4), ("30 kb", 4), ("1GiB", 1)):
        save_sharded(shards()[0], "sizes", max_shard_size=most, key=KEY)
        assert len([name for name in os.listdir("sizes") if "index" not in name]) == files
    for wrong in ("5", "GB", "-1GB", "1.5GB", 0):
        with pytest.raises(ValueError, match="size"):
            save_sharded(shards()[0], "sizes", max_shard_size=wrong, key=KEY)


def test_a_folder_of_shards_there_and_back():
    tensors, me = shards()
    names = sorted(os.listdir("model"))
    assert names == [
        *(f"model-{i:05}-of-00004.safetensors.wl" for i in range(1, 5)),
        "model.safetensors.index.json.wl",
    ]
    assert_same(load_sharded("model", framework="np", identities=me), tensors)
    places = weight_map("model", identities=me)
    assert set(places) == set(tensors)
    for name, path in places.items():
        with safe_open(path, "np", identities=me) as file:
            assert np.array_equal(file.get_tensor(name), tensors[name])
    save_sharded({"a": tensors["layer.1"]}, "small", recipients=me)
    assert os.listdir("small") == ["model.safetensors.wl"]
    assert list(load_sharded("small", framework="np", identities=me)) == ["a"]


def test_exchanged_and_old_shards_are_refused():
    _, me = shards()
    first, second = (f"model/model-0000{i}-of-00004.safetensors.wl" for i in (1, 2))
    _, other = shards("other")
    shutil.copy(first, "first")
    for use in (load_sharded, weight_map):
        frame = {"framework": "np"} if use is load_sharded else {}
        os.replace(first, "kept")
        shutil.copy(second, first)
        with pytest.raises(warplock.CorruptedError, match="model-00001.*not the file"):
            use("model", identities=me, **frame)
        # The same tensors, sealed at another time for the same recipient.
        with safe_open("kept", "np", identities=me) as file:
            save_file(file.get_tensors(), first, recipients=me)
        with pytest.raises(warplock.CorruptedError, match="model-00001.*not the file"):
            use("model", identities=me, **frame)
        shutil.copy(first.replace("model/", "other/"), first)
        with pytest.raises(warplock.WrongKeyError):
            use("model", identities=me, **frame)
        os.remove(first)
        with pytest.raises(FileNotFoundError):
            use("model", identities=me, **frame)
        os.replace("kept", first)
        use("model", identities=me, **frame)


def test_a_folder_whose_files_were_encrypted_one_by_one():
    tensors = {"a": np.arange(10), "b": np.arange(20)}
    os.mkdir("model")
    me = Identity.generate()
    weights = {}
    for number, name in enumerate(tensors, 1):
        file = f"model-{number:05}-of-00002.safetensors"
        plain.save_file({name: tensors[name]}, file)
        warplock.encrypt_file(file, f"model/{file}.wl", recipients=me)
        weights[name] = file
    index = {"metadata": {"total_size": 1}, "weight_map": weights}
    path = pathlib.Path("model/model.safetensors.index.json")
    path.write_text(json.dumps(index))
    assert_same(load_sharded("model", framework="np", identities=me), tensors)
    weights["a"], weights["b"] = weights["b"], weights["a"]
    path.write_text(json.dumps(index))
    with pytest.raises(warplock.CorruptedError, match="tensors that the index says"):
        load_sharded("model", framework="np", identities=me)
    for wrong in ("[]", "{", '{"weight_map":{"a":1}}', '{"weight_map":{"a":"../x"}}'):
        path.write_text(wrong)
        with pytest.raises(warplock.FormatError):
            load_sharded("model", framework="np", identities=me)


def test_the_command_line_opens_and_makes_them():
    tensors = some_tensors()
    write_key_file("key")
    save_file(tensors, PATH, key="key")
    command = [sys.executable, "-m", "warplock"]
    run = lambda *words: subprocess.run([*command, *words]).returncode  # noqa: E731
    assert run("decrypt", "--key-file", "key", "-o", "out.safetensors", PATH) == 0
    assert_same(plain.load_file("out.safetensors"), tensors)
    assert run("encrypt", "--key-file", "key", "-o", "again.wl", "out.safetensors") == 0
    assert_same(load_file("again.wl", framework="np", key="key"), tensors)
