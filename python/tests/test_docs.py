"""The examples of the README, docs/python.md and docs/tensors.md, in order and in one namespace."""

from __future__ import annotations

import re

import pytest

from conftest import TOP


@pytest.mark.parametrize("page", ["README.md", "docs/python.md", "docs/tensors.md"])
def test_examples_run(page, tmp_path, monkeypatch, capsys):
    path = TOP / page
    if not path.exists():
        pytest.skip(f"{page} is not here")
    for package in ("numpy", "pandas", "pyarrow", "fsspec", "cryptography"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    text = path.read_text()
    names: dict[str, object] = {"__name__": "example"}
    blocks = list(re.finditer(r"^```python\n(.*?)^```", text, re.M | re.S))
    assert blocks
    for block in blocks:
        line = text[: block.start(1)].count("\n")
        code = compile("\n" * line + block[1], str(path), "exec")
        exec(code, names)
