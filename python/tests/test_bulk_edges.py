"""What the wrong place, the wrong moment and odd keys do to bulk runs."""

from __future__ import annotations

import io
import os
import pathlib
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

from warplock import bulk  # noqa: E402
from warplock.bulk import _unit  # noqa: E402
from warplock.bulk import __main__ as command  # noqa: E402
from warplock.bulk._places import place  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

# Fixtures.
__all__ = ["bucket", "client", "key_file", "server"]


def sealed(data: bytes, me: Any) -> bytes:
    out = io.BytesIO()
    warplock.encrypt_file(io.BytesIO(data), out, recipients=me)
    return out.getvalue()


def run(*arguments: Any) -> tuple[int, Any]:
    rows: dict[str, str] = {}
    job = bulk.plan(*arguments, recipients=[Identity.generate()])
    total = bulk.run(job, each=lambda row, _: rows.update({row["path"]: row["status"]}))
    return total.exit_code, rows


def test_an_empty_source_that_changed_is_noticed(client: Any, bucket: str) -> None:
    upload(client, bucket, "p", {"filled": b"", "gone": b"", "same": b""})
    job = bulk.plan(
        f"s3://{bucket}/p", f"s3://{bucket}/q", "encrypt", recipients=[Identity.generate()]
    )
    client.put_object(Bucket=bucket, Key="p/filled", Body=b"text")
    client.delete_object(Bucket=bucket, Key="p/gone")
    total = bulk.run(job)
    assert (total.done, total.changed) == (1, 2)
    assert list(download(client, bucket, "q")) == ["same.wl"]


def test_markers_of_folders_are_skipped(client: Any, bucket: str, tmp_path: pathlib.Path) -> None:
    """They would become files where the folders should be."""
    upload(client, bucket, "p", {"": b"", "sub/": b"", "sub/a": b"text", "alone/": b"", "empty": b""})
    code, rows = run(f"s3://{bucket}/p", tmp_path / "out", "encrypt")
    assert code == 0
    assert rows == {
        "": "skipped",
        "sub": "skipped",
        "sub/a": "done",
        "alone": "skipped",
        "empty": "done",
    }


def test_results_and_jobs_are_no_sources(client: Any, bucket: str, tmp_path: pathlib.Path) -> None:
    me = [Identity.generate()]
    upload(client, bucket, "p", {"a": b"text", "out": b"text", "out-2/b": b"text"})
    source = tmp_path / "tree"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "a").write_bytes(b"text")
    # By another name of the folder, too.
    (tmp_path / "link").symlink_to(source)
    for turn in range(2):
        job = bulk.plan(f"s3://{bucket}/p", f"s3://{bucket}/p/out", "encrypt", recipients=me)
        found = ["a", "out", "out-2/b", "out/"]
        assert [unit["path"] for unit in job.units()] == found[: 3 + turn]
        assert bulk.run(job).exit_code == 0
        where = source / f"job{turn}"
        job = bulk.plan(source, tmp_path / "link" / "out", "encrypt", recipients=me, job=where)
        paths = [unit["path"] for unit in job.units()]
        assert paths == ["job0/job.json", "job0/log-00000-of-00001.jsonl", "job0/units-00000.jsonl"][
            : 3 * turn
        ] + ["out/", "sub/a"][1 - turn :]
        assert bulk.run(job).exit_code == 0
    for place in (f"s3://{bucket}/p", str(source), "memory://one"):
        with pytest.raises(ValueError, match="in the source itself"):
            bulk.plan(place, f"{place}/", "encrypt", recipients=me)


def test_a_job_keeps_other_files_of_its_folder(tmp_path: pathlib.Path) -> None:
    (tmp_path / "units-of-measure.csv").write_text("precious")
    (tmp_path / "log-book.txt").write_text('{"unit": 0, "status": "done"}\n')
    # What a plan that was stopped left behind is replaced.
    (tmp_path / "units-00000.jsonl").write_text("half a li")
    store = bulk.memory_store("memory://files")
    obstore.put(store, "a", b"text")
    me = Identity.generate()
    job = bulk.plan("memory://files", "memory://o1", "encrypt", recipients=[me], job=tmp_path)
    assert (tmp_path / "units-of-measure.csv").read_text() == "precious"
    assert bulk.run(job).done == 1
    with pytest.raises(ValueError, match="a job is a folder"):
        bulk.plan("memory://files", None, "verify", job="s3://bucket/job")
    with pytest.raises(FileNotFoundError, match="is no job"):
        bulk.run(tmp_path / "none")


