"""Batches that are prepared, for many launches and for graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from warplock._arrays import handle
from warplock._status import Interface, PlanStatus, Status

if TYPE_CHECKING:
    from warplock._gpu import Call
    from warplock.cuda import Key


class Plan:
    """A batch in GPU memory that is prepared, for many launches and for graphs.

    Its arrays are read and written again at each launch; a plan that seals takes new nonces and
    writes them to `nonces`. Launches go to one stream, or wait for each other. It must live until
    its last launch is done, that of a graph too; freeing it waits for the GPU, which must not
    happen while a stream captures.
    """

    def __init__(self, native: Any, lib: Any, device: int, call: Call, key: Key) -> None:
        self._native = native
        self._lib = lib
        self._device = device
        self._call = call
        self._key = key
        self._last = 0
        self.data = call.out
        """Where the results are."""
        self.tags = call.tags
        """The tags, or "appended"."""
        self.nonces = call.ivs
        """The nonces or IVs."""
        self.offsets = call.offsets
        """Where results lie, if they are ragged and `data` was made here."""
        self.status: Status | None = None
        """Which messages the last launch refused, for plans that open."""
        found = native.statuses
        if found is not None:
            address, stride, count = found
            words = lib.strided(Interface(native, address, stride, count), device)
            self.status = PlanStatus(lib, self, words, device, count)

    def launch(self, stream: Any = None) -> None:
        """Queues the batch on a stream, and nothing else; it may be capturing a graph."""
        at = self._lib.stream(self._device) if stream is None else handle(stream)
        self._last = at
        self._native.launch(at)

    def close(self) -> None:
        """Waits for the GPU and frees the plan's memory there."""
        self.status = None
        self._native = None

    def __repr__(self) -> str:
        return f"<warplock.cuda.Plan of {self._call.messages} messages>"
