"""The examples of the README and of the pages about Python, in order and in one namespace."""

from __future__ import annotations

import importlib.util
import re

import pytest

from conftest import TOP
from warplock import _native

PACKAGES = ("numpy", "pandas", "pyarrow", "fsspec", "cryptography")
# Before a block.
NEEDS = re.compile(r"<!-- needs (a GPU|\w+) -->\n$")


def lacks(need):
    if need in ("a GPU", "cupy", "jax", "torch") and not _native.gpus():
        return True
    return need != "a GPU" and importlib.util.find_spec(need) is None


@pytest.mark.parametrize(
    ("page", "packages"),
    [
        ("README.md", PACKAGES),
        ("docs/python.md", PACKAGES),
        ("docs/tensors.md", PACKAGES),
        ("docs/analyze.md", ("numpy",)),
        ("docs/parquet.md", ("pyarrow.parquet.encryption",)),
        ("docs/gpu-python.md", ("torch",)),
        ("docs/bulk.md", ("obstore",)),
        ("docs/clusters.md", ("obstore", "dask")),
    ],
)
def test_examples_run(page, packages, tmp_path, monkeypatch, capsys):
    path = TOP / page
    if not path.exists():
        pytest.skip(f"{page} is not here")
    for package in packages:
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    text = path.read_text()
    names: dict[str, object] = {"__name__": "example"}
    blocks = list(re.finditer(r"^```python\n(.*?)^```", text, re.M | re.S))
    assert blocks
    for block in blocks:
        need = NEEDS.search(text[: block.start()])
        if need and lacks(need[1]):
            continue
        line = text[: block.start(1)].count("\n")
        code = compile("\n" * line + block[1], str(path), "exec")
        exec(code, names)
