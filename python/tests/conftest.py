"""What several tests need."""

from __future__ import annotations

import pathlib

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def vectors() -> pathlib.Path:
    """The repository's test vectors."""
    path = TOP / "tests" / "vectors"
    if not path.is_dir():
        pytest.skip("the repository's test vectors are not here")
    return path
