"""Azure: what differs there from S3, and all of it on Azurite where that is installed (by
`npm install -g azurite`)."""

from __future__ import annotations

import base64
import datetime
import hashlib
import hmac
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

obstore = pytest.importorskip("obstore")
pytest.importorskip("moto")

from bulk_tools import MIB, opened, tree

from warplock import bulk
from warplock.bulk import _places
from warplock.keys import Identity

if TYPE_CHECKING:
    from collections.abc import Iterator

# Azurite's well-known account.
ACCOUNT = "devstoreaccount1"
SECRET = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@pytest.fixture
def account(monkeypatch: Any) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", SECRET)


def test_a_version_is_the_same_from_a_listing_and_from_the_object(account: None) -> None:
    store = obstore.store.AzureStore("container")
    listed, asked = {"e_tag": "0x8D4BCC2E4835CD0"}, {"e_tag": '"0x8D4BCC2E4835CD0"'}
    versions = {_places._object_version(store, meta) for meta in (listed, asked)}
    # Quoted, as `If-Match` wants it.
    assert versions == {'"0x8D4BCC2E4835CD0"'}


def make_container(port: int, name: str) -> None:
    now = datetime.datetime.now(datetime.timezone.utc)
    date, version = now.strftime("%a, %d %b %Y %H:%M:%S GMT"), "2021-08-06"
    signed = "\n".join(
        ["PUT", *[""] * 11, f"x-ms-date:{date}", f"x-ms-version:{version}"]
        + [f"/{ACCOUNT}/{ACCOUNT}/{name}", "restype:container"]
    )
    mac = hmac.new(base64.b64decode(SECRET), signed.encode(), hashlib.sha256).digest()
    headers = {
        "x-ms-date": date,
        "x-ms-version": version,
        "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(mac).decode()}",
    }
    url = f"http://127.0.0.1:{port}/{ACCOUNT}/{name}?restype=container"
    request = urllib.request.Request(url, b"", headers, method="PUT")
    request.add_header("Content-Type", "")
    urllib.request.urlopen(request).close()


@pytest.fixture
def azurite(account: None, tmp_path: Any, monkeypatch: Any) -> Iterator[None]:
    program = shutil.which("azurite-blob")
    if program is None:
        pytest.skip("skipped: azurite-blob is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [program, "--silent", "--disableTelemetry", "--skipApiVersionCheck"]
    command += ["--inMemoryPersistence", "--blobPort", str(port)]
    server = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL)
    monkeypatch.setenv("AZURE_ENDPOINT", f"http://127.0.0.1:{port}/{ACCOUNT}")
    monkeypatch.setenv("AZURE_ALLOW_HTTP", "true")
    try:
        for _ in range(100):
            try:
                make_container(port, "all")
                break
            except (ConnectionError, urllib.error.URLError):
                time.sleep(0.2)
        yield
    finally:
        server.kill()
        server.wait()


def test_there_and_back_changed_sources_and_rewrap(azurite: None) -> None:
    store = obstore.store.AzureStore("all")
    me, new = Identity.generate(), Identity.generate()
    objects = tree(3, [0, 0, 1, 16384, 70_000, 9 * MIB])
    for path, data in objects.items():
        obstore.put(store, f"in/{path}", data)
    job = bulk.plan("az://all/in", "az://all/out", "encrypt", recipients=[me])
    assert bulk.run(job).done == len(objects)
    again = bulk.plan("az://all/in", "az://all/out", "encrypt", recipients=[me])
    assert bulk.run(again).unchanged == len(objects)

    # What changes after the plan is not read.
    late = bulk.plan("az://all/in", "az://all/late", "encrypt", recipients=[me])
    changed = [path for path in objects if not path.endswith("3 é.bin")]
    for path in changed:
        obstore.put(store, f"in/{path}", os.urandom(len(objects[path])))
    total = bulk.run(late)
    assert (total.done, total.changed) == (len(objects) - len(changed), len(changed))

    rewrap = bulk.plan("az://all/out", None, "rewrap", recipients=[new])
    assert bulk.run(rewrap, identities=lambda: [me]).done == len(objects)
    sealed = {
        meta["path"].removeprefix("out/"): bytes(obstore.get(store, meta["path"]).bytes())
        for meta in obstore.list(store, prefix="out").collect()
    }
    assert opened(sealed, new) == objects
