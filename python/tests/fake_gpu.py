"""A simulated GPU: the Python package's calls with a device that is host memory.

It shows that `warplock.cuda` describes batches as the engine expects them. What the engine makes of
them on a GPU is tested there.
"""

from __future__ import annotations

import ctypes
import struct

from warplock import InvalidTag
from warplock._native import CountedNonces


def memory(at):
    """The bytes at an address, which the tests' arrays keep alive."""
    address, nbytes = at
    if nbytes == 0:
        return bytearray()
    return (ctypes.c_ubyte * nbytes).from_address(address)


class FakeArray:
    """An array that says that its memory is on a GPU."""

    def __init__(self, array):
        self.array = array
        self.shape = array.shape

    @property
    def __cuda_array_interface__(self):
        shown = dict(self.array.__array_interface__)
        return {**shown, "version": 3, "stream": None}

    def copy_to_host(self):
        return self.array


class Counter:
    number = 0

    def __init__(self, device, algorithm, prefix):
        self.prefix = prefix or b"random--"

    def take(self, count, length):
        first, self.number = self.number, self.number + count
        return b"".join(
            self.prefix[: length - 8] + struct.pack(">Q", first + i) for i in range(count)
        )


def count_of(layout):
    if isinstance(layout[0], int):
        return layout[0]
    return len(layout[0]) if layout[1] is not None else len(layout[0]) - 1


class Key:
    """Stands in for `warplock._native.DeviceKey`."""

    WORKSPACE = 768

    def __init__(self, keys, device):
        self.keys, self.device = keys, device
        self.counter = Counter(device, keys.algorithm, None) if keys.is_aead else None
        self.asked = 0

    def enqueue(self, parts, statuses, refused, workspace, stream):
        count = count_of(parts[1][1])
        if workspace[1] < self.WORKSPACE + count:
            self.asked += 1
            return self.WORKSPACE + count
        failed = run(self.keys, parts)
        if statuses is not None:
            words = memoryview(memory(statuses)).cast("B").cast("I")
            for i in range(count):
                words[i] = i in failed
        if refused is not None:
            memoryview(memory(refused)).cast("B").cast("I")[0] += len(failed)


class Plan:
    """Stands in for `warplock._native.DevicePlan`."""

    def __init__(self, keys, device, parts):
        self.keys, self.parts, self.refused = keys, parts, []
        self.words = (ctypes.c_uint * (2 * count_of(parts[1][1])))()

    def launch(self, stream):
        self.refused = run(self.keys, self.parts)
        for i in range(len(self.words) // 2):
            self.words[2 * i] = i in self.refused

    @property
    def statuses(self):
        if self.parts[0]:
            return None
        return ctypes.addressof(self.words), 8, len(self.words) // 2

    def failed(self, stream):
        return self.refused


def run(keys, parts):
    encrypts, (src, layout), out, (ivs, iv_len, counts), aad, (tags, tag_len) = parts
    out, out_layout = out or (None, layout)
    aad, aad_layout = aad or (None, None)
    count = count_of(layout)
    sector, nonces = None, ivs
    if isinstance(counts, Counter):
        assert encrypts and ivs[1] == count * iv_len
        memoryview(memory(ivs)).cast("B")[:] = counts.take(count, iv_len)
    elif isinstance(counts, CountedNonces):
        assert ivs is None
    elif counts is not None:
        sector = counts
    given = None if nonces is None else memory(nonces)
    if isinstance(counts, CountedNonces):
        given = counts.bytes(count)
    data = memory(src)
    target = None if out is None else memory(out)
    try:
        keys.run(
            encrypts, keys.is_aead, data, layout, target, out_layout,
            given, iv_len if given is not None else None, False, sector,
            None if aad is None else memory(aad), aad_layout,
            None if tags is None else memory(tags), tag_len, None, None,
        )  # fmt: skip
    except InvalidTag as error:
        return error.failed
    return []
