"""Arrays in host memory."""

from __future__ import annotations

import math
import sys
from typing import Any

from warplock._arrays.common import View
from warplock._layout import buffer, is_numpy


class Host:
    """NumPy's arrays, and everything with the buffer protocol."""

    immutable = False

    def view(self, array: Any, stream: int | None = None) -> View:
        return 0, 0, -1, (), None, False

    def host(self, array: Any) -> Any:
        view = buffer(array, "the array")
        if view.ndim < 3 or not is_numpy(array) or not view.c_contiguous:
            return array
        count, *row = array.shape
        return array.reshape(-1).view("u1").reshape(count, math.prod(row) * view.itemsize)

    def from_host(self, made: Any) -> Any:
        return made

    def host_words(self, failed: list[int], total: int) -> Any:
        numpy = sys.modules.get("numpy")
        if numpy is None:
            import array

            words: Any = array.array("I", bytes(4 * total))
            for place in failed:
                words[place] = 1
            return words
        words = numpy.zeros(total, "u4")
        words[failed] = 1
        return words
