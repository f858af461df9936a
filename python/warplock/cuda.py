"""Arrays in GPU memory, encrypted where they lie.

Arrays of PyTorch, CuPy, JAX and every library with DLPack or `__cuda_array_interface__`; results are
arrays of the same library. Calls only queue their work: they wait for nothing, copy no payload, and
a message that does not verify is zeros before any later work on the stream can read it. Whether one
did not is in a `Status`, to be read at any time.

Arrays in host memory go through the same functions to the host's engine, with the same results.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import weakref
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from warplock import _native
from warplock._arrays import handle, library, set_allocator
from warplock._batch import Encrypted, Sealed
from warplock._batch import Key as _HostKey
from warplock._errors import BatchError, CaptureError, InvalidTag
from warplock._gpu import (
    Arguments,
    OnDevice,
    anew,
    check_words,
    enqueue,
    of_host,
    on_host,
    place,
    prepare,
)
from warplock._indirect import are_on_gpu, prepare_indirect
from warplock._layout import Layout, check_tag_len, empty, flat
from warplock._native import CountedNonces
from warplock._nonces import Counter, add32_nonces, xor_nonces
from warplock._overlaps import refuse_overlaps
from warplock._plan import Plan
from warplock._status import HostStatus, Status

if TYPE_CHECKING:
    from collections.abc import Buffer

__all__ = [
    "CaptureError",
    "Counter",
    "Encrypted",
    "Key",
    "Opened",
    "Plan",
    "Sealed",
    "Status",
    "add32_nonces",
    "set_allocator",
    "xor_nonces",
]

_TAG_LEN = 16

for _class in (CaptureError, Counter, Plan, Status):
    _class.__module__ = "warplock.cuda"
del _class


class Opened(NamedTuple):
    """What `open` made."""

    data: Any
    """The texts; zeros where a message was refused."""
    status: Status
    """Which messages were refused; `status.check()` waits, and raises if any was."""


_numbers = itertools.count(1)
_handles: weakref.WeakValueDictionary[int, Key] = weakref.WeakValueDictionary()


class Key:
    """A secret key for arrays on any GPU and in host memory.

    It is made ready on a GPU when it is first used there, which takes a moment and waits;
    `device` names one on which that happens now. Threads may share it.
    """

    def __init__(self, algorithm: str, key: Buffer, *, device: int | None = None) -> None:
        self._of(_HostKey(algorithm, key), device)

    @classmethod
    def generate(cls, algorithm: str, *, device: int | None = None) -> Key:
        """A random key."""
        made = cls.__new__(cls)
        made._of(_HostKey.generate(algorithm), device)
        return made

    def _of(self, host: _HostKey, device: int | None) -> None:
        self._host = host
        self._iv_len = host._keys.iv_len
        self._is_aead = host._keys.is_aead
        self._devices: dict[int, OnDevice] = {}
        self._lock = threading.Lock()
        self.handle = next(_numbers)
        """A number that stands for this key in `torch.ops.warplock`, as long as it lives."""
        _handles[self.handle] = self
        if device is not None:
            self.prepare(device)

    @property
    def algorithm(self) -> str:
        """The algorithm's name, such as "aes-256-gcm"."""
        return self._host.algorithm

    def __repr__(self) -> str:
        return f"<warplock.cuda.Key {self.algorithm}>"

    def prepare(self, device: int) -> None:
        """Makes the key ready on a GPU. Allocates and waits."""
        self._on(device)

    def _on(self, device: int, lib: Any = None) -> OnDevice:
        found = self._devices.get(device)
        if found is None:
            if lib is not None and lib.is_capturing():
                raise CaptureError(
                    "the key is not ready on this GPU, and the stream captures a graph: make it "
                    "ready before (Key(..., device=))"
                )
            with self._lock:
                found = self._devices.get(device)
                if found is None:
                    found = self._devices[device] = OnDevice(self._host._keys, device)
        return found

    def seal(
        self,
        src: Any,
        *,
        nonces: Any = None,
        nonces_out: Any = None,
        aad: Any = None,
        aad_offsets: Any = None,
        out: Any = None,
        tags: Any = None,
        tag_len: int = _TAG_LEN,
        offsets: Any = None,
        sizes: Any = None,
        out_offsets: Any = None,
        stream: Any = None,
    ) -> Sealed:
        """Authenticated encryption of one message or many.

        `src` is a contiguous array of any type, taken as bytes: one dimension is one message; with
        more, the first one counts messages; `offsets` and `sizes` (or one offset more than
        messages) make them ragged.

        `nonces`: new ones are taken from a counter on the GPU and returned, unless an array, a
        `Counter`, `xor_nonces` or `add32_nonces` are given; `nonces_out` is where new ones are
        written. `aad`: associated data, the same for all, or with two dimensions or `aad_offsets`
        one for each. `out`: where to write, `out=src` in place. `tags`: where to write them, or
        "appended" to have each after its ciphertext. `stream`: an int or a stream object; otherwise
        the current one of the array's library.
        """
        if (
            nonces is nonces_out is aad is aad_offsets is out is tags is offsets is sizes
            is out_offsets is stream is None and tag_len == 16
        ):  # fmt: skip
            made = anew(self, True, src, None, None)
            if made is not None:
                return Sealed(made[0], made[1], made[2], None)
        given = Arguments(
            True, True, src, nonces, nonces_out, aad=aad, aad_offsets=aad_offsets, out=out, tags=tags,
            tag_len=tag_len, offsets=offsets, sizes=sizes, out_offsets=out_offsets, stream=stream,
        )  # fmt: skip
        out, tags, nonces, offsets, _ = self._run(given)
        return Sealed(out, tags, nonces, offsets)

    def open(
        self,
        src: Any,
        tags: Any = None,
        *,
        nonces: Any = None,
        aad: Any = None,
        aad_offsets: Any = None,
        out: Any = None,
        tag_len: int = _TAG_LEN,
        offsets: Any = None,
        sizes: Any = None,
        out_offsets: Any = None,
        statuses: Any = None,
        refused: Any = None,
        stream: Any = None,
    ) -> Opened:
        """Verified decryption of what `seal` made: its result, or the parts of it.

        Raises nothing for messages that do not verify: see `Opened`. `statuses`: where to write the
        status' array. `refused`: an array of one 32-bit integer to which the number of refused
        messages is added, over any number of calls.
        """
        src, tags, nonces, offsets = _unpack(src, tags, nonces, offsets)
        if (
            aad is aad_offsets is out is offsets is sizes is out_offsets is statuses is refused
            is stream is None and tag_len == 16 and type(tags) is type(nonces) is type(src)
        ):  # fmt: skip
            made = anew(self, False, src, tags, nonces)
            if made is not None:
                out, _, _, words, lib, device, at, count = made
                return Opened(out, Status(lib, words, device, at, count))
        given = Arguments(
            False, True, src, nonces, aad=aad, aad_offsets=aad_offsets, out=out, tags=tags,
            tag_len=tag_len, offsets=offsets, sizes=sizes, out_offsets=out_offsets,
            statuses=statuses, refused=refused, stream=stream,
        )  # fmt: skip
        out, _, _, _, status = self._run(given)
        return Opened(out, status)

    def encrypt(
        self,
        src: Any,
        *,
        ivs: Any = None,
        sector: int | None = None,
        out: Any = None,
        offsets: Any = None,
        sizes: Any = None,
        stream: Any = None,
    ) -> Encrypted:
        """Encryption that detects no changes: ECB, CBC (without padding), CTR and XTS. IVs that are
        not given are drawn on the host. For XTS, `sector` is the number of the first message."""
        self._host._refuse_aead()
        given = Arguments(
            True, False, src, ivs, sector=sector, out=out, offsets=offsets, sizes=sizes,
            stream=stream,
        )  # fmt: skip
        out, _, ivs, _, _ = self._run(given)
        return Encrypted(out, ivs)

    def decrypt(
        self,
        src: Any,
        *,
        ivs: Any = None,
        sector: int | None = None,
        out: Any = None,
        offsets: Any = None,
        sizes: Any = None,
        stream: Any = None,
    ) -> Any:
        """The opposite of `encrypt`. Nothing is verified."""
        self._host._refuse_aead()
        given = Arguments(
            False, False, src, ivs, sector=sector, out=out, offsets=offsets, sizes=sizes,
            stream=stream,
        )  # fmt: skip
        return self._run(given)[0]

    def plan(
        self,
        direction: Literal["seal", "open", "encrypt", "decrypt"],
        src: Any,
        tags: Any = None,
        *,
        nonces: Any = None,
        sector: int | None = None,
        aad: Any = None,
        aad_offsets: Any = None,
        out: Any = None,
        tag_len: int = _TAG_LEN,
        offsets: Any = None,
        sizes: Any = None,
        out_offsets: Any = None,
    ) -> Plan:
        """Prepares a batch for many launches, also in a CUDA graph. Allocates and waits.

        The arguments are those of the method that `direction` names. Arrays are read again at each
        launch; a plan that seals takes new nonces at each.
        """
        if direction not in ("seal", "open", "encrypt", "decrypt"):
            raise BatchError("a plan's direction is seal, open, encrypt or decrypt")
        authenticated = direction in ("seal", "open")
        if not authenticated:
            self._host._refuse_aead()
        src, tags, nonces, offsets = _unpack(src, tags, nonces, offsets)
        lib = library(src)
        view = lib.view(src)
        if view[2] < 0:
            raise BatchError("plans are for arrays in GPU memory: call the key's methods")
        if lib.immutable:
            raise BatchError(f"{type(src).__name__} never changes, so it needs no plan")
        on = self._on(view[2], lib)
        stream = lib.stream(view[2]) if view[4] is None else view[4]
        given = Arguments(
            direction in ("seal", "encrypt"), authenticated, src, nonces, sector=sector, aad=aad,
            aad_offsets=aad_offsets, out=out, tags=tags, tag_len=tag_len, offsets=offsets,
            sizes=sizes, out_offsets=out_offsets,
        )  # fmt: skip
        call = prepare(self, on, lib, given, view, stream)
        # The plan's making waits for a stream of its own; what was uploaded must be there before.
        _native.synchronize(view[2], stream)
        native = _native.DevicePlan(self._host._keys, view[2], call.parts)
        return Plan(native, lib, view[2], call, self)

    def _run(self, given: Arguments) -> tuple[Any, Any, Any, Any, Any]:
        """Results, tags, nonces, offsets and status."""
        src = given.src
        lib = library(src)
        stream = None if given.stream is None else handle(given.stream)
        view = lib.view(src, stream)
        device = view[2]
        if device < 0:
            return self._run_on_host(lib, given)
        on = self._devices.get(device) or self._on(device, lib)
        current = view[4]
        if current is None:
            current = lib.stream(device)
        at = current if stream is None else stream
        # Memory belongs to the stream on which it is used.
        with lib.on(at, device) if at != current else _SAME_STREAM:
            made_of = prepare_indirect if are_on_gpu(given.offsets) else prepare
            call = made_of(self, on, lib, given, view, at)
            words_at = refused_at = status = None
            statuses, refused = given.statuses, given.refused
            if given.authenticated and not given.encrypts:
                if statuses is None:
                    words = lib.words(call.messages, device, at)
                    words_at = lib.at(words)
                    status = Status(lib, words, device, at, call.messages)
                else:
                    check_words(statuses, "statuses")
                    words_at = place(statuses, device, at, "statuses", True)
                    status = Status(library(statuses), statuses, device, at, call.messages)
                if refused is not None:
                    check_words(refused, "refused")
                    refused_at = place(refused, device, at, "refused", True)
            native = on.native
            queue = native.enqueue_indirect if call.is_indirect else native.enqueue
            enqueue(
                on, lib, queue, call.parts, call.messages, device, words_at, refused_at, at
            )  # fmt: skip
            out, tags, ivs = call.out, call.tags, call.ivs
            if lib.immutable:
                lib.keep([src, *call.keep], device)
                out, tags, ivs = (
                    lib.result(made) if is_new else made
                    for made, is_new in zip((out, tags, ivs), call.is_new)
                )
        if at != current:
            lib.record([src, out, tags, ivs, statuses, refused, *call.keep], at, device)
        return out, tags, ivs, call.offsets, status

    def _run_on_host(self, lib: Any, given: Arguments) -> tuple[Any, Any, Any, Any, Any]:
        encrypts, authenticated, src, nonces = given[:4]
        out, tags = given.out, given.tags
        if out is not None and library(out).immutable:
            raise BatchError(f"{type(out).__name__} cannot be written: give another out")
        data = lib.host(src)
        target = data if out is src else None if out is None else of_host(out)
        offsets, sizes, out_offsets = (
            on_host(given.offsets), on_host(given.sizes), on_host(given.out_offsets),
        )  # fmt: skip
        check_tag_len(given.tag_len)
        layout = Layout.of(data, offsets, sizes)
        appended = given.appends
        places = layout.places(
            encrypts, given.tag_len if appended else 0, target is data,
            None if target is None else memoryview(target).nbytes, out_offsets,
        )  # fmt: skip
        made_offsets = places.offsets
        if target is None:
            target = empty(data, places.shape)
            if made_offsets is not None and out_offsets is None:
                out_offsets = made_offsets
        ivs: Any = nonces
        raw: Any
        if isinstance(nonces, Counter):
            if not encrypts:
                raise BatchError("opening needs the nonces of the sealing, not a counter")
            counted = nonces._host_nonces(layout.count, self._host)
            raw = ivs = None
            if counted is not None:
                many = layout.rows is not None or layout.ragged is not None
                raw = empty(data, (layout.count, self._iv_len) if many else (self._iv_len,))
                flat(raw)[:] = counted
        elif isinstance(nonces, CountedNonces):
            raw = nonces.bytes(layout.count)
        else:
            raw = None if nonces is None else of_host(nonces)
        late = []
        nonces_out, statuses, refused = given.nonces_out, given.statuses, given.refused
        if nonces_out is not None:
            if nonces is not None and not isinstance(nonces, Counter):
                raise BatchError("nonces_out is for new nonces, not for given ones")
            late.append(("nonces_out", _writable(nonces_out, "nonces_out")))
            if late[0][1].nbytes != layout.count * self._iv_len:
                raise BatchError(
                    f"nonces_out has {late[0][1].nbytes} bytes, and {layout.count} nonces of "
                    f"{self._iv_len} bytes need {layout.count * self._iv_len}"
                )
        opens = authenticated and not encrypts
        for what, words, least in (("statuses", statuses, layout.count), ("refused", refused, 1)):
            if opens and words is not None:
                check_words(words, what)
                late.append((what, _writable(words, what)))
                if late[-1][1].nbytes < 4 * least:
                    raise BatchError(f"{what} has room for fewer than {least} integers")
        aad = None if given.aad is None else of_host(given.aad)
        given_tags = tags if tags is None or appended else of_host(tags)
        if late:
            refuse_overlaps(
                late,
                [
                    ("the source", data), ("out", target), ("the nonces", raw), ("aad", aad),
                    ("the tags", None if appended else given_tags),
                ],
            )  # fmt: skip
        failed: list[int] = []
        try:
            _, made_tags, made_ivs, _ = self._host._run(
                encrypts, authenticated, data, ivs=raw, sector=given.sector,
                aad=aad, aad_offsets=on_host(given.aad_offsets),
                out=target, tags=given_tags,
                tag_len=given.tag_len, offsets=offsets, sizes=sizes, out_offsets=out_offsets,
            )  # fmt: skip
        except InvalidTag as error:
            failed = error.failed
            made_tags = made_ivs = None
        out = lib.from_host(target) if out is None else out
        tags = lib.from_host(made_tags) if tags is None else tags
        if nonces_out is not None:
            flat(of_host(nonces_out))[:] = flat(made_ivs)
            ivs = nonces_out
        elif ivs is None:
            ivs = None if made_ivs is None else lib.from_host(made_ivs)
        status = None
        if authenticated and not encrypts:
            status = HostStatus(lib, failed, layout.count, statuses)
            if refused is not None:
                count = flat(of_host(refused)).cast("I")
                count[0] += len(failed)
        return out, tags, ivs, made_offsets, status


def _writable(array: Any, what: str) -> memoryview:
    view = memoryview(of_host(array))
    if view.readonly or library(array).immutable:
        raise BatchError(f"{what} ({type(array).__name__}) cannot be written")
    if not view.c_contiguous:
        raise BatchError(f"{what} is not contiguous: make a copy that is")
    return view


_SAME_STREAM = contextlib.nullcontext()


def _unpack(src: Any, tags: Any, nonces: Any, offsets: Any) -> tuple[Any, Any, Any, Any]:
    """The parts of what `seal` made."""
    if not isinstance(src, Sealed):
        return src, tags, nonces, offsets
    return (
        src.data,
        src.tags if tags is None else tags,
        src.nonces if nonces is None else nonces,
        src.offsets if offsets is None else offsets,
    )
