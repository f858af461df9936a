"""Encrypted Parquet files, written by pyarrow and by the reference implementation in Java."""

from __future__ import annotations

import base64
import io
import itertools
import json
import pathlib
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pe = pytest.importorskip("pyarrow.parquet.encryption")

import warplock  # noqa: E402
from warplock import _native, parquet  # noqa: E402

GPUS = _native.gpus()
ALGORITHMS = ["AES_GCM_V1", "AES_GCM_CTR_V1"]
KEYS = [bytes(range(length)) for length in (16, 24, 32)]


def table(rows: int = 500) -> pa.Table:
    """Numbers, texts that repeat, nulls, and nested columns."""
    number = range(rows)
    return pa.table(
        {
            "id": pa.array(number, pa.int64()),
            "x": pa.array([i * 1.5 if i % 3 else None for i in number], pa.float64()),
            "name": pa.array([f"name {i % 10}" for i in number]),
            "text": pa.array([f"{i * 7919} in words" for i in number]),
            "list": pa.array([[i, None] if i % 5 else None for i in number], pa.list_(pa.int32())),
            "struct": pa.array([{"a": i, "b": {"c": str(i)}} for i in number]),
            "nothing": pa.array([None] * rows, pa.int32()),
            "flag": pa.array([i % 2 == 0 for i in number]),
        }
    )


def written(content: pa.Table, properties: Any, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(content, sink, encryption_properties=properties, **options)
    return sink.getvalue()


def uniform(key: bytes = KEYS[0], algorithm: str = ALGORITHMS[0], **options: Any) -> Any:
    return pe.create_encryption_properties(key, encryption_algorithm=algorithm, **options)


def skip_what_pyarrow_cannot_read(algorithm: str, plaintext_footer: bool) -> None:
    """Before 26 it named the other algorithm in such footers, and cannot read those files either."""
    if algorithm == ALGORITHMS[1] and plaintext_footer and int(pa.__version__.split(".")[0]) < 26:
        pytest.skip("pyarrow before 26 writes another algorithm than it uses")


def same(plain: bytes, content: pa.Table) -> pq.ParquetFile:
    """Checks a plain file, also row group by row group and by its statistics."""
    file = pq.ParquetFile(pa.BufferReader(plain))
    assert file.read().equals(content)
    metadata = file.metadata
    assert metadata.num_rows == content.num_rows
    start = 4
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for index in range(metadata.num_columns):
            column = group.column(index)
            first = column.dictionary_page_offset or column.data_page_offset
            # Without rows there may be no pages.
            assert first == start or column.total_compressed_size == 0
            start += column.total_compressed_size
        # Indexes and bloom filters come between row groups.
        if number + 1 < metadata.num_row_groups:
            next_column = metadata.row_group(number + 1).column(0)
            start = next_column.dictionary_page_offset or next_column.data_page_offset
        assert group.total_byte_size == sum(
            group.column(index).total_uncompressed_size for index in range(metadata.num_columns)
        )
    return file


FORMS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "no dictionary": {"use_dictionary": False},
    "pages V2": {"data_page_version": "2.0"},
    "many pages": {"data_page_size": 256, "write_batch_size": 16, "use_dictionary": False},
    "many pages V2": {
        "data_page_size": 256,
        "write_batch_size": 16,
        "data_page_version": "2.0",
        "write_page_index": True,
    },
    "page index": {"write_page_index": True, "data_page_size": 512, "write_batch_size": 32},
    "row groups": {"row_group_size": 37, "write_page_index": True},
    "uncompressed": {"compression": "none"},
    "zstd": {"compression": "zstd"},
    "gzip": {"compression": "gzip", "data_page_version": "2.0"},
    "checksums": {"write_page_checksum": True},
    "no statistics": {"write_statistics": False},
}


