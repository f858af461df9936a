"""Many objects: buckets and folders, stops, faults."""

from __future__ import annotations

import io
import json
import os
import pathlib
import pickle
import random
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

import warplock
from warplock.keys import Identity

obstore = pytest.importorskip("obstore")
pytest.importorskip("moto")

from bulk_tools import (  # noqa: E402
    MIB,
    bucket,
    client,
    download,
    folder,
    identity,
    key_file,
    opened,
    server,
    tree,
    upload,
)
from obstore.store import MemoryStore  # noqa: E402

from warplock import bulk  # noqa: E402
from warplock.bulk import _s3  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

    from s3_server import FaultyServer

# Fixtures.
__all__ = ["bucket", "client", "key_file", "server"]

SIZES = [0, 1, 16 * 1024, 100_000, 8 * MIB - 1, 8 * MIB, 20 * MIB + 3]


def test_a_bucket_is_encrypted_verified_and_decrypted(
    client: Any, bucket: str, tmp_path: pathlib.Path, key_file: pathlib.Path
) -> None:
    objects = tree(1, SIZES)
    upload(client, bucket, "plain", objects)
    sealed = f"s3://{bucket}/sealed"
    job = bulk.plan(f"s3://{bucket}/plain", sealed, "encrypt", recipients=[identity(key_file)])
    assert bulk.run(job).done == len(objects)
    assert opened(download(client, bucket, "sealed"), key_file) == objects
    head = client.head_object(Bucket=bucket, Key=f"sealed/{next(iter(objects))}.wl")
    assert head["Metadata"]["warplocksize"] == "0"

    # A second plan finds all of it done.
    again = bulk.plan(f"s3://{bucket}/plain", sealed, "encrypt", recipients=[identity(key_file)])
    assert bulk.run(again).unchanged == len(objects)

    job = bulk.plan(sealed, None, "verify")
    assert bulk.run(job, identities=[key_file]).done == len(objects)
    job = bulk.plan(sealed, tmp_path / "back", "decrypt")
    assert bulk.run(job, identities=[key_file]).done == len(objects)
    assert folder(tmp_path / "back") == objects


def test_faults_of_the_store_lose_nothing(
    server: FaultyServer, client: Any, bucket: str, key_file: pathlib.Path
) -> None:
    objects = tree(2, [*SIZES, *[3000] * 200])
    upload(client, bucket, "plain", objects)
    server.rate, server.faults = 0.05, 0
    job = bulk.plan(
        f"s3://{bucket}/plain", f"s3://{bucket}/sealed", "encrypt", recipients=[identity(key_file)]
    )
    total = bulk.run(job)
    server.rate = 0
    assert server.faults > 5
    assert total.exit_code == 0, total
    # A put whose answer was lost is found done by the next attempt.
    assert total.done + total.unchanged == len(objects)
    assert opened(download(client, bucket, "sealed"), key_file) == objects
    assert not client.list_multipart_uploads(Bucket=bucket).get("Uploads")


def test_a_changed_source_is_a_row_of_its_own(client: Any, bucket: str, tmp_path: pathlib.Path) -> None:
    objects = tree(3, [10, 9 * MIB, 500])
    upload(client, bucket, "plain", objects)
    paths = list(objects)
    to = f"s3://{bucket}/sealed"
    job = bulk.plan(
        f"s3://{bucket}/plain", to, "encrypt", recipients=[Identity.generate()], job=tmp_path / "job"
    )
    client.put_object(Bucket=bucket, Key=f"plain/{paths[1]}", Body=b"other")
    client.delete_object(Bucket=bucket, Key=f"plain/{paths[2]}")
    seen: list[Any] = []
    total = bulk.run(job, each=lambda row, _: seen.append(row))
    assert (total.done, total.changed, total.exit_code) == (1, 2, 1)
    messages = {row["path"]: row["message"] for row in seen if row["status"] == "changed"}
    assert "version" in messages[paths[1]] and "no longer there" in messages[paths[2]]
    assert list(download(client, bucket, "sealed")) == [f"{paths[0]}.wl"]
    assert bulk.report(job).changed == 2


