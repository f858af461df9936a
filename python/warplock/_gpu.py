"""Batches for the engine, from arrays in GPU memory."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from warplock import _native
from warplock._arrays import library
from warplock._errors import BatchError, CaptureError
from warplock._layout import (
    Layout,
    check_aad,
    check_rows,
    check_sectors,
    check_tag_len,
    given_nonces,
    integers,
    is_appended,
)
from warplock._native import CountedNonces
from warplock._nonces import Counter

if TYPE_CHECKING:
    from warplock.cuda import Key

# Associated data of a key that stays in GPU memory.
_MOST_UPLOADS = 64
# Numbers of messages whose workspace's length is remembered, and shapes of texts.
_MOST_LENGTHS = 1024
# Bytes and number of the workspaces that a thread keeps.
_MOST_KEPT = 1 << 20
_MOST_ROOMS = 64


class OnDevice:
    """A key on one GPU."""

    def __init__(self, keys: _native.KeySet, device: int) -> None:
        self.native = _native.DeviceKey(keys, device)
        self.counter = self.native.counter
        # The workspace that calls with a number of messages needed.
        self.lengths: dict[int, int] = {}
        # What `anew` found out about texts of a shape.
        self.results: dict[Any, Any] = {}
        # Associated data that was uploaded, by library and content.
        self.uploads: dict[Any, Any] = {}


class Arguments(NamedTuple):
    """What a call or a plan was given."""

    encrypts: bool
    authenticated: bool
    src: Any
    nonces: Any = None
    nonces_out: Any = None
    sector: int | None = None
    aad: Any = None
    aad_offsets: Any = None
    out: Any = None
    tags: Any = None
    tag_len: int = 16
    offsets: Any = None
    sizes: Any = None
    out_offsets: Any = None
    statuses: Any = None
    refused: Any = None
    stream: Any = None

    @property
    def appends(self) -> bool:
        """Whether tags lie after their ciphertexts."""
        return self.tags is not None and is_appended(self.authenticated, self.tags)


class Call(NamedTuple):
    """A batch for the engine, and its arrays."""

    parts: tuple[Any, ...]
    """`_native.DeviceKey.enqueue` says what they are."""
    messages: int
    out: Any
    tags: Any
    ivs: Any
    offsets: Any
    keep: list[Any]
    """What was uploaded."""
    is_new: tuple[bool, bool, bool]
    """Whether out, tags and ivs were made here."""
    is_indirect: bool = False
    """Whether places and lengths are in GPU memory."""


def prepare(key: Key, on: OnDevice, lib: Any, given: Arguments, view: Any, stream: int) -> Call:
    address, nbytes, device, shape, _, read_only = view
    encrypts, authenticated, src, nonces = given[:4]
    out, tags, offsets = given.out, given.tags, given.offsets
    keep: list[Any] = []

    # Where texts and results lie.
    if authenticated and not key._is_aead:
        raise BatchError(f"{key.algorithm} does not authenticate: use encrypt and decrypt")
    check_tag_len(given.tag_len)
    appended = given.appends
    out_at = None
    if out is not None and out is not src:
        out_at = place(out, device, stream, "out", True)
        if out_at == (address, nbytes) and nbytes:
            out_at = None
    elif out is not None and (lib.immutable or read_only):
        raise BatchError(f"{type(src).__name__} cannot be written: give another out")
    in_place = out is not None and out_at is None
    rows = shape[0] if len(shape) > 1 else None
    out_shape: tuple[int, ...]
    if offsets is given.sizes is given.out_offsets is out_at is None and not appended:
        source, out_shape = _even(shape, nbytes)
        target, made_offsets, count = source, None, source[0]
    else:
        each = None if rows is None else (rows, nbytes // rows if rows else 0)
        layout = Layout(nbytes, each, on_host(offsets), on_host(given.sizes))
        count = layout.count
        source, target, out_shape, made_offsets = layout.places(
            encrypts, given.tag_len if appended else 0, in_place,
            None if out_at is None else out_at[1], on_host(given.out_offsets),
        )  # fmt: skip
    many = rows is not None or offsets is not None
    out_is_new = out is None
    if out_is_new:
        out = lib.empty(out_shape, device, stream)
        out_at = lib.at(out)

    # Nonces: what they are, or where.
    if given.sector is not None:
        check_sectors(given.sector, count, nonces)
    ivs_is_new = False
    counts: Any = None
    ivs: Any = nonces
    iv_len = key._iv_len
    ivs_at = None
    if nonces is None:
        if authenticated:
            if not encrypts:
                raise BatchError("opening needs the nonces of the sealing")
            counts, ivs_is_new = on.counter, True
        elif given.sector is not None:
            counts = given.sector
        elif iv_len and encrypts:
            ivs = _upload(lib, os.urandom(iv_len * count), device, stream)
            ivs = ivs.reshape(count, iv_len) if many else ivs
            ivs_at = lib.at(ivs)
        elif iv_len:
            raise BatchError("decryption needs the IVs of the encryption")
    elif isinstance(nonces, Counter):
        if not encrypts:
            raise BatchError("opening needs the nonces of the sealing, not a counter")
        counts, ivs_is_new = nonces._on(device, key.algorithm), True
    elif isinstance(nonces, CountedNonces):
        counts = nonces
    else:
        ivs_at = place(nonces, device, stream, "nonces", False, lib, keep)
        iv_len = given_nonces(
            getattr(nonces, "shape", ()), ivs_at[1], count, iv_len, encrypts and authenticated
        )
    if given.nonces_out is not None:
        if not ivs_is_new:
            raise BatchError("nonces_out is for new nonces, not for given ones")
        ivs, ivs_is_new = given.nonces_out, False
        ivs_at = place(ivs, device, stream, "nonces_out", True)
    elif ivs_is_new:
        ivs = lib.empty((count, iv_len) if many else (iv_len,), device, stream)
        ivs_at = lib.at(ivs)

    # Associated data.
    check_aad(given.aad, given.aad_offsets)
    aad = None
    if given.aad is not None:
        aad = _aad(on, lib, given.aad, given.aad_offsets, count, device, stream, keep)

    # Tags.
    tags_is_new = False
    tags_at = None
    tag_len = given.tag_len
    if authenticated and not appended:
        if tags is not None:
            check_rows(getattr(tags, "shape", ()), count, "tags")
            tags_at = place(tags, device, stream, "tags", encrypts, lib, keep)
        elif not encrypts:
            raise BatchError('give the tags, or tags="appended"')
        else:
            tags_is_new = True
            tags = lib.empty((count, tag_len) if many else (tag_len,), device, stream)
            tags_at = lib.at(tags)

    parts = (
        encrypts, ((address, nbytes), source), None if out_at is None else (out_at, target),
        (ivs_at, iv_len, counts), aad, (tags_at, tag_len),
    )  # fmt: skip
    is_new = (out_is_new, tags_is_new, ivs_is_new)
    return Call(parts, count, out, tags, ivs, made_offsets, keep, is_new)


def on_host(values: Any) -> Any:
    """Offsets and sizes, which are read by the host."""
    if values is None:
        return None
    if isinstance(values, (list, tuple)):
        return integers(values)
    if library(values).view(values)[2] >= 0:
        raise BatchError("offsets and sizes must be in host memory: the call would have to wait")
    # Not as bytes.
    return values.numpy() if hasattr(values, "numpy") else values


def of_host(array: Any) -> Any:
    """Bytes in host memory."""
    lib = library(array)
    if lib.view(array)[2] >= 0:
        raise BatchError("arrays of one call must all be in GPU memory, or all in host memory")
    return lib.host(array)


def check_words(array: Any, what: str) -> None:
    """Checks that verdicts and their counts are 32-bit integers."""
    kind = getattr(array, "dtype", None)
    if kind is not None:
        fits = str(kind).removeprefix("torch.") in ("int32", "uint32")
    else:
        shown = getattr(array, "__cuda_array_interface__", None)
        if shown is not None:
            # Memory without a type is taken as it is.
            fits = shown["typestr"].lstrip("<|=") in ("i4", "u4", "u1")
        elif hasattr(array, "__dlpack__"):
            fits = True
        else:
            view = memoryview(array)
            fits = view.itemsize == 4 and view.format.lstrip("@=<") in ("i", "I", "l", "L")
    if not fits:
        raise BatchError(f"{what} must be an array of integers of 32 bits, such as int32")


def place(
    array: Any,
    device: int,
    stream: int,
    what: str,
    writes: bool,
    lib: Any = None,
    keep: list[Any] | None = None,
) -> tuple[int, int]:
    """Where an array's bytes are on the GPU; what is only read may be in host memory, and is then
    uploaded as one of `lib`'s arrays."""
    own = library(array)
    address, nbytes, where, _, _, read_only = own.view(array, stream)
    if where == device:
        if writes and (own.immutable or read_only):
            raise BatchError(f"{what} ({type(array).__name__}) cannot be written")
        return address, nbytes
    if where >= 0:
        raise BatchError(f"{what} is on the GPU {where}, and the texts on {device}")
    if lib is None or keep is None:
        raise BatchError(f"{what} must be in GPU memory, as the texts are")
    made = _upload(lib, own.host(array), device, stream)
    keep.append(made)
    at: tuple[int, int] = lib.at(made)
    return at


