"""AESGCM: pyca's signatures, results and errors."""

from __future__ import annotations

import inspect
import json
import os
import threading

import pytest

import warplock
from warplock import AESGCM, InvalidTag

pyca = pytest.importorskip("cryptography.hazmat.primitives.ciphers.aead").AESGCM
LENGTHS = [0, 1, 15, 16, 17, 255, 2047, 2048, 4096, 100_000, 3 << 20]


@pytest.mark.parametrize("bits", [128, 192, 256])
@pytest.mark.parametrize("length", LENGTHS)
def test_both_give_the_same_bytes(bits, length):
    key, nonce, data = AESGCM.generate_key(bits), os.urandom(12), os.urandom(length)
    ours, theirs = AESGCM(key), pyca(key)
    for aad in (None, b"", b"v1"):
        sealed = theirs.encrypt(nonce, data, aad)
        assert ours.encrypt(nonce, data, aad) == sealed
        assert ours.decrypt(nonce, sealed, aad) == data
        buffer = bytearray(length + 16)
        assert ours.encrypt_into(nonce, data, aad, buffer) == length + 16
        assert buffer == sealed
        opened = bytearray(length)
        assert ours.decrypt_into(nonce, sealed, aad, opened) == length
        assert opened == data


@pytest.mark.parametrize("length", [8, 13, 16, 128])
def test_other_nonce_lengths(length):
    key, nonce = bytes(16), os.urandom(length)
    sealed = pyca(key).encrypt(nonce, b"text", b"aad")
    assert AESGCM(key).encrypt(nonce, b"text", b"aad") == sealed
    assert AESGCM(key).decrypt(nonce, sealed, b"aad") == b"text"


def test_in_place():
    for length in LENGTHS:
        data = os.urandom(length)
        buffer = bytearray(data + bytes(16))
        key = AESGCM(bytes(32))
        key.encrypt_into(bytes(12), memoryview(buffer)[:length], None, buffer)
        assert bytes(buffer) == pyca(bytes(32)).encrypt(bytes(12), data, None)
        key.decrypt_into(bytes(12), buffer, None, memoryview(buffer)[:length])
        assert buffer[:length] == data


