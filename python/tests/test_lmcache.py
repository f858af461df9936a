"""Frames of LMCache's serde."""

from __future__ import annotations

import importlib.util
import os

import pytest

from warplock import InvalidTag
from warplock.compat.lmcache import OVERHEAD, TenantKeys, open_frame, seal_frame

aead = pytest.importorskip("cryptography.hazmat.primitives.ciphers.aead")


def their_key(master, tenant, bits):
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    info = b"lmcache-l2-aesgcm-v1" + tenant.encode()
    return HKDF(algorithm=SHA256(), length=bits // 8, salt=None, info=info).derive(master)


@pytest.mark.parametrize("bits", [128, 256])
@pytest.mark.parametrize("length", [0, 1, 100_000, 3 << 20])
def test_the_frame(bits, length):
    master, chunk = os.urandom(48), os.urandom(length)
    key = TenantKeys(master, bits).key("tenant ä")
    theirs = aead.AESGCM(their_key(master, "tenant ä", bits))
    frame = bytearray(length + OVERHEAD + 7)
    assert seal_frame(key, chunk, frame) == length + OVERHEAD
    assert frame[0] == 1 and frame[length + OVERHEAD :] == bytes(7)
    assert theirs.decrypt(bytes(frame[1:13]), bytes(frame[13 : 13 + length + 16]), None) == chunk
    iv = os.urandom(12)
    frame = b"\x01" + iv + theirs.encrypt(iv, chunk, None) + b"padding"
    out = bytearray(length)
    open_frame(key, frame, out)
    assert out == chunk


def test_refused_frames():
    keys = TenantKeys(b"master")
    frame = bytearray(100 + OVERHEAD)
    seal_frame(keys.key("a"), bytes(100), frame)
    out = bytearray(b"\xff" * 100)
    with pytest.raises(InvalidTag):
        open_frame(keys.key("b"), frame, out)
    assert not any(out)
    for wrong in (frame[:-1], b"\x02" + frame[1:], b""):
        with pytest.raises(ValueError):
            open_frame(keys.key("a"), wrong, out)
    with pytest.raises(ValueError):
        seal_frame(keys.key("a"), bytes(100), bytearray(100))
    with pytest.raises(ValueError):
        TenantKeys(b"")
    with pytest.raises(ValueError):
        TenantKeys(b"x", 192)


def test_with_lmcache_itself():
    """Both serdes, where LMCache (which needs torch) can be imported."""
    if importlib.util.find_spec("lmcache") is None or importlib.util.find_spec("torch") is None:
        pytest.skip("LMCache or torch is not installed")
    from types import SimpleNamespace

    from lmcache.v1.distributed.serde.aesgcm import AesGcmDeserializer, AesGcmSerializer
    from lmcache.v1.distributed.serde.key_provider import HkdfKeyProvider

    provider = HkdfKeyProvider(b"master", 16, b"lmcache-l2-aesgcm-v1")
    chunk, frame, out = os.urandom(5000), bytearray(5000 + OVERHEAD), bytearray(5000)
    who = SimpleNamespace(cache_salt="tenant")
    memory = lambda data: SimpleNamespace(byte_array=memoryview(data))  # noqa: E731
    key = TenantKeys(b"master").key("tenant")
    AesGcmSerializer(provider).serialize(memory(chunk), memory(frame), who)
    open_frame(key, frame, out)
    assert out == chunk
    seal_frame(key, chunk, frame)
    AesGcmDeserializer(provider).deserialize(memory(frame), memory(out), who)
    assert out == chunk


@pytest.mark.parametrize("master", [32, "a master key", [1, 2, 3]])
def test_a_master_key_is_bytes(master):
    """32 became 32 zeros."""
    with pytest.raises(TypeError):
        TenantKeys(master)