def _upload(lib: Any, data: Any, device: int, stream: int) -> Any:
    if lib.is_capturing():
        raise CaptureError(
            "nonces, tags and associated data of host memory cannot be copied while the stream "
            "captures a graph: make a plan before the capture"
        )
    return lib.upload(data, device, stream)


def _aad(
    on: OnDevice,
    lib: Any,
    aad: Any,
    offsets: Any,
    count: int,
    device: int,
    stream: int,
    keep: list[Any],
) -> tuple[tuple[int, int], tuple[Any, ...] | None]:
    """Where associated data is on the GPU, and its layout if it differs between messages."""
    own = library(aad)
    shape: Any = ()
    if isinstance(aad, bytes):
        # The same for many calls: it is uploaded once.
        known = (lib, aad)
        made = on.uploads.get(known)
        if made is None:
            made = _upload(lib, aad, device, stream)
            keep.append(made)
            if len(on.uploads) < _MOST_UPLOADS:
                # Before other streams may read it.
                _native.synchronize(device, stream)
                on.uploads[known] = made
        at: tuple[int, int] = lib.at(made)
    else:
        at = place(aad, device, stream, "aad", False, lib, keep)
        shape = getattr(aad, "shape", ())
    if offsets is not None:
        return at, (on_host(offsets), None)
    if own is not lib and not shape:
        view = memoryview(aad)
        shape = view.shape or ()
    if len(shape) < 2:
        return at, None
    if shape[0] != count:
        raise BatchError(f"there are {shape[0]} rows of associated data for {count} messages")
    width = at[1] // count if count else 0
    return at, (count, width, width)


