"""S3: how its tools find it, and another envelope for an object, whose stream the service copies."""

from __future__ import annotations

import contextlib
import os
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import boto3
from botocore.exceptions import BotoCoreError, ClientError
from obstore.auth.boto3 import Boto3CredentialProvider

from warplock.bulk._places import Changed, exactly

if TYPE_CHECKING:
    from collections.abc import Mapping

    from warplock.bulk._places import Pinned, Store
    from warplock.bulk._unit import Unit

# The least of a part that is not the last, and the most of a part that is copied.
_LEAST = 5 << 20
_MOST = 1 << 30
# Below this, reading and writing the object costs less than the requests.
_SMALL = 16 << 20
# What the new object has of the old one, along with its metadata and tags.
_KEPT = (
    "BucketKeyEnabled",
    "CacheControl",
    "ContentDisposition",
    "ContentEncoding",
    "ContentLanguage",
    "ContentType",
    "ObjectLockLegalHoldStatus",
    "ObjectLockMode",
    "ObjectLockRetainUntilDate",
    "SSEKMSKeyId",
    "ServerSideEncryption",
    "StorageClass",
    "WebsiteRedirectLocation",
)


def replace_start(
    store: Store, unit: Unit, file: Pinned, old: int, new: bytes, marks: Mapping[str, str]
) -> None:
    """Replaces the first `old` bytes of an object by `new`, if it still is in the unit's version. Of a
    large object only those and 5 MiB go over the network."""
    s3: Any = store.store
    config = s3.config
    client = _client(store, config)
    prefix = f"{str(s3.prefix).strip('/')}/" if s3.prefix else ""
    target: Any = {"Bucket": config["bucket"], "Key": f"{prefix}{unit['path']}"}
    try:
        fields = _fields(client, target, marks)
        if unit["size"] < _SMALL:
            file.seek(0)
            body = new + exactly(file, unit["size"])[old:]
            client.put_object(**target, **fields, Body=body, IfMatch=unit["version"])
        else:
            _copy(client, target, fields, unit, file, old, new)
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] == 412:
            raise Changed("it is no longer in the planned version") from None
        raise


def _fields(client: Any, target: Any, marks: Mapping[str, str]) -> dict[str, Any]:
    head = client.head_object(**target)
    fields = {name: head[name] for name in _KEPT if name in head}
    fields["Metadata"] = {**head["Metadata"], "warplockrewrap": marks["warplockrewrap"]}
    try:
        tags = client.get_object_tagging(**target)["TagSet"]
    except ClientError as error:
        # Some servers have no tags.
        if error.response["Error"]["Code"] not in ("NotImplemented", "MethodNotAllowed"):
            raise
        tags = []
    if tags:
        fields["Tagging"] = urlencode({tag["Key"]: tag["Value"] for tag in tags})
    return fields


def _copy(
    client: Any, target: Any, fields: Any, unit: Unit, file: Pinned, old: int, new: bytes
) -> None:
    first = old + _LEAST
    file.seek(0)
    start = exactly(file, first)
    parts = []
    upload = client.create_multipart_upload(**target, **fields)["UploadId"]
    try:
        body = new + start[old:]
        made = client.upload_part(**target, UploadId=upload, PartNumber=1, Body=body)
        parts.append({"PartNumber": 1, "ETag": made["ETag"]})
        for begin, end in _ranges(first, unit["size"]):
            copied = client.upload_part_copy(
                **target,
                UploadId=upload,
                PartNumber=len(parts) + 1,
                CopySource=target,
                CopySourceRange=f"bytes={begin}-{end - 1}",
                CopySourceIfMatch=unit["version"],
            )
            result = copied["CopyPartResult"]
            parts.append({"PartNumber": len(parts) + 1, "ETag": result["ETag"]})
        client.complete_multipart_upload(
            **target,
            UploadId=upload,
            MultipartUpload={"Parts": parts},
            IfMatch=unit["version"],
        )
    except BaseException:
        with contextlib.suppress(ClientError):
            client.abort_multipart_upload(**target, UploadId=upload)
        raise


def options_like_boto3() -> dict[str, Any]:
    """What AWS's tools do and obstore does not: take an endpoint without TLS, and profiles."""
    names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    options: dict[str, Any] = {}
    if any(os.environ.get(name, "").startswith("http://") for name in names):
        options["client_options"] = {"allow_http": True}
    if "AWS_ACCESS_KEY_ID" in os.environ:
        return options
    try:
        session = boto3.Session()
        if session.available_profiles and session.get_credentials() is not None:
            # boto3 renews them ten minutes before their end, or earlier.
            lifetime = timedelta(minutes=5)
            options["credential_provider"] = Boto3CredentialProvider(session, ttl=lifetime)
    except BotoCoreError as error:
        raise ValueError(f"S3: {error}") from None
    return options


_making = threading.Lock()


def _client(store: Store, config: Any) -> Any:
    # Unlike a client, the session that makes it is not for several threads.
    with _making:
        if store.client is None:
            store.client = boto3.client(
                "s3", region_name=config.get("region"), endpoint_url=config.get("endpoint") or None
            )
    return store.client


def _ranges(start: int, stop: int) -> list[tuple[int, int]]:
    """Ranges of the most that a part may be; the last but one is shorter if the last were too short."""
    ranges = []
    while start < stop:
        end = min(start + _MOST, stop)
        if 0 < stop - end < _LEAST:
            end -= _LEAST
        ranges.append((start, end))
        start = end
    return ranges
