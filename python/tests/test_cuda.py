"""Arrays in GPU memory: the same tests for host memory, a simulated GPU, and each library that this
machine has on a GPU."""

from __future__ import annotations

import contextlib
import copy
import os
import pickle
import subprocess
import sys
import threading

import pytest

import fake_gpu
import warplock
from fake_gpu import FakeArray
from warplock import BatchError, InvalidTag, _arrays, _native
from warplock.cuda import (
    CaptureError,
    Counter,
    Key,
    add32_nonces,
    set_allocator,
    xor_nonces,
)

np = pytest.importorskip("numpy")
try:
    from cryptography.hazmat.primitives.ciphers import aead
except ImportError:
    # Then the host's engine, which its own tests compare with it, is the reference.
    aead = None

NO_GPU = "skipped: no GPU"
AEADS = ["aes-128-gcm", "aes-192-gcm", "aes-256-gcm", "acorn-128"]


def is_fake(lib):
    return isinstance(lib, (Fake, FakeTorch))


def has_gpu():
    return bool(_native.gpus())


class Library:
    def bytes(self, data):
        """Associated data of host memory, where that is taken."""
        return data


class Numpy(Library):
    def put(self, array):
        return np.array(array)

    def get(self, array):
        return np.asarray(array)

    def owns(self, array):
        return isinstance(array, np.ndarray)


class Fake(Numpy):
    def bytes(self, data):
        return self.put(np.frombuffer(data, "u1"))

    def put(self, array):
        return FakeArray(np.array(array))

    def get(self, array):
        if isinstance(array, FakeArray):
            return array.array
        shown = array.__cuda_array_interface__
        flat = np.frombuffer(fake_gpu.memory(_native.describe(array, None)[:2]), "u1")
        return flat.view(shown["typestr"]).reshape(shown["shape"])

    def owns(self, array):
        return hasattr(array, "__cuda_array_interface__")


class Torch(Library):
    def __init__(self, device):
        import torch

        self.torch, self.device = torch, device

    def put(self, array):
        return self.torch.from_numpy(np.array(array)).to(self.device)

    def get(self, array):
        return array.cpu().numpy()

    def owns(self, array):
        return isinstance(array, self.torch.Tensor) and array.device.type == self.device


class CuPy(Library):
    def __init__(self):
        import cupy

        self.cupy = cupy

    def put(self, array):
        return self.cupy.array(array)

    def get(self, array):
        return array.get()

    def owns(self, array):
        return isinstance(array, self.cupy.ndarray)


class Jax(Library):
    def __init__(self):
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        import jax

        self.jax = jax

    def put(self, array):
        return self.jax.numpy.asarray(array)

    def get(self, array):
        return np.asarray(array)

    def owns(self, array):
        return isinstance(array, self.jax.Array)


class FakeTorch(Torch):
    """Tensors of host memory that count as a GPU's."""

    def __init__(self, monkeypatch):
        super().__init__("cpu")
        kind = _arrays.Torch
        view = kind.view
        on_gpu = lambda self, array, stream=None: (*view(self, array)[:2], 0, array.shape, None, False)
        monkeypatch.setattr(kind, "view", on_gpu)
        monkeypatch.setattr(kind, "stream", lambda self, device: 0)
        monkeypatch.setattr(kind, "_device", lambda self, device: self._torch.device("cpu"))
        monkeypatch.setattr(kind, "is_capturing", lambda self: False)
        monkeypatch.setattr(kind, "on", lambda self, stream, device: contextlib.nullcontext())
        monkeypatch.setattr(kind, "record", lambda self, arrays, stream, device: None)
        monkeypatch.setattr(kind, "strided", lambda self, interface, device: interface)


@pytest.fixture(params=["numpy", "fake", "fake-torch", "torch-cpu", "torch", "cupy", "jax"])
def lib(request, monkeypatch):
    name = request.param
    if name in ("torch", "cupy", "jax") and not has_gpu():
        pytest.skip(NO_GPU)
    if name != "numpy" and name != "fake":
        pytest.importorskip(name.removeprefix("fake-").partition("-")[0])
    if name.startswith("fake"):
        # What the others keep is in memory of a real GPU.
        monkeypatch.setattr(_arrays, "_found", {})
        monkeypatch.setattr(_arrays, "_made", {})
        monkeypatch.setattr(_native, "gpus", lambda: ["a simulated GPU"])
        monkeypatch.setattr(_native, "DeviceKey", fake_gpu.Key)
        monkeypatch.setattr(_native, "DevicePlan", fake_gpu.Plan)
        monkeypatch.setattr(_native, "NonceCounter", fake_gpu.Counter)
        monkeypatch.setattr(_native, "synchronize", lambda device, stream: None)
        set_allocator(lambda nbytes, stream: FakeArray(np.full(nbytes, 0xEE, "u1")))
        request.addfinalizer(lambda: set_allocator(None))
        return FakeTorch(monkeypatch) if name == "fake-torch" else Fake()
    return {"numpy": Numpy, "torch-cpu": lambda: Torch("cpu"), "torch": lambda: Torch("cuda"),
            "cupy": CuPy, "jax": Jax}[name]()  # fmt: skip


