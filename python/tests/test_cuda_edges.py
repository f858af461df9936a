"""Arrays in GPU memory: other libraries' own ways, threads and forks, and arguments that are wrong."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import threading

import pytest

import warplock
from array_libraries import (  # noqa: F401
    NO_GPU,
    Jax,
    Numpy,
    has_gpu,
    host,
    is_fake,
    lib,
    np,
    rows_of,
)
from warplock import BatchError
from warplock.cuda import CaptureError, Counter, Key, set_allocator


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


def test_no_place_that_is_given_is_passed_over(lib):
    key = Key.generate("aes-256-gcm")
    rows = lib.put(np.zeros((4, 8), "u1"))
    # JAX's arrays are never written.
    for options in ({},) if isinstance(lib, Jax) else ({}, {"out": rows}):
        with pytest.raises(BatchError, match="out_offsets|leave out"):
            key.seal(rows, out_offsets=[24, 16, 8, 0], **options)
    with pytest.raises(BatchError, match="aad_offsets need aad"):
        key.seal(rows, aad_offsets=[0, 1, 2, 3, 4])
    for tag_len in (-1, 17):
        with pytest.raises(BatchError, match="a tag has at most 16 bytes"):
            key.seal(rows, tag_len=tag_len)


@pytest.mark.parametrize("prefix", [4, "abcd", [1, 2, 3, 4]])
def test_the_prefix_of_a_counter_is_bytes(prefix):
    """4 became four zeros: the same prefix for every machine that gave its number."""
    with pytest.raises(TypeError):
        Counter(prefix)


def test_arrays_of_host_memory_that_only_dlpack_describes():
    pyarrow = pytest.importorskip("pyarrow")
    values = pyarrow.array([1, 2, 3])
    for key in (Key.generate("aes-256-gcm"), warplock.Key.generate("aes-256-gcm")):
        with pytest.raises((BatchError, TypeError), match=r"numpy\.from_dlpack"):
            key.seal(values)
        assert len(key.seal(np.from_dlpack(values)).data) == 24


def test_types_of_numpy_that_no_buffer_has():
    with pytest.raises(BatchError, match=r"view\('u1'\)"):
        Key.generate("aes-256-gcm").seal(np.array([["2026-11-30"]], "M8[D]"))
