"""Keys are not replaced by what they encrypt or open."""

from __future__ import annotations

import os
from typing import Any


def refuse_key_files(out: Any, *keys: Any) -> None:
    """Refuses an output path that is a file of keys or recipients which the same call reads."""
    if not isinstance(out, (str, os.PathLike)):
        return
    for given in keys:
        for each in given if isinstance(given, (list, tuple, set, frozenset)) else (given,):
            if isinstance(each, (str, os.PathLike)) and _is_same(out, each):
                raise ValueError(
                    f"{os.fspath(out)!r} is read as well, for its keys: name another output"
                )


def _is_same(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):  # one of them does not exist, or is a recipient
        return False
