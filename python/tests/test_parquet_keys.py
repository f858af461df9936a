"""Encrypted Parquet files: keys of columns, and key tools."""

from __future__ import annotations

import base64
import json
import pathlib
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pe = pytest.importorskip("pyarrow.parquet.encryption")

import warplock  # noqa: E402
from parquet_files import (  # noqa: E402
    ALGORITHMS,
    GPUS,
    KEYS,
    same,
    skip_what_pyarrow_cannot_read,
    table,
    written,
)
from warplock import parquet  # noqa: E402


class Kms(pe.KmsClient):
    """Wraps nothing: remembers."""

    def __init__(self, _configuration: Any) -> None:
        super().__init__()

    def wrap_key(self, key: bytes, master: str) -> bytes:
        return base64.b64encode(key + master.encode())

    def unwrap_key(self, wrapped: bytes, master: str) -> bytes:
        return base64.b64decode(wrapped)[: -len(master)]


def unwrapped(metadata: bytes | None, column: str | None) -> bytes:
    """The key of pyarrow's key tools without double wrapping."""
    assert metadata is not None
    material = json.loads(metadata)
    assert material["isFooterKey"] == (column is None)
    return Kms(None).unwrap_key(material["wrappedDEK"], material["masterKeyID"])


@pytest.mark.parametrize("plaintext_footer", [False, True], ids=["encrypted", "plaintext"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("bits", [128, 192, 256])
def test_columns_have_keys_of_their_own(
    bits: int, algorithm: str, plaintext_footer: bool
) -> None:
    skip_what_pyarrow_cannot_read(algorithm, plaintext_footer)
    configuration = pe.EncryptionConfiguration(
        footer_key="footer",
        column_keys={"first": ["id", "list.list.element"], "second": ["struct.b.c"]},
        encryption_algorithm=algorithm,
        plaintext_footer=plaintext_footer,
        double_wrapping=False,
        data_key_length_bits=bits,
    )
    properties = pe.CryptoFactory(Kms).file_encryption_properties(
        pe.KmsConnectionConfig(), configuration
    )
    content = table()
    options = {"write_page_index": True, "row_group_size": 200, "data_page_size": 512}
    sealed = written(content, properties, **options)
    asked: list[str | None] = []
    keys: dict[str | None, bytes] = {}

    def lookup(metadata: bytes | None, column: str | None) -> bytes:
        asked.append(column)
        keys[column] = unwrapped(metadata, column)
        return keys[column]

    same(parquet.decrypt(sealed, lookup), content)
    assert sorted(asked, key=str) == sorted(
        [None, "id", "list.list.element", "struct.b.c"], key=str
    )
    columns = {name: key for name, key in keys.items() if name is not None}
    plain = parquet.decrypt(sealed, keys[None], column_keys=columns)
    same(plain, content)
    if GPUS:
        on_gpu = parquet.decrypt(sealed, keys[None], column_keys=columns, device=0)
        assert on_gpu.tobytes() == plain
    with pytest.raises(warplock.WrongKeyError, match="no key for column 'id'"):
        parquet.decrypt(sealed, keys[None])
    with pytest.raises(warplock.WrongKeyError, match="no key for the footer"):
        parquet.decrypt(sealed, column_keys=columns)
    columns["struct.b.c"] = bytes(bits // 8)
    with pytest.raises(warplock.CorruptedError, match=r"'struct\.b\.c' in row group 0"):
        parquet.decrypt(sealed, keys[None], column_keys=columns)


@pytest.mark.parametrize("plaintext_footer", [False, True], ids=["encrypted", "plaintext"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_pyarrow_finds_the_keys_of_columns(algorithm: str, plaintext_footer: bool) -> None:
    content = table()
    keys = {None: KEYS[0], "id": KEYS[1][::-1], "list.list.element": KEYS[2][::-1]}

    def material(column: str | None) -> bytes:
        """As the key tools store it, without double wrapping."""
        found: dict[str, Any] = {
            "keyMaterialType": "PKMT1",
            "internalStorage": True,
            "isFooterKey": column is None,
            "doubleWrapping": False,
            "masterKeyID": "master",
            "wrappedDEK": Kms(None).wrap_key(keys[column], "master").decode(),
        }
        if column is None:
            found |= {"kmsInstanceID": "DEFAULT", "kmsInstanceURL": "DEFAULT"}
        return json.dumps(found).encode()

    columns = {name: key for name, key in keys.items() if name is not None}
    plain = written(content, None, write_page_index=True, row_group_size=200)
    sealed = parquet.encrypt(
        plain,
        KEYS[0],
        column_keys=columns,
        algorithm=algorithm,
        plaintext_footer=plaintext_footer,
        key_metadata=material(None),
        column_key_metadata={name: material(name) for name in columns},
    )
    properties = pe.CryptoFactory(Kms).file_decryption_properties(
        pe.KmsConnectionConfig(), pe.DecryptionConfiguration()
    )
    file = pq.ParquetFile(pa.BufferReader(sealed), decryption_properties=properties)
    assert file.read().equals(content)
    same(parquet.decrypt(sealed, unwrapped), content)
    # The statistics of a plaintext footer would tell of the content.
    largest = (499).to_bytes(8, "little")
    assert largest in plain[-4000:] and largest not in sealed


class CountingKms(Kms):
    """Wraps keys for two master keys, and counts what it is asked."""

    def __init__(self, configuration: Any = None) -> None:
        super().__init__(configuration)
        self.asked = 0

    def unwrap_key(self, wrapped: bytes, master: str) -> bytes:
        self.asked += 1
        assert base64.b64decode(wrapped).endswith(master.encode())
        return super().unwrap_key(wrapped, master)


@pytest.mark.parametrize("internal", [True, False], ids=["in the file", "next to it"])
@pytest.mark.parametrize("double", [False, True], ids=["single", "double"])
def test_key_tools_read_what_pyarrow_wraps(
    double: bool, internal: bool, tmp_path: pathlib.Path
) -> None:
    fs = pytest.importorskip("pyarrow.fs")
    content, path = table(), tmp_path / "sealed.parquet"
    configuration = pe.EncryptionConfiguration(
        footer_key="footer",
        column_keys={"first": ["id", "list.list.element"], "second": ["struct.b.c"]},
        double_wrapping=double,
        internal_key_material=internal,
        data_key_length_bits=256,
    )
    place = [] if internal else [str(path), fs.LocalFileSystem()]
    properties = pe.CryptoFactory(Kms).file_encryption_properties(
        pe.KmsConnectionConfig(), configuration, *place
    )
    path.write_bytes(written(content, properties))
    kms = CountingKms()
    if internal:
        material = None
    else:
        material = tmp_path / "_KEY_MATERIAL_FOR_sealed.parquet.json"
        with pytest.raises(warplock.WrongKeyError, match="give its path as material"):
            parquet.decrypt(path, parquet.KeyTools(kms))
    same(parquet.decrypt(path, parquet.KeyTools(kms, material=material)), content)
    # Of the two columns with the same master key, double wrapping asks once.
    assert kms.asked == (3 if double else 4)


@pytest.mark.parametrize("double", [False, True], ids=["single", "double"])
@pytest.mark.parametrize("bits", [128, 192, 256])
def test_pyarrow_reads_what_key_tools_wrap(bits: Any, double: bool) -> None:
    content = table()
    plain = written(content, None)
    tools = parquet.KeyTools(Kms(None))
    columns = {"first": ["id", "list.list.element"], "second": ["struct.b.c"]}
    made = [
        tools.new_keys("footer", columns, double_wrapping=double, bits=bits) for _ in range(2)
    ]
    keys = [key for new in made for key in (new["key"], *new["column_keys"].values())]
    assert len({bytes(key) for key in keys}) == 8
    assert {len(key) for key in keys} == {bits // 8}
    for new in made:
        sealed = parquet.encrypt(plain, **new)
        assert not any(key in sealed for key in keys)
        properties = pe.CryptoFactory(Kms).file_decryption_properties(
            pe.KmsConnectionConfig(), pe.DecryptionConfiguration()
        )
        file = pq.ParquetFile(pa.BufferReader(sealed), decryption_properties=properties)
        assert file.read().equals(content)
        kms = CountingKms()
        same(parquet.decrypt(sealed, parquet.KeyTools(kms)), content)
        assert kms.asked == (3 if double else 4)


def test_key_tools_say_what_is_wrong(tmp_path: pathlib.Path) -> None:
    plain = written(table(20), None)
    tools = parquet.KeyTools(Kms(None))
    new = tools.new_keys("footer", {"first": ["id"]})
    material = json.loads(new["key_metadata"])
    other = json.loads(tools.new_keys("other")["key_metadata"])

    def refused(why: str, metadata: bytes | None) -> None:
        sealed = parquet.encrypt(plain, **new | {"key_metadata": metadata})
        with pytest.raises(warplock.WrongKeyError, match=why):
            parquet.decrypt(sealed, tools)

    not_stored = "the key of the footer was not stored by key tools"
    for metadata in [None, b"", b"\xff", b"{", b"[]", b"7", b'"text"', b"[" * 100_000]:
        refused(not_stored, metadata)
    for name in material:
        if name.startswith(("is", "kms")):
            continue
        less = {key: value for key, value in material.items() if key != name}
        refused(not_stored, json.dumps(less).encode())
    for name, value, why in [
        ("wrappedDEK", "!", not_stored),
        ("wrappedDEK", "", "does not open"),
        ("wrappedDEK", other["wrappedDEK"], "does not open"),
        ("keyEncryptionKeyID", other["keyEncryptionKeyID"], "does not open"),
        ("wrappedKEK", other["wrappedKEK"], "does not open"),
        ("internalStorage", False, "give its path"),
    ]:
        refused(why, json.dumps(material | {name: value}).encode())
    path = tmp_path / "material"
    path.write_text("{}")
    sealed = parquet.encrypt(
        plain, KEYS[0], key_metadata=json.dumps(material | {"internalStorage": False}).encode()
    )
    with pytest.raises(warplock.WrongKeyError, match=not_stored):
        parquet.decrypt(sealed, parquet.KeyTools(Kms(None), material=path))

    class Broken(Kms):
        def unwrap_key(self, wrapped: bytes, master: str) -> bytes:
            raise KeyError(master)

    with pytest.raises(KeyError, match="footer"):
        parquet.decrypt(parquet.encrypt(plain, **new), parquet.KeyTools(Broken(None)))