def test_damaged_jobs_are_refused(tmp_path: pathlib.Path) -> None:
    store = bulk.memory_store("memory://damaged")
    for key in "abc":
        obstore.put(store, key, b"text")
    me = Identity.generate()
    where = tmp_path / "job"
    job = bulk.plan("memory://damaged", "memory://o2", "encrypt", recipients=[me], job=where)
    units = (where / "units-00000.jsonl").read_text()
    for end, words in [(units.index("\n") + 1, "1 of 3 units"), (-9, "units-00000.jsonl is damaged")]:
        (where / "units-00000.jsonl").write_text(units[:end])
        with pytest.raises(ValueError, match=words):
            bulk.run(job)
    for text in ("", "[]", "[1]", '{"version": 2}'):
        (where / "job.json").write_text(text)
        with pytest.raises(ValueError, match="damaged|version is None"):
            bulk.run(where)


def test_credentials_are_found_as_by_the_vendors_tools(
    client: Any, bucket: str, tmp_path: pathlib.Path, monkeypatch: Any
) -> None:
    upload(client, bucket, "p", {"a": b"text"})
    profiles = tmp_path / "credentials"
    profiles.write_text("[other]\naws_access_key_id = name\naws_secret_access_key = secret\n")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ALLOW_HTTP"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(profiles))
    monkeypatch.setenv("AWS_PROFILE", "other")
    assert run(f"s3://{bucket}/p", f"s3://{bucket}/q", "encrypt") == (0, {"a": "done"})
    monkeypatch.setenv("AWS_PROFILE", "none")
    with pytest.raises(ValueError, match="profile .none. could not be found"):
        bulk.plan(f"s3://{bucket}/p", None, "verify")


def test_places_are_where_the_page_says(monkeypatch: Any) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")
    for url in (
        "az://container/a%20prefix/b",
        "abfss://container@account.dfs.core.windows.net/a%20prefix/b",
        "gs://container/a%20prefix/b",
        "s3://container/a%20prefix/b",
    ):
        inner: Any = place(url)
        config = inner.store.config
        assert config.get("container_name", config.get("bucket")) == "container"
        assert str(inner.store.prefix).strip("/") == "a%20prefix/b"