def anew(key: Key, encrypts: bool, src: Any, tags: Any, nonces: Any) -> tuple[Any, ...] | None:
    """Makes and queues a call that was given only what it needs, as most are: new arrays for results,
    tags, nonces and verdicts. It asks less than `prepare`, because small calls wait for the
    interpreter. Returns None, and queues nothing, if `prepare` must look at the call."""
    lib = library(src)
    if lib.immutable or not key._is_aead:
        return None
    address, nbytes, device, shape, stream, _ = lib.view(src)
    on = key._devices.get(device)
    if on is None:
        return None
    if stream is None:
        stream = lib.stream(device)
    known = (lib, shape, nbytes, stream)
    results = on.results.get(known)
    if results is None:
        if len(on.results) >= _MOST_LENGTHS:
            on.results.clear()
        results = on.results[known] = _results(lib, shape, nbytes, key._iv_len, device, stream)
    count, layout, nonces_shape, tags_shape, new_out, new_nonces, new_tags, new_words = results
    pointer = lib.pointer
    iv_len = key._iv_len
    if encrypts:
        nonces, tags = new_nonces(), new_tags()
        nonces_at, tags_at = pointer(nonces), pointer(tags)
        counter, words, words_at = on.counter, None, None
    else:
        nonces_at, nonces_len, nonces_on, found, _, _ = lib.view(nonces, stream)
        if nonces_on != device or found != nonces_shape or nonces_len != count * iv_len:
            return None
        tags_at, tags_len, tags_on, found, _, _ = lib.view(tags, stream)
        if tags_on != device or found != tags_shape or tags_len != count * 16:
            return None
        words = new_words()
        counter, words_at = None, (pointer(words), 4 * count)
    out = new_out()
    parts = (
        encrypts, ((address, nbytes), layout), ((pointer(out), nbytes), layout),
        ((nonces_at, count * iv_len), iv_len, counter), None, ((tags_at, count * 16), 16),
    )  # fmt: skip
    enqueue(on, lib, on.native.enqueue, parts, count, device, words_at, None, stream)
    return out, tags, nonces, words, lib, device, stream, count


def _even(shape: Any, nbytes: int) -> tuple[tuple[int, int, int], tuple[int, ...]]:
    """Number, bytes and distance of texts in an array of their own, and the shape of their results."""
    if len(shape) < 2:
        return (1, nbytes, nbytes), (nbytes,)
    count = shape[0]
    width = nbytes // count if count else 0
    return (count, width, width), (count, width)


def _results(
    lib: Any, shape: Any, nbytes: int, iv_len: int, device: int, stream: int
) -> tuple[Any, ...]:
    """Of texts of a shape: their number and layout, the shapes of nonces and tags, and what makes
    results, nonces, tags and verdicts."""
    layout, out = _even(shape, nbytes)
    count = layout[0]
    # Nonces and tags have a row for each message, if there can be several.
    rows = (count,) if len(shape) > 1 else ()
    nonces, tags = (*rows, iv_len), (*rows, 16)
    return (
        count, layout, nonces, tags, lib.maker(out, device, stream),
        lib.maker(nonces, device, stream), lib.maker(tags, device, stream),
        lib.maker((count,), device, stream, words=True),
    )  # fmt: skip


def enqueue(
    on: OnDevice,
    lib: Any,
    queue: Any,
    parts: tuple[Any, ...],
    messages: int,
    device: int,
    words: Any,
    refused: Any,
    stream: int,
) -> None:
    """Queues a batch with a workspace that is large enough."""
    # The thread's calls on a stream use one workspace, each after the other.
    rooms = lib.rooms()
    at = (device, stream)
    _, room = rooms.get(at, _NO_ROOM)
    length = on.lengths.get(messages, 0)
    made = None
    while True:
        if room[1] < length:
            made = lib.empty((length,), device, stream)
            room = lib.at(made)
        need = queue(parts, words, refused, room, stream)
        if need is None:
            break
        if len(on.lengths) >= _MOST_LENGTHS:
            on.lengths.clear()
        # Ragged messages need about the same the next time.
        length = on.lengths[messages] = need + need // 8
    if made is not None and length <= _MOST_KEPT:
        if len(rooms) >= _MOST_ROOMS:
            rooms.clear()
        rooms[at] = made, room


_NO_ROOM = None, (0, 0)
