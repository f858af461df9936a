"""The libraries whose arrays the tests of `warplock.cuda` take, host memory and a simulated GPU among
them."""

from __future__ import annotations

import contextlib
import os

import pytest

import fake_gpu
from fake_gpu import FakeArray
from warplock import _arrays, _native
from warplock.cuda import set_allocator

np = pytest.importorskip("numpy")
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


@pytest.fixture(params=["numpy", "torch-cpu"])
def host(request):
    if request.param == "numpy":
        return Numpy()
    pytest.importorskip("torch")
    return Torch("cpu")