def test_altered_cut_and_foreign_objects_are_refused(
    client: Any, bucket: str, key_file: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    sealed = io.BytesIO()
    warplock.encrypt_file(io.BytesIO(b"x" * 100_000), sealed, recipients=identity(key_file))
    good = sealed.getvalue()
    flipped = bytearray(good)
    flipped[50_000] ^= 1
    other = io.BytesIO()
    warplock.encrypt_file(io.BytesIO(b"y"), other, recipients=Identity.generate())
    upload(
        client,
        bucket,
        "s",
        {
            "good.wl": good,
            "flipped.wl": bytes(flipped),
            "cut.wl": good[:-20],
            "whole chunks.wl": good[: len(good) - (len(good) - 300) % 16400],
            "other.wl": other.getvalue(),
            "text.wl": b"just text",
            "text.txt": b"just text",
        },
    )
    seen: dict[str, str] = {}
    job = bulk.plan(f"s3://{bucket}/s", tmp_path / "out", "decrypt")
    total = bulk.run(
        job, identities=[key_file], each=lambda row, _: seen.update({row["path"]: row["status"]})
    )
    assert total.exit_code == 3
    assert seen == {
        "good.wl": "done",
        "flipped.wl": "authentication",
        "cut.wl": "authentication",
        "whole chunks.wl": "authentication",
        "other.wl": "authentication",
        "text.wl": "failed",
        "text.txt": "skipped",
    }
    assert folder(tmp_path / "out") == {"good": b"x" * 100_000}


def test_other_objects_are_kept_unless_replaced(client: Any, bucket: str, tmp_path: pathlib.Path) -> None:
    upload(client, bucket, "p", {"a": b"text", "big": bytes(9 * MIB)})
    upload(client, bucket, "q", {"a.wl": b"mine", "big.wl": b"mine"})
    where = (f"s3://{bucket}/p", f"s3://{bucket}/q", "encrypt")
    job = bulk.plan(*where, recipients=[Identity.generate()])
    assert bulk.run(job).failed == 2
    assert set(download(client, bucket, "q").values()) == {b"mine"}
    assert bulk.run(job, replace=True).done == 2

    (tmp_path / "a.wl").write_bytes(b"mine")
    job = bulk.plan(where[0], tmp_path, "encrypt", recipients=[Identity.generate()], include=["a"])
    assert bulk.run(job).failed == 1
    assert folder(tmp_path) == {"a.wl": b"mine"}


@pytest.mark.parametrize("key", ["../evil.wl", "a/../../evil.wl", "/evil.wl", "a//evil.wl", "x/"])
def test_hostile_keys_never_leave_the_folder(
    client: Any, bucket: str, tmp_path: pathlib.Path, key: str, key_file: pathlib.Path
) -> None:
    sealed = io.BytesIO()
    warplock.encrypt_file(io.BytesIO(b"evil"), sealed, recipients=identity(key_file))
    client.put_object(Bucket=bucket, Key=f"s/{key}", Body=sealed.getvalue())
    out = tmp_path / "deep" / "out"
    try:
        job = bulk.plan(f"s3://{bucket}/s", out, "decrypt")
        bulk.run(job, identities=[key_file])
    except ValueError as error:
        assert "rename those objects" in str(error)
    found = {path for path in folder(tmp_path) if "evil" in path}
    assert all(path.startswith("deep/out/") for path in found), found


def test_rewrap_on_s3_moves_few_bytes(
    server: FaultyServer, client: Any, bucket: str, key_file: pathlib.Path, monkeypatch: Any
) -> None:
    # Also where a copied part must be cut short, so that the last one is not too small.
    monkeypatch.setattr(_s3, "_MOST", 12 * MIB)
    new = Identity.generate()
    objects = tree(4, [100, 40 * MIB, 35 * MIB + 7, 42 * MIB])
    for path, data in objects.items():
        sealed = io.BytesIO()
        warplock.encrypt_file(io.BytesIO(data), sealed, recipients=identity(key_file))
        client.put_object(
            Bucket=bucket,
            Key=f"s/{path}.wl",
            Body=sealed.getvalue(),
            Metadata={"mine": "1"},
            ContentType="image/x",
        )
    server.requests.clear()
    job = bulk.plan(f"s3://{bucket}/s", None, "rewrap", recipients=[new])
    assert bulk.run(job, identities=[key_file]).done == len(objects)
    sent = sum(size for _, size in server.requests)
    assert 15 * MIB < sent < 20 * MIB
    assert opened(download(client, bucket, "s"), new) == objects
    head = client.head_object(Bucket=bucket, Key=f"s/{list(objects)[1]}.wl")
    assert head["ContentType"] == "image/x" and head["Metadata"]["mine"] == "1"
    # What was done before a stop is found done, although it has another ETag now.
    job2 = bulk.plan(f"s3://{bucket}/s", None, "rewrap", recipients=[new])
    client.put_object(Bucket=bucket, Key=f"s/{next(iter(objects))}.wl", Body=b"changed")
    total = bulk.run(job2, identities=lambda: [new])
    assert (total.done, total.changed) == (3, 1)
    assert bulk.run(job2, identities=lambda: [new]).unchanged == 3


def test_rewrap_of_folders_and_other_stores() -> None:
    me, new = Identity.generate(), Identity.generate()
    store = bulk.memory_store("memory://rewrap")
    assert isinstance(store, MemoryStore)
    data = os.urandom(9 * MIB)
    sealed = io.BytesIO()
    warplock.encrypt_file(io.BytesIO(data), sealed, recipients=me)
    obstore.put(store, "x/a.wl", sealed.getvalue())
    job = bulk.plan("memory://rewrap/x", None, "rewrap", recipients=[new])
    assert bulk.run(job, identities=lambda: [me]).done == 1
    back = bytes(obstore.get(store, "x/a.wl").bytes())
    assert opened({"a.wl": back}, new) == {"a": data}
    # The content is not encrypted again.
    assert back[-data.__len__() :] == sealed.getvalue()[-len(data) :]


def test_a_job_goes_on_where_it_was_killed(
    server: FaultyServer, client: Any, bucket: str, tmp_path: pathlib.Path, key_file: pathlib.Path
) -> None:
    objects = tree(5, [5000] * 150 + [9 * MIB] * 4)
    upload(client, bucket, "p", objects)
    recipient = str(identity(key_file).to_public())
    call = [sys.executable, "-P", "-m", "warplock.bulk"]
    planned = subprocess.run(
        [*call, "plan", "--op", "encrypt", "-r", recipient, "--job", tmp_path / "job"]
        + [f"s3://{bucket}/p", f"s3://{bucket}/q"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert planned.stdout.startswith("154 units")
    choice = random.Random(6)
    for _ in range(6):
        process = subprocess.Popen([*call, "run", tmp_path / "job"], stdout=subprocess.DEVNULL)
        time.sleep(0.4 + choice.random() * 0.6)
        process.send_signal(signal.SIGKILL)
        process.wait()
    done = subprocess.run(
        [*call, "run", "--json", tmp_path / "job"], capture_output=True, text=True, check=True
    )
    told = json.loads(done.stdout)
    assert told["done"] + told["unchanged"] == 154
    assert opened(download(client, bucket, "q"), key_file) == objects
    total = bulk.report(tmp_path / "job")
    assert (total.units, total.pending, total.exit_code) == (154, 0, 0)
    # No unit was made twice but those under way.
    lines = [json.loads(line) for log in (tmp_path / "job").glob("log-*") for line in log.open()]
    assert len({line["unit"] for line in lines}) == len(lines)


def test_no_key_is_used_twice(client: Any, bucket: str) -> None:
    upload(client, bucket, "p", {str(k): b"same text" for k in range(50)})
    salts = set()
    for turn in range(3):
        job = bulk.plan(
            f"s3://{bucket}/p", f"s3://{bucket}/q{turn}", "encrypt", recipients=[Identity.generate()]
        )
        assert bulk.run(job).done == 50
        for data in download(client, bucket, f"q{turn}").values():
            start = warplock.inspect(io.BytesIO(data)).stream_offset
            assert start is not None
            salts.add(data[start : start + 24])
    assert len(salts) == 150


def test_shards_are_disjoint_and_even(tmp_path: pathlib.Path) -> None:
    store = bulk.memory_store("memory://shards")
    choice = random.Random(8)
    for k in range(300):
        obstore.put(store, f"{k:03}", choice.randbytes(choice.randrange(100_000)))
    job = bulk.plan(
        "memory://shards", "memory://out", "encrypt", recipients=[Identity.generate()], job=tmp_path
    )
    parts = [list(job.units((k, 7))) for k in range(7)]
    assert sorted(unit["unit"] for part in parts for unit in part) == list(range(300))
    bytes_each = [sum(unit["size"] for unit in part) for part in parts]
    assert max(bytes_each) < 1.2 * min(bytes_each)
    assert bulk.run(job, shard=(2, 7)).done == len(parts[2])
    assert bulk.report(job).pending == 300 - len(parts[2])


def test_folders_to_buckets_and_patterns(client: Any, bucket: str, tmp_path: pathlib.Path) -> None:
    source = tmp_path / "tree"
    (source / "raw" / "deep").mkdir(parents=True)
    for name in ["a.jpg", "b.txt", "raw/c.jpg", "raw/deep/d.jpg"]:
        (source / name).write_bytes(name.encode())
    (source / "link.jpg").symlink_to("/etc/passwd")
    os.mkfifo(source / "pipe.jpg")
    me = Identity.generate()

    def planned(**selection: Any) -> list[str]:
        job = bulk.plan(source, f"s3://{bucket}/x", "encrypt", recipients=[me], **selection)
        return [unit["path"] for unit in job.units() if unit["skipped"] is None]

    assert planned() == ["a.jpg", "b.txt", "raw/c.jpg", "raw/deep/d.jpg"]
    assert planned(include=["*.jpg"]) == ["a.jpg", "raw/c.jpg", "raw/deep/d.jpg"]
    assert planned(exclude=["deep"]) == ["a.jpg", "b.txt", "raw/c.jpg"]
    assert planned(include=["raw/*.jpg"]) == ["raw/c.jpg"]
    assert planned(include=["raw/**"], exclude=["[!c].jpg"]) == ["raw/c.jpg"]
    within = bulk.plan(source, source / "raw", "encrypt", recipients=[me], include=["*.jpg"])
    told = {unit["path"]: unit["skipped"] for unit in within.units()}
    assert told["a.jpg"] is None and told["raw/"] == "it is the destination"
    assert "raw/c.jpg" not in told
    job = bulk.plan(source, f"s3://{bucket}/x", "encrypt", recipients=[me])
    total = bulk.run(job)
    assert (total.done, total.skipped) == (4, 2)
    assert opened(download(client, bucket, "x"), me)["raw/c.jpg"] == b"raw/c.jpg"


def test_wrong_arguments_say_what_is_wrong(tmp_path: pathlib.Path) -> None:
    me = Identity.generate()
    cases: list[tuple[str, dict[str, Any]]] = [
        ("name the recipients", dict(source=tmp_path, destination="memory://x", operation="encrypt")),
        ("needs a destination", dict(source=tmp_path, destination=None, operation="decrypt")),
        ("has no destination", dict(source=tmp_path, destination="memory://x", operation="verify")),
        ("one of encrypt", dict(source=tmp_path, destination=None, operation="seal")),
        (
            "no query",
            dict(source="s3://b/x?y=1", destination=None, operation="verify"),
        ),
    ]
    for words, arguments in cases:
        with pytest.raises(ValueError, match=words):
            bulk.plan(**arguments)
    with pytest.raises(warplock.KeyringError):
        bulk.plan(tmp_path, "memory://x", "encrypt", recipients=["age1wrong"])
    job = bulk.plan(tmp_path, None, "verify")
    with pytest.raises(ValueError, match="needs the identities"):
        bulk.run(job)
    job = bulk.plan(tmp_path, "memory://x", "encrypt", recipients=[me], job=tmp_path / "job")
    with pytest.raises(ValueError, match="index"):
        bulk.run(job, shard=(3, 3))
    with pytest.raises(FileExistsError, match="holds a job already"):
        bulk.plan(tmp_path, "memory://x", "encrypt", recipients=[me], job=tmp_path / "job")
    (tmp_path / "job" / "job.json").write_text('{"version": 1}')
    with pytest.raises(ValueError, match="warplock bulk run"):
        bulk.run(tmp_path / "job")


def test_one_process_at_a_time(tmp_path: pathlib.Path) -> None:
    from warplock.bulk._job import Log

    (tmp_path / "tree").mkdir()
    job = bulk.plan(tmp_path / "tree", "memory://x", "encrypt", recipients=[Identity.generate()])
    log = Log(job, (0, 1))
    with pytest.raises(RuntimeError, match="runs already"):
        bulk.run(job)
    log.close()
    assert bulk.run(job).exit_code == 0


def test_units_travel_without_secrets(key_file: pathlib.Path) -> None:
    job = bulk.plan("memory://none", None, "verify")
    settings = job.settings([str(key_file)])
    secret = identity(key_file)
    assert str(secret)[:20].encode() not in pickle.dumps(settings)
    assert pickle.loads(pickle.dumps(settings)) == settings


def test_a_stopped_upload_leaves_nothing(client: Any, bucket: str, monkeypatch: Any) -> None:
    upload(client, bucket, "p", {"big": os.urandom(20 * MIB)})
    job = bulk.plan(
        f"s3://{bucket}/p", f"s3://{bucket}/q", "encrypt", recipients=[Identity.generate()]
    )
    from warplock.bulk import _unit

    monkeypatch.setattr(_unit.Worker, "_encrypted", lambda *_: failing())
    assert bulk.run(job).failed == 1
    assert download(client, bucket, "q") == {}
    assert not client.list_multipart_uploads(Bucket=bucket).get("Uploads")


def failing() -> Iterator[bytes]:
    yield bytes(9 * MIB)
    raise ValueError("broken")


def test_memory_is_bounded(client: Any, bucket: str, key_file: pathlib.Path) -> None:
    """A large object costs no more than a small one, but for its parts under way."""
    upload(client, bucket, "p", {"big": bytes(256 * MIB)})
    code = (
        "import resource, sys; from warplock import bulk; from warplock.keys import Identity\n"
        f"j = bulk.plan('s3://{bucket}/p', 's3://{bucket}/q', 'encrypt',"
        " recipients=[Identity.generate()])\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "assert bulk.run(j).done == 1\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    out = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert int(out.stdout) < 120 * 1024


def test_on_ray(
    server: FaultyServer, client: Any, bucket: str, key_file: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    ray = pytest.importorskip("ray")
    objects = tree(9, [2000] * 300)
    upload(client, bucket, "p", objects)
    ray.init(num_cpus=2, include_dashboard=False, logging_level="error")
    try:
        server.rate = 0.02
        where = (f"s3://{bucket}/p", f"s3://{bucket}/q", "encrypt")
        job = bulk.plan(*where, recipients=[identity(key_file)], job=tmp_path / "job")
        killed: list[int] = []

        def kill_a_worker(row: Any, unit: Any) -> None:
            if not killed:
                killed.extend(workers()[:1])
                os.kill(killed[0], signal.SIGKILL)

        total = bulk.run(job, on="ray", workers=2, threads=4, each=kill_a_worker)
        server.rate = 0
        assert killed
        assert total.exit_code == 0 and total.done + total.unchanged == len(objects)
        assert opened(download(client, bucket, "q"), key_file) == objects
        job = bulk.plan(f"s3://{bucket}/q", None, "verify")
        assert bulk.run(job, on="ray", identities=[key_file]).done == len(objects)
    finally:
        ray.shutdown()


def workers() -> list[int]:
    """The processes of the actors."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            title = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if entry.name.isdigit() and b"ray::" in title and b"MapWorker" in title:
            found.append(int(entry.name))
    return found


def test_a_job_is_where_it_was_made(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another folder of this name, where the program had gone to, gave other units."""
    monkeypatch.chdir(tmp_path)
    for name in ("source", "elsewhere"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_bytes(b"text")
    me = [Identity.generate()]
    job = bulk.plan("source", "results", "encrypt", recipients=me, job="job")
    monkeypatch.chdir(tmp_path / "elsewhere")
    bulk.plan("../elsewhere", "others", "encrypt", recipients=me, job="../elsewhere-job")
    assert bulk.run(job).done == 1
    assert sorted(os.listdir()) == ["file"] and (tmp_path / "results/file.wl").exists()