@pytest.mark.parametrize("plaintext_footer", [False, True], ids=["encrypted", "plaintext"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("form", FORMS)
def test_what_pyarrow_encrypts_comes_back(
    form: str, algorithm: str, plaintext_footer: bool
) -> None:
    skip_what_pyarrow_cannot_read(algorithm, plaintext_footer)
    for rows, key in itertools.product([0, 1, 500], KEYS):
        content = table(rows)
        properties = uniform(key, algorithm, plaintext_footer=plaintext_footer)
        sealed = written(content, properties, **FORMS[form])
        plain = parquet.decrypt(sealed, key)
        same(plain, content)
        assert parquet.open(sealed, key).read() == plain
        if GPUS:
            assert parquet.decrypt(sealed, key, device=0).tobytes() == plain
        # Byte for byte as if it had never been encrypted, but for offsets and sizes.
        assert abs(len(plain) - len(written(content, None, **FORMS[form]))) < 0.05 * len(plain) + 99


def test_a_page_index_points_to_the_pages() -> None:
    """Read without the index and with it: by ranges of pages."""
    content = table(2000)
    options = {"write_page_index": True, "data_page_size": 512, "write_batch_size": 32}
    plain = parquet.decrypt(written(content, uniform(), **options), KEYS[0])
    file = same(plain, content)
    column = file.metadata.row_group(0).column(0)
    assert column.has_offset_index and column.has_column_index
    dataset = pytest.importorskip("pyarrow.dataset")
    fragment = dataset.ParquetFileFormat().make_fragment(pa.BufferReader(plain))
    wanted = dataset.field("id") == 1234
    assert fragment.to_table(filter=wanted).num_rows == 1


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


def test_the_prefix_must_be_the_one_of_the_file() -> None:
    content = table(20)
    stored = written(content, uniform(aad_prefix=b"table 1"))
    same(parquet.decrypt(stored, KEYS[0]), content)
    same(parquet.decrypt(stored, KEYS[0], aad_prefix=b"table 1"), content)
    apart = written(content, uniform(aad_prefix=b"table 1", store_aad_prefix=False))
    same(parquet.decrypt(apart, KEYS[0], aad_prefix=b"table 1"), content)
    without = written(content, uniform())
    for file, prefix, reason in [
        (stored, b"table 2", "another AAD prefix"),
        (apart, None, "not stored in it: give it"),
        (apart, b"table 2", "the footer does not verify"),
        (without, b"table 1", "without an AAD prefix"),
    ]:
        with pytest.raises(warplock.WrongKeyError, match=reason):
            parquet.decrypt(file, KEYS[0], aad_prefix=prefix)


REFERENCE = [
    "encrypt_columns_and_footer",
    "encrypt_columns_and_footer_aad",
    "encrypt_columns_and_footer_bloom_filter",
    "encrypt_columns_and_footer_ctr",
    "encrypt_columns_and_footer_disable_aad_storage",
    "encrypt_columns_plaintext_footer",
    "uniform_encryption",
    "aes256/encrypt_columns_and_footer",
    "aes256/encrypt_columns_and_footer_ctr",
    "aes256/encrypt_columns_and_footer_disable_aad_storage",
    "aes256/encrypt_columns_plaintext_footer",
    "aes256/uniform_encryption",
]


def reference_key(number: int, length: int) -> bytes:
    """The footer's (0) or a column's key, as their README has them: in ASCII."""
    digits = itertools.islice(itertools.cycle("0123456789"), number > 0, None)
    key = "".join(itertools.islice(digits, length))
    last = number + length // 16 * 2 - 3
    return (key[:-1] + str(last) if number else key).encode()


@pytest.mark.parametrize("name", REFERENCE)
def test_files_of_other_writers_are_read(name: str, vectors: pathlib.Path) -> None:
    length = 32 if name.startswith("aes256") else 16

    def lookup(metadata: bytes | None, column: str | None) -> bytes:
        assert metadata is not None
        assert metadata.startswith(b"kf" if column is None else b"kc"), metadata
        return reference_key(int(metadata[2:] or 0), length)

    prefix = b"tester" if name.endswith("storage") else None
    path = vectors / "parquet" / f"{name}.parquet"
    plain = parquet.decrypt(path, lookup, aad_prefix=prefix)
    file = pq.ParquetFile(pa.BufferReader(plain))
    found = file.read()
    number = range(found.num_rows)
    assert len(number) >= 50
    if not name.endswith("bloom_filter"):
        assert found["boolean_field"].to_pylist() == [i % 2 == 0 for i in number]
        assert found["float_field"].to_pylist() == pytest.approx([i * 1.1 for i in number])
        assert found["double_field"].to_pylist() == pytest.approx([i * 1.1111111 for i in number])
    else:
        assert found["int32_field"].to_pylist() == list(number)
        assert found["double_field"].to_pylist() == [i + 0.5 for i in number]
        filters = 0
        for index in range(file.metadata.num_columns):
            column = file.metadata.row_group(0).column(index)
            if column.bloom_filter_offset is None:
                continue
            start, length = column.bloom_filter_offset, column.bloom_filter_length
            # A number, zigzag: then the algorithm, the hash and "uncompressed", empty structures.
            header = plain[start : start + length].split(b"\x1c\x1c\0\0" * 3 + b"\0", 1)[0]
            assert header[0] == 0x15, header[:20]
            size = sum((byte & 0x7F) << 7 * i for i, byte in enumerate(header[1:])) >> 1
            assert size + len(header) + 13 == length
            filters += 1
        assert filters == 2


def test_where_it_comes_from_and_goes_to(tmp_path: pathlib.Path) -> None:
    content = table(50)
    sealed = written(content, uniform())
    path, out = tmp_path / "sealed", tmp_path / "plain"
    path.write_bytes(sealed)
    wanted = parquet.decrypt(sealed, KEYS[0])
    for source in [bytearray(sealed), memoryview(sealed), str(path), path, io.BytesIO(sealed)]:
        assert parquet.decrypt(source, KEYS[0]) == wanted
    assert parquet.open(path, bytearray(KEYS[0])).read() == wanted
    assert pq.read_table(parquet.open(path, KEYS[0])).equals(content)
    assert parquet.decrypt(path, KEYS[0], out=out) == len(wanted)
    assert out.read_bytes() == wanted
    with pytest.raises(FileExistsError, match="replace=True"):
        parquet.decrypt(path, KEYS[0], out=out)
    out.unlink()
    path.write_bytes(sealed[:100] + bytes([sealed[100] ^ 1]) + sealed[101:])
    with pytest.raises(warplock.CorruptedError):
        parquet.decrypt(path, KEYS[0], out=out)
    assert not out.exists()
    sink = io.BytesIO()
    assert parquet.decrypt(sealed, KEYS[0], out=sink) == len(wanted)
    assert sink.getvalue() == wanted


def test_an_open_file_is_decrypted_as_it_is_read(tmp_path: pathlib.Path) -> None:
    content = table(3000)
    options = {"row_group_size": 1000, "data_page_size": 2000, "use_dictionary": False}
    sealed = written(content, uniform(), compression="none", **options)
    plain = parquet.decrypt(sealed, KEYS[0])
    path = tmp_path / "sealed"
    path.write_bytes(sealed)
    with parquet.open(path, KEYS[0]) as file:
        assert file.readable() and file.seekable() and not file.writable()
        assert file.seek(0, io.SEEK_END) == file.tell() == len(plain)
        assert file.read() == file.read(5) == b""
        for at, size in [(0, 4), (3, 2500), (len(plain) - 9, 100), (10_000, 1), (0, -1)]:
            assert file.seek(at) == at
            end = len(plain) if size < 0 else at + size
            assert file.read(size) == plain[at:end]
        file.seek(-8, io.SEEK_END)
        room = bytearray(100)
        assert file.readinto(room) == 8 and room[:8] == plain[-8:]
        assert file.seek(-1, io.SEEK_CUR) == len(plain) - 1
        with pytest.raises(ValueError, match="before the beginning"):
            file.seek(-1)
        assert file.seek(len(plain) + 5) and file.read() == b""
    for act in (file.read, file.tell, lambda: file.seek(0)):
        with pytest.raises(ValueError, match="closed"):
            act()
    for source in [sealed, bytearray(sealed), io.BytesIO(sealed), str(path)]:
        assert parquet.open(source, KEYS[0]).read() == plain
    with pytest.raises(warplock.WrongKeyError):
        parquet.open(path, bytes(16))
    path.write_bytes(b"")
    with pytest.raises(warplock.FormatError):
        parquet.open(path, KEYS[0])


def test_a_read_of_one_column_takes_its_pages_alone() -> None:
    # Readers of a footer read its last 64 KiB, and read small gaps as well.
    content = table(30_000)
    sealed = bytearray(written(content, uniform(), compression="none", use_dictionary=False))
    file = pq.ParquetFile(parquet.open(sealed, KEYS[0]))
    group = file.metadata.row_group(0)
    names = [group.column(index).path_in_schema for index in range(group.num_columns)]
    wrong = names.index("text")
    before = sum(group.column(index).total_compressed_size for index in range(wrong))
    sealed[4 + before + 100_000] ^= 1
    assert pq.read_table(parquet.open(sealed, KEYS[0]), columns=["x", "list"]).equals(
        content.select(["x", "list"])
    )
    with pytest.raises(warplock.CorruptedError, match="data page 0 of column 'text'"):
        pq.read_table(parquet.open(sealed, KEYS[0]), columns=["text"])
    with pytest.raises(warplock.CorruptedError, match="data page 0 of column 'text'"):
        parquet.open(sealed, KEYS[0]).read()
    # A page's header is verified at the opening.
    with pytest.raises(warplock.CorruptedError):
        parquet.open(bytes(sealed[:20]) + bytes(8) + bytes(sealed[28:]), KEYS[0])


def test_gpus_take_every_source_and_say_what_is_wrong(tmp_path: pathlib.Path) -> None:
    sealed = written(table(50), uniform())
    path = tmp_path / "sealed"
    path.write_bytes(sealed)
    with pytest.raises(ValueError, match="two places"):
        parquet.decrypt(sealed, KEYS[0], out=tmp_path / "x", device=0)  # type: ignore[call-overload]
    if not GPUS:
        with pytest.raises(warplock.NoBackendError):
            parquet.decrypt(sealed, KEYS[0], device=0)
        pytest.skip("no GPU")
    wanted = parquet.decrypt(sealed, KEYS[0])
    for source in [bytearray(sealed), memoryview(sealed), str(path), path, io.BytesIO(sealed)]:
        image = parquet.decrypt(source, KEYS[0], device=0)
        assert len(image) == image.nbytes == len(wanted)
        assert image.tobytes() == wanted
        assert image.__cuda_array_interface__["data"] == (image.ptr, False)
    with pytest.raises(warplock.WrongKeyError):
        parquet.decrypt(sealed, bytes(16), device=0)
    refused = 0
    for at in range(10, len(sealed), len(sealed) // 50):
        changed = bytearray(sealed)
        changed[at] ^= 1
        errors = []
        for where in ({}, {"device": 0}):
            with pytest.raises(warplock.DecryptionError) as raised:
                parquet.decrypt(changed, KEYS[0], **where)
            errors.append((type(raised.value), str(raised.value)))
        refused += "does not verify" in errors[0][1]
        assert errors[0] == errors[1]
    assert refused > 20
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(warplock.FormatError):
        parquet.decrypt(tmp_path / "empty", KEYS[0], device=0)


def test_other_files_and_keys_are_refused() -> None:
    content = table(20)
    sealed = written(content, uniform())
    with pytest.raises(warplock.FormatError, match="not encrypted"):
        parquet.decrypt(written(content, None), KEYS[0])
    for other in [b"", b"PARE", bytes(100), sealed[:-1], sealed[1:]]:
        with pytest.raises(warplock.FormatError, match="no Parquet file"):
            parquet.decrypt(other, KEYS[0])
    with pytest.raises(ValueError, match="the footer has 15 bytes"):
        parquet.decrypt(sealed, bytes(15))
    with pytest.raises(warplock.WrongKeyError, match="footer key or the AAD prefix"):
        parquet.decrypt(sealed, bytes(16))
    with pytest.raises(TypeError, match="a key"):
        parquet.decrypt(sealed, "a passphrase")  # type: ignore[call-overload]

    class Unreachable(Exception):
        pass

    def fails(metadata: bytes | None, column: str | None) -> bytes:
        raise Unreachable

    with pytest.raises(Unreachable):
        parquet.decrypt(sealed, fails)


def modules(sealed: bytes, end: int) -> list[tuple[int, int]]:
    """All modules before the footer, which follow each other."""
    found, at = [], 4
    while at < end:
        length = int.from_bytes(sealed[at : at + 4], "little") + 4
        found.append((at, at + length))
        at += length
    assert at == end
    return found


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_change_is_noticed_and_named(algorithm: str) -> None:
    content = table(60).select(["id", "name", "x"])
    options = {
        "row_group_size": 30,
        "write_page_index": True,
        "data_page_size": 64,
        "write_batch_size": 8,
        "compression": "none",
    }
    sealed = written(content, uniform(algorithm=algorithm), **options)
    wanted = parquet.decrypt(sealed, KEYS[0])
    footer = len(sealed) - 8 - int.from_bytes(sealed[-8:-4], "little")
    places = modules(sealed, footer)
    refused = (warplock.CorruptedError, warplock.WrongKeyError, warplock.FormatError)
    reasons: set[str] = set()
    silent = 0

    def refuse(changed: bytes, *, may_pass: bool = False) -> None:
        nonlocal silent
        try:
            plain = parquet.decrypt(changed, KEYS[0])
        except refused as error:
            reasons.add(str(error))
            return
        # Only pages of CTR; two of equal content may be swapped for nothing.
        assert may_pass and algorithm == "AES_GCM_CTR_V1" and len(plain) == len(wanted)
        silent += 1

    for start, stop in [*places, (footer, len(sealed))]:
        for at in {start, start + 4, (start + stop) // 2, stop - 1}:
            changed = bytearray(sealed)
            changed[at] ^= 1
            refuse(bytes(changed), may_pass=at >= start + 4)
        # Cut, as if the file had been written so.
        refuse(sealed[: stop - 1] + sealed[stop:])
    lengths: dict[int, list[tuple[int, int]]] = {}
    for start, stop in places:
        lengths.setdefault(stop - start, []).append((start, stop))
    swaps = 0
    for same_length in lengths.values():
        for (a, b), (c, d) in itertools.combinations(same_length[:12], 2):
            changed = sealed[:a] + sealed[c:d] + sealed[b:c] + sealed[a:b] + sealed[d:]
            refuse(changed, may_pass=True)
            swaps += 1
    assert swaps > 50
    said = "\n".join(reasons)
    names = ["the header of data page 1 of column 'id' in row group 1"]
    names += ["the header of the dictionary page of column 'name' in row group 0"]
    names += ["the column index of column 'x'", "the offset index of column 'id'", "the footer"]
    if algorithm == "AES_GCM_V1":
        names += ["data page 0 of column 'x' in row group 0 does not verify"]
        names += ["the dictionary page of column 'name' in row group 1 does not verify"]
        assert silent == 0
    for name in names:
        assert name in said, said


def test_a_module_of_another_file_is_refused() -> None:
    content = table(30).select(["id"])
    options = {"use_dictionary": False, "compression": "none"}
    one, other = (written(content, uniform(), **options) for _ in range(2))
    footer = len(one) - 8 - int.from_bytes(one[-8:-4], "little")
    for start, stop in modules(one, footer):
        with pytest.raises(warplock.CorruptedError, match="does not verify"):
            parquet.decrypt(one[:start] + other[start:stop] + one[stop:], KEYS[0])


def test_a_plaintext_footer_is_verified() -> None:
    sealed = written(table(20), uniform(plaintext_footer=True))
    start = len(sealed) - 8 - int.from_bytes(sealed[-8:-4], "little")
    refused = (warplock.CorruptedError, warplock.WrongKeyError, warplock.FormatError)
    for at in range(start, len(sealed), 7):
        changed = bytearray(sealed)
        changed[at] ^= 4
        with pytest.raises(refused):
            parquet.decrypt(bytes(changed), KEYS[0])


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
    for metadata in [None, b"", b"\xff", b"{", b"[]", b"7", b'"text"']:
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
