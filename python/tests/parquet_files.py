"""Tables, encrypted and plain, that the tests of Parquet share."""

from __future__ import annotations

import io
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pe = pytest.importorskip("pyarrow.parquet.encryption")

from warplock import _native  # noqa: E402

GPUS = _native.gpus()
ALGORITHMS = ["AES_GCM_V1", "AES_GCM_CTR_V1"]
KEYS = [bytes(range(length)) for length in (16, 24, 32)]
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
