"""What several tests need."""

from __future__ import annotations

import pathlib
import signal

import pytest

# A shell's background job ignores it, and so would the programs that tests start and stop.
signal.signal(signal.SIGINT, signal.default_int_handler)

TOP = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def vectors() -> pathlib.Path:
    """The repository's test vectors."""
    path = TOP / "tests" / "vectors"
    if not path.is_dir():
        pytest.skip("the repository's test vectors are not here")
    return path