def test_nothing_unverified_is_given_out():
    key = AESGCM(bytes(16))
    for length in LENGTHS:
        sealed = bytearray(key.encrypt(bytes(12), bytes(length) or b"x", b"aad"))
        for place in {0, len(sealed) // 2, len(sealed) - 1}:
            sealed[place] ^= 1
            with pytest.raises(InvalidTag) as refused:
                key.decrypt(bytes(12), sealed, b"aad")
            assert refused.value.failed == [0]
            out = bytearray(b"\xff" * (len(sealed) - 16))
            with pytest.raises(InvalidTag):
                key.decrypt_into(bytes(12), sealed, b"aad", out)
            assert not any(out)
            sealed[place] ^= 1


def calls():
    """Calls that must fail, as functions of the class."""
    text, nonce = b"1" * 16, b"1" * 12
    numbers = [(lambda cls: cls(b"0" * 15)), (lambda cls: cls("0" * 16)), (lambda cls: cls(None))]
    numbers += [lambda cls, bits=bits: cls.generate_key(bits) for bits in (0, 100, "128", None)]
    for method in ("encrypt", "decrypt"):
        for arguments in (
            (b"1" * 7, text, None),
            (b"1" * 129, text, None),
            ("1" * 12, text, None),
            (None, text, None),
            (nonce, "text", None),
            (nonce, None, None),
            (nonce, text, "aad"),
            (nonce, text),
            (nonce, memoryview(bytes(32))[::2], None),
        ):
            numbers.append(
                lambda cls, method=method, arguments=arguments: getattr(cls(text), method)(
                    *arguments
                )
            )
    for method, sizes in (("encrypt_into", (15, 31, 33)), ("decrypt_into", (1, 17))):
        for size in sizes:
            numbers.append(
                lambda cls, method=method, size=size: getattr(cls(text), method)(
                    nonce, text, None, bytearray(size)
                )
            )
        numbers.append(
            lambda cls, method=method: getattr(cls(text), method)(nonce, text, None, bytes(32))
        )
    numbers.append(lambda cls: cls(text).decrypt(nonce, b"1" * 15, None))
    numbers.append(lambda cls: cls(text).decrypt_into(nonce, b"1" * 15, None, bytearray()))
    return numbers


@pytest.mark.parametrize("call", calls())
def test_errors_are_of_the_same_class(call):
    from warplock.compat.pyca import AESGCM as compatible

    with pytest.raises(Exception) as theirs:
        call(pyca)
    with pytest.raises(Exception) as ours:
        call(compatible)
    wanted = type(theirs.value)
    # Ours are subclasses of ValueError in places.
    if wanted is BufferError or "c-contiguous" in str(ours.value).lower():
        return
    assert isinstance(ours.value, wanted), (ours.value, theirs.value)
    if not issubclass(wanted, TypeError) and str(theirs.value):
        assert str(ours.value) == str(theirs.value)


def test_signatures():
    for name in ("encrypt", "decrypt", "encrypt_into", "decrypt_into"):
        ours = list(inspect.signature(getattr(AESGCM, name)).parameters)
        theirs = list(inspect.signature(getattr(pyca, name)).parameters)
        assert ours == theirs


def test_overlaps_are_refused_and_nothing_is_written():
    key = AESGCM(bytes(16))
    memory = bytearray(range(100))
    before = bytes(memory)
    view = memoryview(memory)
    for arguments in (
        (bytes(12), view[4:36], None, view[:48]),
        (view[40:52], view[:32], None, view[:48]),
        (bytes(12), view[:32], view[47:50], view[:48]),
    ):
        with pytest.raises(ValueError, match="overlap"):
            key.encrypt_into(*arguments)
        assert memory == before


def test_a_buffer_cannot_be_resized_during_the_call():
    """It is held by the call: what another thread tries meanwhile is refused by Python."""
    key = AESGCM(bytes(16))
    data = bytearray(64 << 20)
    refused = []
    started = threading.Event()

    def resize():
        started.wait()
        while not refused:
            try:
                data.append(0)
                data.pop()
            except BufferError:
                refused.append(True)

    thread = threading.Thread(target=resize)
    thread.start()
    started.set()
    for _ in range(50):
        key.encrypt(bytes(12), data, None)
        if refused:
            break
    refused.append(True)
    thread.join()
    assert len(refused) == 2


def test_wycheproof(vectors):
    tried = 0
    for name in ("aes_gcm_test.json", "aes_gmac_test.json"):
        for group in json.loads((vectors / "wycheproof" / name).read_text())["testGroups"]:
            for test in group["tests"]:
                values = {
                    name: bytes.fromhex(test[name])
                    for name in ("key", "iv", "aad", "msg", "ct", "tag")
                    if isinstance(test.get(name), str)
                }
                if not 8 <= len(values["iv"]) <= 128 or len(values["tag"]) != 16:
                    continue
                # GMAC: the message is associated data, and there is no text.
                gmac = "ct" not in values
                text = b"" if gmac else values["msg"]
                aad = values["msg"] if gmac else values["aad"]
                sealed = values.get("ct", b"") + values["tag"]
                key = AESGCM(values["key"])
                tried += 1
                if test["result"] == "valid":
                    assert key.encrypt(values["iv"], text, aad) == sealed
                    assert key.decrypt(values["iv"], sealed, aad) == text
                else:
                    with pytest.raises(InvalidTag):
                        key.decrypt(values["iv"], sealed, aad)
    assert tried > 400


def test_engines():
    for backend in ("cpu", "cpu:portable"):
        engine = warplock.Engine(backend, threads=2)
        assert engine.backend.startswith("cpu:")
        key = AESGCM(bytes(16), engine=engine)
        sealed = key.encrypt(bytes(12), bytes(100_000), None)
        assert sealed == pyca(bytes(16)).encrypt(bytes(12), bytes(100_000), None)
    with pytest.raises(warplock.NoBackendError):
        warplock.Engine("cpu:nothing")
    for threads in (0, -1, -(1 << 70)):
        with pytest.raises(ValueError, match="threads must be at least 1"):
            warplock.Engine("cpu", threads=threads)
    with pytest.raises(ValueError, match="threads is larger"):
        warplock.Engine("cpu", threads=1 << 70)
    with pytest.raises(TypeError):
        warplock.Engine("cpu", threads="two")  # type: ignore[arg-type]
