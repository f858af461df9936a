"""Buffers of host memory that must not overlap."""

from __future__ import annotations

import ctypes
from typing import Any

from warplock._errors import BatchError


class _Buffer(ctypes.Structure):
    """Python's `Py_buffer`."""

    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_void_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    ]


def _span(data: Any) -> tuple[int, int]:
    """Where a buffer's bytes begin and end."""
    view = _Buffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(memoryview(data)), ctypes.byref(view), 0)
    try:
        begin = view.buf or 0
        return begin, begin + int(view.len)
    finally:
        ctypes.pythonapi.PyBuffer_Release(ctypes.byref(view))


def refuse_overlaps(written: list[tuple[str, Any]], others: list[tuple[str, Any]]) -> None:
    """Buffers that are written after the engine has looked at the others share no memory with
    these nor with each other."""
    seen = [(what, *_span(each)) for what, each in others if each is not None]
    for what, each in written:
        begin, end = _span(each)
        for other, from_, to in seen:
            if max(begin, from_) < min(end, to):
                raise BatchError(f"{what} overlaps {other}: give it memory of its own")
        seen.append((what, begin, end))