def test_a_url_is_never_another_place(tmp_path: pathlib.Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    for url, told in (
        ("", "not an empty text"),
        ("file://photos/2026", "three slashes"),
        (f"file://{tmp_path}#1", "no query or fragment"),
        (f"file://{tmp_path}?1", "no query or fragment"),
        (f"file://{tmp_path}\n", "no tabs and line breaks"),
        ("memory://a\tb", "no tabs and line breaks"),
    ):
        with pytest.raises(ValueError, match=told):
            place(url)
    for url in ("file:///a%20b", "file://localhost/a%20b", "file:/a%20b", "/a b"):
        assert place(url).url == "/a b"


def test_patterns_choose_folders_and_files(tmp_path: pathlib.Path) -> None:
    for name in ("a", "d/b", "x/d/c"):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(b"text")
    me = Identity.generate()

    def paths(**patterns: Any) -> list[str]:
        job = bulk.plan(tmp_path / "in", "memory://none", "encrypt", recipients=me, **patterns)
        return sorted(unit["path"] for unit in job.units())

    for exclude, left in (
        ("d", ["a"]),
        ("d/", ["a"]),
        ("/d", ["a", "x/d/c"]),
        ("x/d", ["a", "d/b"]),
        ("*/d/", ["a", "d/b"]),
        ("**/d", ["a"]),
    ):
        assert paths(exclude=[exclude]) == left, exclude
    assert paths(include=["b", "/a"]) == ["a", "d/b"]
    with pytest.raises(ValueError, match="matches --include"):
        paths(include=["*.jpg"])
    for wrong in ("[z-a]", "", "/", "./a", "d//b", "../in"):
        with pytest.raises(ValueError, match="the pattern"):
            paths(include=[wrong])


def test_one_recipient_and_one_identity_need_no_list(
    tmp_path: pathlib.Path, key_file: pathlib.Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_bytes(b"text")
    public = str(identity(key_file).to_public())
    # As some editors write it.
    (tmp_path / "team.txt").write_text(f"\ufeff# all\n{public}\n")
    given: tuple[Any, ...] = (public, identity(key_file), tmp_path / "team.txt")
    for number, recipient in enumerate(given):
        out = tmp_path / str(number)
        assert bulk.run(bulk.plan(tmp_path / "in", out, "encrypt", recipients=recipient)).done == 1
        assert bulk.run(bulk.plan(out, None, "verify"), identities=str(key_file)).done == 1


def test_a_report_knows_what_another_shard_finished(tmp_path: pathlib.Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_bytes(b"text")
    out = tmp_path / "out"
    out.mkdir()
    (out / "a.wl").write_bytes(b"other")
    me = Identity.generate()
    job = bulk.plan(tmp_path / "in", out, "encrypt", recipients=[me], job=tmp_path / "job")
    assert bulk.run(job, shard=(0, 2)).failed == 1
    assert bulk.report(job).failed == 1
    (out / "a.wl").unlink()
    assert bulk.run(job).done == 1
    assert bulk.report(job).exit_code == 0
    assert bulk.run(job, shard=(0, 2)).done == 0


@pytest.mark.parametrize("local", [False, True])
def test_two_runs_at_once_do_not_fail(
    client: Any, bucket: str, tmp_path: pathlib.Path, monkeypatch: Any, local: bool
) -> None:
    """Both see no result and make it; the second one finds that it is there."""
    upload(client, bucket, "p", {"a": b"text", "b": b"text"})
    me = [Identity.generate()]
    where = (f"s3://{bucket}/p", str(tmp_path) if local else f"s3://{bucket}/q", "encrypt")
    first, second = (bulk.plan(*where, recipients=me) for _ in range(2))
    encrypted = _unit.Worker._encrypted
    inner: list[Any] = []

    def slowly(self: Any, file: Any) -> Any:
        if not inner:
            inner.append(None)
            inner.append(bulk.run(second))
        yield from encrypted(self, file)

    monkeypatch.setattr(_unit.Worker, "_encrypted", slowly)
    total = bulk.run(first, threads=1)
    assert inner[1].done == 2
    assert (total.unchanged, total.exit_code) == (2, 0)


def test_results_that_were_cut_are_no_results(tmp_path: pathlib.Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("cut", "whole"):
        (tmp_path / "in" / name).write_bytes(b"text")
    where = (tmp_path / "in", tmp_path / "out", "encrypt")
    assert run(*where)[0] == 0
    os.truncate(tmp_path / "out" / "cut.wl", 100)
    assert run(*where) == (1, {"cut": "failed", "whole": "unchanged"})


def test_links_in_the_destination_are_not_followed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "in" / "sub").mkdir(parents=True)
    (tmp_path / "in" / "sub" / "a").write_bytes(b"text")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "sub").symlink_to("../elsewhere")
    code, rows = run(tmp_path / "in", tmp_path / "out", "encrypt")
    assert (code, rows) == (1, {"sub/a": "failed"})
    assert folder(tmp_path / "elsewhere") == {}


def test_names_like_those_of_unfinished_results_are_told(tmp_path: pathlib.Path) -> None:
    (tmp_path / "in").mkdir()
    for name in (".warplock-notes", ".warplock-settings"):
        (tmp_path / "in" / name).write_bytes(b"text")
    _, rows = run(tmp_path / "in", tmp_path / "out", "encrypt")
    assert rows == {".warplock-notes": "done", ".warplock-settings": "skipped"}


def test_folders_that_cannot_be_listed_are_told(tmp_path: pathlib.Path, monkeypatch: Any) -> None:
    for name in ("a/x", "b/x"):
        (tmp_path / "in" / name).parent.mkdir(parents=True)
        (tmp_path / "in" / name).write_bytes(b"text")
    (tmp_path / "in" / os.fsdecode(b"a/\xff")).write_bytes(b"text")
    listed = os.scandir

    def refused(path: str) -> Any:
        if path.endswith("/b"):
            raise PermissionError(13, "Permission denied", path)
        return listed(path)

    monkeypatch.setattr(os, "scandir", refused)
    code, rows = run(tmp_path / "in", tmp_path / "out", "encrypt")
    assert (code, rows) == (1, {"a/x": "done", "b": "failed", "a/\\xff": "failed"})
    with pytest.raises(PermissionError):
        run(tmp_path / "in" / "b", tmp_path / "out", "encrypt")
    # What is in the folder may be among the chosen files.
    me = Identity.generate()
    for patterns, failed in (({"include": ["x"]}, 1), ({"exclude": ["b"]}, 0)):
        job = bulk.plan(tmp_path / "in", "memory://b", "encrypt", recipients=me, **patterns)
        assert ["b"] * failed == [each["path"] for each in job.units() if each["path"] == "b"]


def test_files_that_cannot_be_looked_at_are_told(tmp_path: pathlib.Path, monkeypatch: Any) -> None:
    """They are gone, or in a folder that may be listed but not entered."""
    for name in ("a", "b"):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / name).write_bytes(b"text")
    looked = os.lstat

    def refused(path: Any, **options: Any) -> Any:
        if str(path).endswith("in/b"):
            raise PermissionError(13, "Permission denied", path)
        return looked(path, **options)

    monkeypatch.setattr(os, "lstat", refused)
    code, rows = run(tmp_path / "in", tmp_path / "out", "encrypt")
    assert (code, rows) == (1, {"a": "done", "b": "failed"})


def test_what_came_in_place_of_a_file_is_not_read(tmp_path: pathlib.Path) -> None:
    """A pipe without a writer would stop the run for ever."""
    (tmp_path / "in").mkdir()
    for name in ("link", "pipe"):
        (tmp_path / "in" / name).write_bytes(b"text")
    me = [Identity.generate()]
    job = bulk.plan(tmp_path / "in", tmp_path / "out", "encrypt", recipients=me)
    for name in ("link", "pipe"):
        os.rename(tmp_path / "in" / name, tmp_path / name)
    os.symlink(tmp_path / "link", tmp_path / "in" / "link")
    os.mkfifo(tmp_path / "in" / "pipe")
    assert bulk.run(job).changed == 2


def test_names_that_are_too_long_are_told(tmp_path: pathlib.Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / ("a" * 255)).write_bytes(b"text")
    said: list[str | None] = []
    job = bulk.plan(tmp_path / "in", tmp_path / "out", "encrypt", recipients=[Identity.generate()])
    assert bulk.run(job, each=lambda row, _: said.append(row["message"])).failed == 1
    assert "File name too long" in str(said)


def test_a_job_hides_no_files_of_the_source(tmp_path: pathlib.Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a").write_bytes(b"text")
    me = [Identity.generate()]
    with pytest.raises(ValueError, match="holds other files"):
        bulk.plan(tmp_path, "memory://hidden", "encrypt", recipients=me, job=tmp_path / "sub")
    job = bulk.plan(tmp_path, "memory://hidden", "encrypt", recipients=me, job=tmp_path / "job")
    assert bulk.run(job).done == 1


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_descriptors(tmp_path: pathlib.Path, closed: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_bytes(b"text")
    recipient = str(Identity.generate().to_public())
    call = [sys.executable, "-m", "warplock.bulk", "encrypt", "-r", recipient]
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh", *call, str(tmp_path / "in"), str(tmp_path / "out")]
    done = subprocess.run(shell, capture_output=True, text=True, timeout=60)
    # What belongs to the standard output would be lost.
    assert done.returncode == (1 if " >&-" in f" {closed}" else 0), done.stderr
    assert ("1 done" in done.stdout) == (done.returncode == 0)


def test_folders_without_hard_links(tmp_path: pathlib.Path, monkeypatch: Any) -> None:
    def refused(*_: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_bytes(b"text")
    assert run(tmp_path / "in", tmp_path / "out", "encrypt")[0] == 0
    assert list(folder(tmp_path / "out")) == ["a.wl"]


def test_rewrap_keeps_what_the_store_knows_of_an_object(client: Any, bucket: str) -> None:
    me, new = Identity.generate(), Identity.generate()
    objects = {"small.wl": sealed(b"text", me), "large.wl": sealed(bytes(33 * MIB), me)}
    for key, body in objects.items():
        client.put_object(
            Bucket=bucket,
            Key=f"s/{key}",
            Body=body,
            Tagging="retain=7+years&a%3Db=c",
            StorageClass="STANDARD_IA",
            CacheControl="no-cache",
        )
    job = bulk.plan(f"s3://{bucket}/s", None, "rewrap", recipients=[new])
    assert bulk.run(job, identities=lambda: [me]).done == 2
    assert len(opened(download(client, bucket, "s"), new)["large"]) == 33 * MIB
    for key in objects:
        tags = client.get_object_tagging(Bucket=bucket, Key=f"s/{key}")["TagSet"]
        assert {tag["Key"]: tag["Value"] for tag in tags} == {"retain": "7 years", "a=b": "c"}
        head = client.head_object(Bucket=bucket, Key=f"s/{key}")
        assert (head["StorageClass"], head["CacheControl"]) == ("STANDARD_IA", "no-cache")


def test_rewrap_keeps_the_mode_of_a_file(tmp_path: pathlib.Path) -> None:
    me, new = Identity.generate(), Identity.generate()
    (tmp_path / "a.wl").write_bytes(sealed(b"text", me))
    (tmp_path / "a.wl").chmod(0o644)
    job = bulk.plan(tmp_path, None, "rewrap", recipients=[new])
    assert bulk.run(job, identities=lambda: [me]).done == 1
    assert (tmp_path / "a.wl").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("kind", ["s3", "memory", "folder"])
def test_rewrap_never_replaces_what_was_written_meanwhile(
    client: Any, bucket: str, tmp_path: pathlib.Path, monkeypatch: Any, kind: str
) -> None:
    me, new = Identity.generate(), Identity.generate()
    store = bulk.memory_store("memory://meanwhile")

    def renamed(data: bytes) -> None:
        (tmp_path / "new").write_bytes(data)
        (tmp_path / "new").rename(tmp_path / "a.wl")

    put: Callable[[bytes], Any]
    place, put, get = {
        "s3": (
            f"s3://{bucket}",
            lambda data: client.put_object(Bucket=bucket, Key="a.wl", Body=data),
            lambda: client.get_object(Bucket=bucket, Key="a.wl")["Body"].read(),
        ),
        "memory": (
            "memory://meanwhile",
            lambda data: obstore.put(store, "a.wl", data),
            lambda: bytes(obstore.get(store, "a.wl").bytes()),
        ),
        "folder": (str(tmp_path), renamed, (tmp_path / "a.wl").read_bytes),
    }[kind]
    put(sealed(b"text", me))
    made = _unit.Worker._new_envelope

    def slowly(self: Any, *arguments: Any) -> bytes:
        envelope = made(self, *arguments)
        put(b"other")
        return envelope

    monkeypatch.setattr(_unit.Worker, "_new_envelope", slowly)
    job = bulk.plan(place, None, "rewrap", recipients=[new])
    assert bulk.run(job, identities=lambda: [me]).changed == 1
    assert get() == b"other"


def test_the_command_line_says_what_is_wrong(
    client: Any, bucket: str, tmp_path: pathlib.Path, key_file: pathlib.Path, capsys: Any
) -> None:
    upload(client, bucket, "p", {"50%20off/a": b"text"})
    recipient = str(identity(key_file).to_public())
    out = f"s3://{bucket}/q"

    def told(code: int, *arguments: Any) -> str:
        assert command.main([str(each) for each in arguments]) == code
        said: str = capsys.readouterr().err
        return said

    encrypt = ("encrypt", "-r", recipient)
    # The object's own key, and a prefix with a fault.
    for wrong in ("p/50%20off/a", "pp"):
        assert "nothing to do is found there" in told(1, *encrypt, f"s3://{bucket}/{wrong}", out)
    # A prefix is not decoded.
    assert told(0, *encrypt, f"s3://{bucket}/p/50%20off", out) == ""
    # An answer of the store becomes one line.
    said = told(1, *encrypt, "s3://no-such-bucket/p", out)
    assert said.startswith("warplock.bulk: NoSuchBucket: The specified bucket does not exist (GET http")
    assert said.count("\n") == 1
    assert "No such file" in told(1, "verify", "-i", tmp_path / "none", f"s3://{bucket}/q")
    assert "give a regular file" in told(1, "verify", "-i", "/dev/null", f"s3://{bucket}/q")
    # Keys do not reach the terminal as they are.
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a\x1b[2J.wl").write_bytes(b"text")
    said = told(1, "verify", "-i", key_file, tmp_path / "in")
    assert said.startswith("a\\x1b[2J.wl: failed: ")


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_by_a_signal_is_one_sentence(
    client: Any, bucket: str, tmp_path: pathlib.Path, key_file: pathlib.Path, stop: signal.Signals
) -> None:
    upload(client, bucket, "p", tree(1, [3000] * 300))
    recipient = str(identity(key_file).to_public())
    call = [sys.executable, "-P", "-m", "warplock.bulk", "encrypt", "-r", recipient]
    call += [f"s3://{bucket}/p", f"s3://{bucket}/q"]
    there = dict(os.environ, TMPDIR=str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    process = subprocess.Popen(call, stderr=subprocess.PIPE, text=True, env=there)
    while not download(client, bucket, "q"):
        time.sleep(0.05)
    process.send_signal(stop)
    _, said = process.communicate()
    assert process.returncode == 128 + stop
    # The job has the names of all objects.
    assert os.listdir(tmp_path / "temporary") == []
    assert said == "warplock.bulk: stopped; the same command goes on from here\n"
    subprocess.run(call, check=True)
    assert len(opened(download(client, bucket, "q"), key_file)) == 300
