"""Keys are not replaced by what they encrypt or open."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any


def as_list(given: Any) -> Any:
    """Several keys as a list, which can be looked at more than once; one key as it is."""
    if isinstance(given, (str, bytes, os.PathLike)) or not isinstance(given, Iterable):
        return given
    return list(given)


def refuse_key_files(out: Any, *keys: Any) -> None:
    """Refuses an output path that is a file of keys or recipients which the same call reads. Several
    keys are given `as_list`."""
    if not isinstance(out, (str, os.PathLike)):
        return
    for given in keys:
        several = isinstance(given, Iterable) and not isinstance(given, (str, os.PathLike, Iterator))
        for each in given if several else (given,):
            if isinstance(each, (str, os.PathLike)) and _is_same(out, each):
                raise ValueError(
                    f"{os.fspath(out)!r} is read as well, for its keys: name another output"
                )


def _is_same(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):  # one of them does not exist, or is a recipient
        return False
