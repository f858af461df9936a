"""Google Cloud: its XML interface is that of S3 with other headers, so that the S3 server of the tests
stands in for it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("obstore")
pytest.importorskip("moto")

from bulk_tools import (  # noqa: E402
    MIB,
    client,
    download,
    opened,
    server,
    tree,
    upload,
)

from warplock import bulk  # noqa: E402
from warplock.keys import Identity  # noqa: E402

if TYPE_CHECKING:
    from s3_server import FaultyServer

# moto looks at the service that is named, and at nothing else.
SIGNED = "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request, SignedHeaders=h, Signature=s"


class Translated:
    """An application for S3 that is asked in the words of Google Cloud."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.creations = 0
        """Requests that must not replace an object."""

    def __call__(self, environ: dict[str, Any], start: Any) -> Any:
        if not environ.get("HTTP_AUTHORIZATION", "").startswith("AWS4"):
            environ["HTTP_AUTHORIZATION"] = SIGNED
        for name in [name for name in environ if name.startswith("HTTP_X_GOOG_META_")]:
            environ[name.replace("X_GOOG", "X_AMZ")] = environ.pop(name)
        if environ.pop("HTTP_X_GOOG_IF_GENERATION_MATCH", None) == "0":
            environ["HTTP_IF_NONE_MATCH"] = "*"
            self.creations += 1

        def answer(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            named = [(k.lower().replace("x-amz-meta", "x-goog-meta"), v) for k, v in headers]
            return start(status, named, *rest)

        return self._app(environ, answer)


def test_there_and_back_changed_sources_and_rewrap(
    server: FaultyServer, client: Any, monkeypatch: Any
) -> None:
    account = {"gcs_base_url": server.url, "disable_oauth": True}
    account |= {"client_email": "", "private_key": "", "private_key_id": ""}
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", json.dumps(account))
    monkeypatch.setenv("GOOGLE_ALLOW_HTTP", "true")
    translated = Translated(server._app)
    monkeypatch.setattr(server, "_app", translated)
    # Without a character that its client percent-encodes: moto does not decode bucket names.
    bucket = "archive"
    client.create_bucket(Bucket=bucket)
    me, new = Identity.generate(), Identity.generate()
    objects = tree(3, [0, 0, 1, 16384, 70_000, 9 * MIB])
    upload(client, bucket, "in", objects)
    source, out = f"gs://{bucket}/in", f"gs://{bucket}/out"
    assert bulk.run(bulk.plan(source, out, "encrypt", recipients=[me])).done == len(objects)
    # The last one takes several requests, which cannot be conditional.
    assert translated.creations == len(objects) - 1
    again = bulk.plan(source, out, "encrypt", recipients=[me])
    assert bulk.run(again).unchanged == len(objects)

    late = bulk.plan(source, f"gs://{bucket}/late", "encrypt", recipients=[me])
    changed = {path: bytes(len(data)) for path, data in objects.items() if data}
    upload(client, bucket, "in", changed)
    total = bulk.run(late)
    assert (total.done, total.changed) == (2, len(changed))

    rewrap = bulk.plan(out, None, "rewrap", recipients=[new])
    assert bulk.run(rewrap, identities=lambda: [me]).done == len(objects)
    assert opened(download(client, bucket, "out"), new) == objects
