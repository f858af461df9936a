"""Parquet files that Warplock encrypts, read by pyarrow."""

from __future__ import annotations

import itertools
import pathlib
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pe = pytest.importorskip("pyarrow.parquet.encryption")

import warplock  # noqa: E402
from parquet_files import ALGORITHMS, FORMS, KEYS, same, table, written  # noqa: E402
from warplock import parquet  # noqa: E402


PLAIN_FORMS = {
    **FORMS,
    "bloom filter": {"bloom_filter_options": {"id": {"ndv": 500, "fpp": 0.1}, "text": {}}},
}


@pytest.mark.parametrize("plaintext_footer", [False, True], ids=["encrypted", "plaintext"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("form", PLAIN_FORMS)
def test_pyarrow_reads_what_is_encrypted(form: str, algorithm: str, plaintext_footer: bool) -> None:
    for rows, key in itertools.product([0, 1, 500], KEYS):
        content = table(rows)
        plain = written(content, None, **PLAIN_FORMS[form])
        sealed = parquet.encrypt(
            plain, key, algorithm=algorithm, plaintext_footer=plaintext_footer, aad_prefix=b"x"
        )
        assert sealed[:4] == sealed[-4:] == (b"PAR1" if plaintext_footer else b"PARE")
        assert b"name 7" not in sealed
        properties = pe.create_decryption_properties(key, aad_prefix=b"x")
        file = pq.ParquetFile(pa.BufferReader(sealed), decryption_properties=properties)
        assert file.read().equals(content)
        same(parquet.decrypt(sealed, key, aad_prefix=b"x"), content)


def test_encryption_refuses_what_does_not_fit(tmp_path: pathlib.Path) -> None:
    plain = written(table(20), None)
    sealed = parquet.encrypt(plain, KEYS[0], aad_prefix=b"a", store_aad_prefix=False)
    with pytest.raises(warplock.WrongKeyError, match="give it"):
        parquet.decrypt(sealed, KEYS[0])
    assert parquet.encrypt(plain, KEYS[0]) != parquet.encrypt(plain, KEYS[0])
    for file, options, error, reason in [
        (sealed, {}, warplock.FormatError, "encrypted already"),
        (plain, {"column_keys": {"list": KEYS[0]}}, ValueError, "no column 'list'"),
        (plain, {"column_keys": {"id": b""}}, ValueError, "column 'id' has 0 bytes"),
        (plain, {"column_key_metadata": {"id": b""}}, ValueError, "but no key"),
        (plain, {"aad_prefix": bytes(5000)}, warplock.WrongKeyError, "4088 bytes"),
        (plain, {"algorithm": "AES"}, ValueError, "AES_GCM_V1"),
        (plain[:-1], {}, warplock.FormatError, "no Parquet file"),
    ]:
        with pytest.raises(error, match=reason):
            parquet.encrypt(file, KEYS[0], out=tmp_path / "out", **options)
        assert not (tmp_path / "out").exists()
    (tmp_path / "plain").write_bytes(plain)
    length = parquet.encrypt(tmp_path / "plain", KEYS[0], out=tmp_path / "out")
    assert (tmp_path / "out").stat().st_size == length
    same(parquet.decrypt(tmp_path / "out", KEYS[0]), table(20))
