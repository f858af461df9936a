"""Batches whose offsets and sizes lie in GPU memory: the host never learns them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from warplock._arrays import library
from warplock._errors import BatchError
from warplock._gpu import Arguments, Call, OnDevice, place

if TYPE_CHECKING:
    from warplock.cuda import Key


def are_on_gpu(values: Any) -> bool:
    """Whether offsets lie in GPU memory."""
    if values is None or isinstance(values, (list, tuple)):
        return False
    return bool(library(values).view(values)[2] >= 0)


def prepare_indirect(
    key: Key, on: OnDevice, lib: Any, given: Arguments, view: Any, stream: int
) -> Call:
    """As `prepare`, where the offsets are in GPU memory."""
    address, nbytes, device, *_ = view
    encrypts, authenticated, src, nonces = given[:4]
    out, tags, aad = given.out, given.tags, given.aad
    offsets, sizes, out_offsets = given.offsets, given.sizes, given.out_offsets
    for what, array in (("sizes", sizes), ("out_offsets", out_offsets)):
        if array is not None and not are_on_gpu(array):
            raise BatchError(f"{what} must be in GPU memory, as the offsets are")
    if lib.immutable or not hasattr(lib, "plus"):
        raise BatchError("offsets in GPU memory are for arrays of PyTorch and CuPy")
    if not hasattr(nonces, "shape") or given.nonces_out is not None or given.sector is not None:
        raise BatchError("with offsets in GPU memory, give an array of nonces")
    if given.aad_offsets is not None or given.tag_len != 16:
        raise BatchError("with offsets in GPU memory, aad has rows, and tags have 16 bytes")
    for what, array in (("offsets", offsets), ("sizes", sizes), ("out_offsets", out_offsets)):
        if array is not None and (len(array.shape) != 1 or "int" not in str(array.dtype)):
            raise BatchError(f"{what} must be an array of integers in one dimension")
    if sizes is None:
        if not len(offsets):
            raise BatchError(
                "offsets without sizes are one more than there are messages, at least 1"
            )
        offsets, sizes = offsets[:-1], offsets[1:] - offsets[:-1]
    count = len(offsets)
    appended = given.appends
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
    made_offsets = offsets if out_is_new else out_offsets
    is_new = (out_is_new, tags_is_new, False)
    return Call(places, count, out, tags, nonces, made_offsets, keep, is_new, True)
