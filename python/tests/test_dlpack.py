"""Where arrays lie: DLPack's tables and capsules, `__cuda_array_interface__`."""

from __future__ import annotations

import ctypes

import pytest

from fake_gpu import FakeArray
from warplock import BatchError, _native
from warplock.cuda import Key

np = pytest.importorskip("numpy")


def test_arrays_are_described_alike_by_each_protocol():
    array = np.arange(24, dtype="f4").reshape(2, 3, 4)
    address = array.__array_interface__["data"][0]
    assert _native.describe(array, None)[:5] == (address, 96, -1, (2, 3, 4), None)
    fake = FakeArray(array)
    assert _native.describe(fake, None)[:5] == (address, 96, -2, (2, 3, 4), None)
    for bad in (array.transpose(), array[:, ::2], array[:, :, :3]):
        with pytest.raises(BatchError, match="contiguous"):
            _native.describe(bad, None)
        with pytest.raises(BatchError, match="contiguous"):
            _native.describe(FakeArray(bad), None)
    assert _native.describe(array[:1].transpose(1, 0, 2), None)[1] == 48
    assert _native.describe(object(), None) is None
    array.flags.writeable = False
    assert _native.describe(array, None)[5]


class Tensor(ctypes.Structure):
    """DLPack's DLTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int),
        ("device", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


FROM_OBJECT = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Tensor))
STREAM = ctypes.PYFUNCTYPE(
    ctypes.c_int, ctypes.c_int, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p)
)


class Exchange(ctypes.Structure):
    """DLPack's DLPackExchangeAPI."""


Exchange._fields_ = [
    ("major", ctypes.c_uint32),
    ("minor", ctypes.c_uint32),
    ("previous", ctypes.POINTER(Exchange)),
    ("allocator", ctypes.c_void_p),
    ("managed_from_object", ctypes.c_void_p),
    ("managed_to_object", ctypes.c_void_p),
    ("tensor_from_object", FROM_OBJECT),
    ("current_stream", STREAM),
]


def exchanging(table):
    """A type with this table."""
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    capsule = new(ctypes.addressof(table), b"dlpack_exchange_api", None)
    return type("Producer", (), {"__dlpack_c_exchange_api__": capsule, "table": table})


def test_the_exchange_table_is_read_as_dlpack_has_it():
    sizes = (ctypes.c_int64 * 2)(3, 5)
    steps = (ctypes.c_int64 * 2)(5, 1)
    shown = Tensor(0x1000, 2, 4, 2, 2, 16, 1, sizes, steps, 0x20)

    @FROM_OBJECT
    def describe(producer, out):
        if producer.fails:
            return -1
        out[0] = shown
        return 0

    @STREAM
    def stream(device_type, device, out):
        assert (device_type, device) == (2, 4)
        out[0] = 0x1234
        return 0

    table = Exchange(1, 3, None, None, None, None, describe, stream)
    newer = Exchange(2, 0, ctypes.pointer(table))
    for given in (table, newer):
        made = exchanging(given)()
        made.fails = False
        found = _native.describe(made, None)
        assert found == (0x1020, 30, 4, (3, 5), 0x1234, False)
    steps[0] = 6
    with pytest.raises(BatchError, match="Producer is not contiguous"):
        _native.describe(made, None)
    steps[0], shown.bits = 5, 4
    with pytest.raises(BatchError, match="4 bits"):
        _native.describe(made, None)
    shown.bits, shown.device_type = 16, 7
    with pytest.raises(BatchError, match="device type 7"):
        _native.describe(made, None)
    # Of host memory, without a function, and of an unknown version.
    shown.device_type = 1
    assert _native.describe(made, None)[2] == -1
    without = exchanging(Exchange(1, 3))()
    assert _native.describe(without, None) is None
    assert _native.describe(exchanging(Exchange(2, 0))(), None) is None


def test_capsules_are_asked_for_with_the_stream():
    array = np.arange(6, dtype="f8")
    asked = []

    class Producer:
        def __dlpack_device__(self):
            return (2, 0)

        def __dlpack__(self, *, stream, max_version=None):
            asked.append((stream, max_version))
            return array.__dlpack__(max_version=max_version)

    class Older(Producer):
        def __dlpack__(self, *, stream):
            asked.append((stream, None))
            return array.__dlpack__()

    for kind, version in ((Producer, (1, 3)), (Older, None)):
        for stream, wanted in ((None, 1), (0, 1), (77, 77)):
            found = _native.describe(kind(), stream)
            assert found[:2] == (array.__array_interface__["data"][0], 48)
            assert found[3] == (6,)
            assert asked.pop() == (wanted, version)

    class Wrong(Producer):
        def __dlpack__(self, **_):
            return 3

    with pytest.raises(BatchError, match="no DLPack capsule"):
        _native.describe(Wrong(), None)


def test_torch_is_described_by_the_exchange_table():
    torch = pytest.importorskip("torch")
    if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        pytest.skip("this torch has no exchange table")
    for dtype in (torch.float64, torch.bfloat16, torch.bool, torch.complex64, torch.uint8):
        tensor = torch.zeros(5, 6, dtype=dtype)
        found = _native.describe(tensor, None)
        assert found[:4] == (tensor.data_ptr(), tensor.nbytes, -1, (5, 6))
    for bad in (torch.zeros(2, dtype=torch.complex64).conj(), torch.zeros(4, 4).t()):
        with pytest.raises(BatchError):
            Key.generate("aes-256-gcm").seal(bad)
