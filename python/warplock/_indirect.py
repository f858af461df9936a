"""Batches whose offsets and sizes lie in GPU memory: the host never learns them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from warplock._arrays import library
from warplock._errors import BatchError
from warplock._gpu import Call, OnDevice, place
from warplock._layout import is_appended

if TYPE_CHECKING:
    from warplock.cuda import Key


def are_on_gpu(values: Any) -> bool:
    """Whether offsets lie in GPU memory."""
    if values is None or isinstance(values, (list, tuple)):
        return False
    return bool(library(values).view(values)[2] >= 0)


def prepare_indirect(
    key: Key,
    on: OnDevice,
    lib: Any,
    src: Any,
    view: Any,
    stream: int,
    encrypts: bool,
    authenticated: bool,
    nonces: Any,
    nonces_out: Any,
    sector: int | None,
    aad: Any,
    aad_offsets: Any,
    out: Any,
    tags: Any,
    tag_len: int,
    offsets: Any,
    sizes: Any,
    out_offsets: Any,
) -> Call:
    """As `prepare`, where the offsets are in GPU memory."""
    address, nbytes, device, _, _ = view
    for what, given in (("sizes", sizes), ("out_offsets", out_offsets)):
        if given is not None and not are_on_gpu(given):
            raise BatchError(f"{what} must be in GPU memory, as the offsets are")
    if lib.immutable or not hasattr(lib, "plus"):
        raise BatchError("offsets in GPU memory are for arrays of PyTorch and CuPy")
    if not hasattr(nonces, "shape") or nonces_out is not None or sector is not None:
        raise BatchError("with offsets in GPU memory, give an array of nonces")
    if aad_offsets is not None or tag_len != 16:
        raise BatchError("with offsets in GPU memory, aad has rows, and tags have 16 bytes")
    for what, given in (("offsets", offsets), ("sizes", sizes), ("out_offsets", out_offsets)):
        if given is not None and (len(given.shape) != 1 or "int" not in str(given.dtype)):
            raise BatchError(f"{what} must be an array of integers in one dimension")
    if sizes is None:
        if not len(offsets):
            raise BatchError(
                "offsets without sizes are one more than there are messages, at least 1"
            )
        offsets, sizes = offsets[:-1], offsets[1:] - offsets[:-1]
    count = len(offsets)
    appended = is_appended(authenticated, tags)
    if appended and encrypts and out_offsets is None and out is not src:
        raise BatchError("with appended tags, messages change their length: give out_offsets")
    lens = lib.plus(sizes, -16 if appended and not encrypts else 0)
    inputs = lib.plus(offsets, address)
    keep = [lens, inputs]
    outputs_at = None
    out_is_new = out is None
    if out is not src:
        if out_is_new:
            out = lib.empty((nbytes,), device, stream)
        out_at = place(out, device, stream, "out", True)
        if out_at[0] != address or out_offsets is not None:
            outputs = lib.plus(offsets if out_offsets is None else out_offsets, out_at[0])
            keep.append(outputs)
            outputs_at = lib.at(outputs)
    elif out_offsets is not None:
        raise BatchError("in place, each message stays where it is: leave out out_offsets")

    def rows(at: tuple[int, int], what: str, each: int | None) -> Any:
        """The address of each row."""
        width = at[1] // count if count else 0
        if each is not None and at[1] != each * count:
            raise BatchError(f"{what} has {at[1]} bytes, and {count} messages need {each * count}")
        made = lib.count_up(at[0], width, count, device)
        keep.append(made)
        return lib.at(made)

    nonces_at = rows(
        place(nonces, device, stream, "nonces", False, lib, keep), "the nonces", key._iv_len
    )
    tags_at = None
    tags_is_new = False
    if authenticated and not appended:
        if tags is None:
            if not encrypts:
                raise BatchError('give the tags, or tags="appended"')
            tags_is_new = True
            tags = lib.empty((count, 16), device, stream)
        tags_at = rows(place(tags, device, stream, "tags", encrypts, lib, keep), "the tags", 16)
    aad_at = None
    if aad is not None:
        at = place(aad, device, stream, "aad", False, lib, keep)
        each = len(getattr(aad, "shape", ())) > 1
        width = at[1] // count if each and count else at[1]
        starts = lib.count_up(at[0], width if each else 0, count, device)
        lengths = lib.count_up(width, 0, count, device)
        keep += [starts, lengths]
        aad_at = (lib.at(starts), lib.at(lengths))
    places = (
        encrypts, count, nbytes, lib.at(inputs), lib.at(lens), outputs_at, nonces_at, aad_at,
        tags_at,
    )  # fmt: skip
    shape = ("indirect", encrypts, count, nbytes, aad_at is None, tags_at is None)
    made_offsets = offsets if out_is_new else out_offsets
    return Call(
        places, shape, True, count, out, tags, nonces, made_offsets, keep,
        (out_is_new, tags_is_new, False), True,
    )  # fmt: skip
