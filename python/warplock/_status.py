"""The verdicts on messages that were opened."""

from __future__ import annotations

from typing import Any

from warplock._arrays import handle, library
from warplock._errors import InvalidTag
from warplock._layout import flat


class Status:
    """The verdicts on the messages of one call that opens."""

    def __init__(self, lib: Any, words: Any, device: int, stream: int, total: int) -> None:
        self._lib = lib
        self._words = words
        self._device = device
        self._stream = stream
        self._total = total

    @property
    def array(self) -> Any:
        """An integer of 32 bits for each message, in GPU memory: 0 if it verified, 1 if it was
        refused and is zeros. It is valid in the stream's order."""
        if not self._lib.immutable:
            return self._words
        with self._lib.on(self._stream, self._device):
            return self._lib.result(self._words)

    @property
    def any_failed(self) -> Any:
        """Whether any was refused, in GPU memory; computed on the current stream."""
        return self._lib.any(self._words)

    def failed(self, stream: Any = None) -> list[int]:
        """The messages that were refused, ascending. Waits for the call's work."""
        at = self._stream if stream is None else handle(stream)
        found: list[int] = self._lib.failed(self._words, at, self._device)
        return found

    def check(self, stream: Any = None) -> None:
        """Waits for the call's work, and raises `InvalidTag` if a message was refused."""
        failed = self.failed(stream)
        if failed:
            raise refusal(failed, self._total)

    def __repr__(self) -> str:
        return f"<warplock.cuda.Status of {self._total} messages>"


class HostStatus(Status):
    """The same after a call in host memory, which has ended."""

    def __init__(self, lib: Any, failed: list[int], total: int, words: Any) -> None:
        """`words`: where to write them, or None."""
        if words is None:
            words = lib.host_words(failed, total)
        else:
            place = flat(library(words).host(words)).cast("I")
            place[:total] = memoryview(bytes(4 * total)).cast("I")
            for message in failed:
                place[message] = 1
        super().__init__(lib, words, -1, 0, total)
        self._failed = failed

    @property
    def array(self) -> Any:
        return self._words

    @property
    def any_failed(self) -> Any:
        return bool(self._failed)

    def failed(self, stream: Any = None) -> list[int]:
        return list(self._failed)


class PlanStatus(Status):
    """The verdicts of a plan's last launch."""

    def __init__(self, lib: Any, plan: Any, words: Any, device: int, total: int) -> None:
        super().__init__(lib, words, device, 0, total)
        self._plan = plan

    def failed(self, stream: Any = None) -> list[int]:
        at = self._plan._last if stream is None else handle(stream)
        found: list[int] = self._plan._native.failed(at)
        return found


def refusal(failed: list[int], total: int) -> InvalidTag:
    """The exception for messages that did not verify."""
    what = f"message {failed[0]}" if len(failed) == 1 else f"{len(failed)} messages"
    return InvalidTag(f"authentication failed: {what} of {total}", failed, total)


class Interface:
    """Words that lie `stride` bytes apart in a plan's memory."""

    def __init__(self, plan: Any, address: int, stride: int, count: int) -> None:
        self._plan = plan
        self.__cuda_array_interface__ = {
            "shape": (count,),
            "strides": (stride,),
            "typestr": "<i4",
            "data": (address, False),
            "version": 3,
            "stream": None,
        }
