"""pyca's own AES-GCM tests against warplock.compat.pyca.

They are not in this repository. Name a folder with cryptography's source of the installed version
(its sdist, unpacked) in WARPLOCK_PYCA_SOURCE; its vectors come from the package
cryptography_vectors.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest


def test_pyca_tests_pass(tmp_path):
    source = os.environ.get("WARPLOCK_PYCA_SOURCE")
    if not source:
        pytest.skip("WARPLOCK_PYCA_SOURCE names no source of cryptography")
    pytest.importorskip("cryptography_vectors")
    wrapper = tmp_path / "conftest.py"
    os.symlink(pathlib.Path(source).resolve() / "tests", tmp_path / "tests")
    wrapper.write_text(
        "import cryptography.hazmat.primitives.ciphers.aead as aead\n"
        "from warplock.compat.pyca import AESGCM\n"
        "aead.AESGCM = AESGCM\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull]
    command += ["--rootdir", str(tmp_path), "tests/hazmat/primitives/test_aead.py"]
    done = subprocess.run(
        [*command, "-k", "TestAESGCM and not SIV"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout and "failed" not in done.stdout, done.stdout
