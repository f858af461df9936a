"""Another envelope for a large object on S3: the stream is copied by the service itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from obstore.store import S3Store

from warplock.bulk._places import Changed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from warplock.bulk._places import Pinned, Store
    from warplock.bulk._unit import Unit

# The least of a part that is not the last, and the most of a part that is copied.
_LEAST = 5 << 20
_MOST = 1 << 30
# Below this, reading and writing the object costs less than the requests.
_SMALL = 32 << 20
# What obstore calls an attribute, and what S3 does.
_FIELDS = {
    "Content-Type": "ContentType",
    "Content-Disposition": "ContentDisposition",
    "Content-Encoding": "ContentEncoding",
    "Content-Language": "ContentLanguage",
    "Cache-Control": "CacheControl",
    "Storage-Class": "StorageClass",
}


def copy_parts(
    store: Store, unit: Unit, file: Pinned, old: int, new: bytes, marks: Mapping[str, str]
) -> bool:
    """Replaces the first `old` bytes of an object by `new`. Only those and 5 MiB go over the network.
    False if this cannot be done here."""
    if not isinstance(store.store, S3Store) or unit["size"] < _SMALL:
        return False
    try:
        import boto3
        from botocore.exceptions import ClientError
    except ImportError:
        return False
    config: Any = store.store.config
    client = boto3.client(
        "s3", region_name=config.get("region"), endpoint_url=config.get("endpoint") or None
    )
    prefix = f"{str(store.store.prefix).strip('/')}/" if store.store.prefix else ""
    target: Any = {"Bucket": config["bucket"], "Key": f"{prefix}{unit['path']}"}
    fields: dict[str, Any] = {
        _FIELDS[name]: value for name, value in marks.items() if name in _FIELDS
    }
    fields["Metadata"] = {name: value for name, value in marks.items() if name not in _FIELDS}

    first = old + _LEAST
    file.seek(0)
    start = bytearray()
    while len(start) < first:
        start += file.read(first - len(start))
    parts = []
    upload = client.create_multipart_upload(**target, **fields)["UploadId"]
    try:
        body = new + bytes(start[old:])
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
    except BaseException as error:
        client.abort_multipart_upload(**target, UploadId=upload)
        if isinstance(error, ClientError) and "Precondition" in str(error):
            raise Changed("it is no longer in the planned version") from None
        raise
    return True


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