def key_len(algorithm):
    if algorithm == "acorn-128":
        return 16
    return int(algorithm.split("-")[1]) // 8 * (2 if algorithm.endswith("xts") else 1)


def flat(lib, array):
    return np.ascontiguousarray(lib.get(array)).reshape(-1).view("u1")


def rows_of(lib, array, count):
    bytes_ = flat(lib, array)
    return bytes_.reshape(count, bytes_.size // max(count, 1))


def sealed_texts(lib, sealed, count):
    """Each message's ciphertext and tag, and its nonce."""
    nonces = rows_of(lib, sealed.nonces, count)
    tags = None if isinstance(sealed.tags, str) else rows_of(lib, sealed.tags, count)
    if sealed.offsets is None:
        each = rows_of(lib, sealed.data, count)
    else:
        text = flat(lib, sealed.data)
        each = [text[a:b] for a, b in zip(sealed.offsets, sealed.offsets[1:])]
    for i in range(count):
        tag = b"" if tags is None else tags[i].tobytes()
        yield each[i].tobytes() + tag, nonces[i].tobytes()


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


def test_torch_is_not_imported():
    code = "import sys, warplock, warplock.cuda; print('torch' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code]).strip() == b"False"


def cupy_on_gpu():
    if not has_gpu():
        pytest.skip(NO_GPU)
    return pytest.importorskip("cupy")


def test_cupy_streams_and_graphs():
    cupy = cupy_on_gpu()
    key = Key.generate("aes-256-gcm", device=0)
    data = cupy.random.randint(0, 255, (256, 4096), "u1")
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    for given in (stream, stream.ptr):
        sealed = key.seal(data, stream=given)
        opened = key.open(sealed, stream=given)
        opened.status.check()
        assert bool((opened.data == data).all())
    with stream:
        opened = key.open(key.seal(data))
        opened.status.check()
        seal = key.plan("seal", data)
        open_ = key.plan("open", seal.data, seal.tags, nonces=seal.nonces)
        stream.begin_capture()
        seal.launch()
        open_.launch()
        graph = stream.end_capture()
        seen = set()
        for _ in range(20):
            graph.launch(stream)
            seen.add(seal.nonces.get().tobytes())
        assert len(seen) == 20
        open_.status.check()
        assert bool((open_.data == data).all())
        stream.begin_capture()
        try:
            with pytest.raises(CaptureError, match="plan before the capture"):
                key.seal(data)
        finally:
            stream.end_capture()
    graph = None
    cupy.cuda.Device().synchronize()


def test_jax_takes_results_without_waiting():
    if not has_gpu():
        pytest.skip(NO_GPU)
    lib = Jax() if pytest.importorskip("jax") else None
    jnp = lib.jax.numpy
    key = Key.generate("aes-256-gcm")
    make = lib.jax.jit(lambda seed: (jnp.arange(1 << 22) * seed % 251).astype("uint8"))
    for seed in range(1, 6):
        data = make(seed)
        sealed = key.seal(data)
        # The input may be freed while it is still read.
        del data
        opened = key.open(sealed)
        assert int((opened.data != make(seed)).sum()) == 0
        opened.status.check()


def test_threads_share_a_key(lib):
    key = Key.generate("aes-256-gcm")
    errors, nonces = [], []

    def work(seed):
        try:
            array = np.random.default_rng(seed).integers(0, 255, (50, 64), "u1")
            for _ in range(20):
                sealed = key.seal(lib.put(array))
                opened = key.open(sealed)
                opened.status.check()
                assert (lib.get(opened.data) == array).all()
                nonces.extend(row.tobytes() for row in rows_of(lib, sealed.nonces, 50))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    if not is_fake(lib):
        assert len(set(nonces)) == len(nonces)


@pytest.fixture(params=["numpy", "torch-cpu"])
def host(request):
    if request.param == "numpy":
        return Numpy()
    pytest.importorskip("torch")
    return Torch("cpu")


def test_what_is_written_late_overlaps_nothing(host):
    """Nonces and verdicts are written after the engine's own look at its buffers."""
    key = Key.generate("aes-256-gcm")
    data = np.frombuffer(os.urandom(64), "u1")
    src, out, tags = host.put(data), host.put(np.zeros(64, "u1")), host.put(np.zeros(16, "u1"))
    aad = host.put(np.zeros(20, "u1"))
    counter = Counter(b"\0\0\0\1")
    for nonces in (None, counter):
        for bad, options in (
            (src[5:17], {}),
            (src[:12], {"out": src}),
            (out[52:], {"out": out}),
            (tags[4:], {"tags": tags}),
            (aad[1:13], {"aad": aad}),
        ):
            with pytest.raises(BatchError, match="overlaps"):
                key.seal(src, nonces=nonces, nonces_out=bad, **options)
    with pytest.raises(BatchError, match="nonces_out has 11 bytes"):
        key.seal(src, nonces_out=host.put(np.zeros(11, "u1")))
    assert (host.get(src) == data).all() and not host.get(out).any()
    sealed = key.seal(src, out=out, tags=tags, nonces_out=host.put(np.zeros(12, "u1")))
    words = host.put(np.zeros(16, "i4"))
    as_bytes = words.view(host.get(src).dtype if isinstance(host, Numpy) else src.dtype)
    for name in ("statuses", "refused"):
        with pytest.raises(BatchError, match="overlaps"):
            key.open(sealed, out=as_bytes, **{name: words[3:4]})
    with pytest.raises(BatchError, match="overlaps statuses"):
        key.open(sealed, statuses=words[3:4], refused=words[3:4])
    assert not host.get(words).any()
    opened = key.open(sealed, statuses=words[3:4], refused=words[4:5])
    assert (host.get(opened.data) == data).all()


def test_verdicts_are_integers_of_32_bits(lib):
    if isinstance(lib, Jax):
        pytest.skip("JAX's arrays are never written")
    key = Key.generate("aes-256-gcm")
    sealed = key.seal(lib.put(np.zeros((3, 16), "u1")))
    for kind in ("f4", "i8", "u1", "i2"):
        bad = lib.put(np.zeros(12, kind))
        if not hasattr(bad, "dtype") and kind == "u1":
            continue
        for name in ("refused", "statuses"):
            with pytest.raises(BatchError, match="32 bits"):
                key.open(sealed, **{name: bad})
    if type(lib) is Numpy:
        for name in ("refused", "statuses"):
            with pytest.raises(BatchError, match="cannot be written"):
                key.open(sealed, **{name: np.frombuffer(bytes(12), "i4")})
        with pytest.raises(BatchError, match="fewer"):
            key.open(sealed, statuses=np.zeros(2, "i4"))
        with pytest.raises(BatchError, match="fewer"):
            key.open(sealed, refused=np.zeros(0, "i4"))


def test_arguments_of_host_memory_are_checked_as_those_of_keys(lib):
    key = Key.generate("aes-256-gcm")
    rows = lib.put(np.zeros((3, 4), "u1"))
    for nonces in (np.zeros((3, 7), "u1"), np.arange(36, dtype="u1").reshape(2, 18)):
        with pytest.raises(BatchError, match="too short|2 rows"):
            key.seal(rows, nonces=lib.put(nonces))
    for offsets in ([], [[0, 1]], np.zeros((2, 2), "i8"), np.zeros(2), [0, 1 << 70], [0, 1 << 62]):
        with pytest.raises(BatchError):
            key.seal(rows, offsets=offsets)
    disk = Key.generate("aes-128-xts")
    with pytest.raises(BatchError, match="sectors"):
        disk.encrypt(lib.put(np.zeros((3, 32), "u1")), sector=2**128 - 2)


def test_objects_and_masks_are_no_bytes():
    key = Key.generate("aes-256-gcm")
    for bad in (
        np.array([{}, 1], dtype=object),
        np.full((2, 2, 2), None),
        np.ma.masked_array([1, 2], [0, 1]),
    ):
        with pytest.raises(BatchError, match="Python objects|masked"):
            key.seal(bad)
        with pytest.raises(BatchError, match="Python objects|masked"):
            key.seal(bytes(4), aad=bad)


def test_rows_of_no_bytes(host):
    key = Key.generate("aes-256-gcm")
    for shape, wanted in (((0, 256), (0, 256)), ((3, 0), (3, 0)), ((0, 2, 4), (0, 8))):
        src = host.put(np.zeros(shape, "u1"))
        words, nonces = host.put(np.zeros(shape[0], "i4")), host.put(np.zeros((shape[0], 12), "u1"))
        sealed = key.seal(src, nonces_out=nonces)
        assert tuple(sealed.data.shape) == wanted
        key.open(sealed, statuses=words).status.check()


def test_an_allocator_can_be_called():
    for bad in (5, "malloc"):
        with pytest.raises(BatchError, match="function"):
            set_allocator(bad)
    set_allocator(None)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("prefix", [b"\0\0\0\1", None])
def test_a_counter_does_not_count_on_after_a_fork(prefix):
    key, counter = Key.generate("aes-256-gcm"), Counter(prefix)
    key.seal(bytes(4), nonces=counter)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            key.seal(bytes(4), nonces=counter)
            os.write(writing, b"sealed")
        except BatchError as error:
            os.write(writing, b"refused" if "fork" in str(error) else b"otherwise")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        assert pipe.read() == b"refused"
    key.seal(bytes(4), nonces=counter)


def test_counters_are_not_copied():
    counter = Counter(b"\0\0\0\1")
    for make in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="not copied"):
            make(counter)
