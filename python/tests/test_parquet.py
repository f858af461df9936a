"""Encrypted Parquet files, written by pyarrow and by the reference implementation in Java."""

from __future__ import annotations

import io
import itertools
import pathlib
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

import warplock  # noqa: E402
from parquet_files import (  # noqa: E402
    ALGORITHMS,
    FORMS,
    GPUS,
    KEYS,
    same,
    skip_what_pyarrow_cannot_read,
    table,
    uniform,
    written,
)
from warplock import parquet  # noqa: E402


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
        with pytest.raises(ValueError, match="whence"):
            file.seek(0, 9)
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
