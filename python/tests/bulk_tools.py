"""What the tests of many objects have in common: a server, its buckets, trees of objects."""

from __future__ import annotations

import io
import os
import pathlib
import random
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from s3_server import FaultyServer

import warplock
from warplock.keys import Identity, write_identity

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 1 << 20


@pytest.fixture(scope="module")
def server() -> Iterator[FaultyServer]:
    made = FaultyServer()
    old = dict(os.environ)
    os.environ.update(
        AWS_ACCESS_KEY_ID="name",
        AWS_SECRET_ACCESS_KEY="secret",
        AWS_ENDPOINT_URL=made.url,
        AWS_ALLOW_HTTP="true",
        AWS_REGION="us-east-1",
        AWS_DEFAULT_REGION="us-east-1",
    )
    yield made
    os.environ.clear()
    os.environ.update(old)
    made.close()


@pytest.fixture
def client(server: FaultyServer) -> Any:
    server.rate = 0
    return pytest.importorskip("boto3").client("s3", endpoint_url=server.url)


@pytest.fixture
def bucket(client: Any) -> str:
    name = f"bucket-{uuid.uuid4().hex[:12]}"
    client.create_bucket(Bucket=name)
    return name


@pytest.fixture
def key_file(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "key.txt"
    write_identity(path)
    return path


def tree(seed: int, sizes: list[int]) -> dict[str, bytes]:
    choice = random.Random(seed)
    return {f"d{k % 3}/name {k} é.bin": choice.randbytes(size) for k, size in enumerate(sizes)}


def upload(client: Any, bucket: str, prefix: str, objects: dict[str, bytes]) -> None:
    for path, data in objects.items():
        client.put_object(Bucket=bucket, Key=f"{prefix}/{path}", Body=data)


def download(client: Any, bucket: str, prefix: str) -> dict[str, bytes]:
    result = {}
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=f"{prefix}/")
    for page in pages:
        for each in page.get("Contents", []):
            body = client.get_object(Bucket=bucket, Key=each["Key"])["Body"].read()
            result[each["Key"].removeprefix(f"{prefix}/")] = body
    return result


def opened(objects: dict[str, bytes], me: Any) -> dict[str, bytes]:
    return {
        path.removesuffix(".wl"): warplock.open(io.BytesIO(data), identities=me).read()
        for path, data in objects.items()
    }


def identity(key_file: pathlib.Path) -> Identity:
    lines = [line for line in key_file.read_text().splitlines() if line.startswith("AGE-")]
    return Identity.from_str(lines[0])


def folder(path: pathlib.Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()
    }
