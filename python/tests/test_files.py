"""Encrypted files, keys, and the command line."""

from __future__ import annotations

import io
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

import pytest

import warplock
from warplock.keys import (
    Identity,
    Recipient,
    new_envelope,
    recipients_of,
    write_identity,
    write_key_file,
)

CLI = [sys.executable, "-m", "warplock"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_file_there_and_back():
    me = Identity.generate()
    for length in (0, 1, 16383, 16384, 100_000, 5 << 20):
        text = os.urandom(length)
        pathlib.Path("a").write_bytes(text)
        seen = []
        done = warplock.encrypt_file("a", "a.wl", recipients=me, replace=True, progress=seen.append)
        assert done == length and seen[-1] >= length
        assert warplock.verify_file("a.wl", identities=me) == length
        assert warplock.decrypt_file("a.wl", "b", identities=[me], replace=True) == length
        assert pathlib.Path("b").read_bytes() == text
        with warplock.open("a.wl", identities=me) as file:
            assert file.read() == text
        found = warplock.inspect("a.wl")
        assert (found.format, found.opens_with, found.content, found.is_cut) == (
            "warplock/1", ["X25519"], length, False,
        )  # fmt: skip


def test_permissions_and_times_come_back():
    me = Identity.generate()
    when, a, b = 1_234_567_890_123_456_789, pathlib.Path("a"), pathlib.Path("b")
    a.write_bytes(b"text")
    a.chmod(0o750)
    os.utime(a, ns=(when, when))
    umask = os.umask(0o027)
    try:
        for kept, restored in ((True, True), (True, False), (False, True)):
            warplock.encrypt_file(a, "a.wl", recipients=me, replace=True, attributes=kept)
            warplock.decrypt_file("a.wl", b, identities=me, attributes=restored)
            found = b.stat()
            as_before = (found.st_mode & 0o777, found.st_mtime_ns) == (0o750, when)
            assert as_before == (kept and restored)
            b.unlink()
        # Never looser than the umask.
        a.chmod(0o666)
        warplock.encrypt_file(a, "a.wl", recipients=me, replace=True)
        os.umask(0o077)
        warplock.decrypt_file("a.wl", b, identities=me)
        assert b.stat().st_mode & 0o777 == 0o600
        # A part is not the file, and a passphrase leaves no room.
        warplock.decrypt_file("a.wl", b, identities=me, range=(1, 2), replace=True)
        assert b.stat().st_mtime_ns != when
        warplock.encrypt_file(a, "a.wl", passphrase="words", replace=True)
        warplock.decrypt_file("a.wl", b, passphrase="words", replace=True)
        assert b.stat().st_mtime_ns != when
    finally:
        os.umask(umask)


def test_the_command_line_is_the_same():
    write_identity("key.txt")
    (recipient,) = recipients_of("key.txt")
    pathlib.Path("a").write_bytes(os.urandom(50_000))
    subprocess.run([*CLI, "encrypt", "-r", str(recipient), "a"], check=True)
    assert warplock.decrypt_file("a.wl", "b", identities="key.txt") == 50_000
    warplock.encrypt_file("b", "b.wl", recipients=[recipient])
    subprocess.run([*CLI, "decrypt", "-i", "key.txt", "-o", "c", "b.wl"], check=True)
    assert pathlib.Path("a").read_bytes() == pathlib.Path("c").read_bytes()
    refused = subprocess.run([*CLI, "decrypt", "-i", "key.txt", "a"], capture_output=True)
    assert refused.returncode == 2
    shown = subprocess.run([*CLI, "--version"], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["warplock", warplock.__version__]
    # The reader of a pipe that ends early ends the program by SIGPIPE.
    with open("big", "wb") as file:
        file.truncate(50 << 20)
    command = [*CLI, "encrypt", "-r", str(recipient), "-o", "-", "big"]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    first.stdout.close()
    error = first.stderr.read()
    assert first.wait() == -signal.SIGPIPE, error


def test_key_files_and_bare_streams():
    write_key_file("key")
    assert os.stat("key").st_mode & 0o077 == 0
    with pytest.raises(OSError):
        write_key_file("key")
    raw = bytes.fromhex(pathlib.Path("key").read_text().strip())
    pathlib.Path("a").write_bytes(b"text")
    warplock.encrypt_file("a", "a.wl", key="key")
    assert pathlib.Path("a.wl").stat().st_size == warplock.sealed_len(4)
    for key in (raw, bytearray(raw), pathlib.Path("key")):
        with warplock.open("a.wl", key=key) as file:
            assert file.read() == b"text"
    with pytest.raises(warplock.WrongKeyError):
        warplock.open("a.wl", key=bytes(32))
    with pytest.raises(ValueError, match="32 bytes"):
        warplock.open("a.wl", key=b"short")
    with pytest.raises(ValueError, match="alone"):
        warplock.encrypt_file("a", "b.wl", key=raw, passphrase="x")


def test_a_function_is_asked_for_the_key_each_time():
    asked = []

    def key():
        asked.append(None)
        return bytearray(range(32))

    with open("a", "wb") as file:
        file.write(b"told by a key service")
    warplock.encrypt_file("a", "a.wl", key=key)
    assert warplock.decrypt_file("a.wl", "b", key=bytes(range(32))) == 21
    with warplock.open("a.wl", key=key) as file:
        assert file.read() == b"told by a key service"
    assert len(asked) == 2

    def fails():
        raise ConnectionError("the key service is away")

    with pytest.raises(ConnectionError, match="away"):
        warplock.decrypt_file("a.wl", "c", key=fails)
    with pytest.raises(ValueError, match="32"):
        warplock.decrypt_file("a.wl", "c", key=lambda: b"short")
    assert not os.path.exists("c")


def test_passphrases():
    pathlib.Path("a").write_bytes(b"text")
    warplock.encrypt_file("a", "a.wl", passphrase="correct horse")
    asked = []

    def ask(what):
        asked.append(what)
        return "correct horse"

    for passphrase in ("correct horse", b"correct horse", ask):
        with warplock.open("a.wl", passphrase=passphrase) as file:
            assert file.read() == b"text"
    assert len(asked) == 1
    with pytest.raises(warplock.WrongKeyError):
        warplock.open("a.wl", passphrase="wrong")

    def fail(what):
        raise RuntimeError("nobody here")

    with pytest.raises(warplock.KeyringError, match="nobody here"):
        warplock.open("a.wl", passphrase=fail)
    with pytest.raises(ValueError):
        warplock.open("a.wl")
    with pytest.raises(ValueError):
        warplock.encrypt_file("a", "b.wl")


def test_recipients_of_all_kinds():
    people = [Identity.generate() for _ in range(4)]
    pathlib.Path("list").write_text(f"# people\n{people[2].to_public()}\n")
    pathlib.Path("id").write_text(f"{people[3]}\n")
    pathlib.Path("a").write_bytes(b"text")
    given = [people[0], str(people[1].to_public()), pathlib.Path("list")]
    warplock.encrypt_file("a", "a.wl", recipients=given, identities="id")
    for who in people:
        with warplock.open("a.wl", identities=who) as file:
            assert file.read() == b"text"
    with pytest.raises(warplock.WrongKeyError):
        warplock.open("a.wl", identities=Identity.generate())
    with pytest.raises(warplock.KeyringError):
        Recipient.from_str("age1nothing")
    with pytest.raises(warplock.KeyringError):
        Identity.from_str("AGE-SECRET-KEY-1NOTHING")
    with pytest.raises(TypeError):
        warplock.encrypt_file("a", "b.wl", recipients=[5])
    assert str(people[0]) not in repr(people[0])
    assert hash(people[0].to_public()) == hash(Recipient.from_str(str(people[0].to_public())))


def test_random_access_is_as_in_a_plain_file():
    chance = random.Random(5)
    text = chance.randbytes(5_000_000)
    key = bytes(32)
    with warplock.open("a.wl", "wb", key=key) as file:
        start = 0
        while start < len(text):
            step = chance.choice([1, 1000, 16384, 400_000])
            file.write(text[start : start + step])
            start += step
    pathlib.Path("plain").write_bytes(text)
    for source in ("a.wl", io.BytesIO(pathlib.Path("a.wl").read_bytes()), open("a.wl", "rb")):
        with warplock.open(source, key=key) as ours, open("plain", "rb") as plain:
            for _ in range(200):
                whence = chance.choice([0, 1, 2])
                by = chance.randrange(len(text)) if whence == 0 else chance.randrange(-1000, 1000)
                if whence == 1 and plain.tell() + by < 0:
                    continue
                by = min(by, 0) if whence == 2 else by
                assert ours.seek(by, whence) == plain.seek(by, whence)
                length = chance.choice([0, 1, 100, 16384, 70_000, 2_000_000])
                assert ours.read(length) == plain.read(length)
            buffer = bytearray(3_000_000)
            ours.seek(1_234_567)
            assert ours.readinto(buffer) == len(buffer)
            assert buffer == text[1_234_567 : 1_234_567 + len(buffer)]
            ours.seek(10_000_000)
            assert ours.read(5) == b""
            with pytest.raises((ValueError, OSError)):
                ours.seek(-1)


@pytest.mark.parametrize("length", [100_000, 4 << 20])
def test_changes_are_noticed_and_placed(length):
    key = bytes(32)
    pathlib.Path("a").write_bytes(bytes(length))
    warplock.encrypt_file("a", "a.wl", key=key)
    sealed = bytearray(pathlib.Path("a.wl").read_bytes())
    sealed[56 + 3 * 16400 + 5] ^= 1
    pathlib.Path("b.wl").write_bytes(sealed)
    with pytest.raises(warplock.CorruptedError) as refused:
        warplock.decrypt_file("b.wl", "b", key=key)
    assert (refused.value.chunk, refused.value.offset) == (3, 3 * 16384)
    assert not os.path.exists("b")
    with warplock.open("b.wl", key=key) as file:
        assert file.read(3 * 16384) == bytes(3 * 16384)
        with pytest.raises(warplock.CorruptedError):
            file.read()
    assert warplock.decrypt_file("b.wl", "part", key=key, range=(0, 16384)) == 16384
    pathlib.Path("c.wl").write_bytes(sealed[: 56 + 2 * 16400])
    with pytest.raises(warplock.TruncatedError):
        warplock.verify_file("c.wl", key=key)
    assert warplock.inspect("c.wl").is_cut
    pathlib.Path("d.wl").write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(warplock.FormatError, match="ZIP"):
        warplock.verify_file("d.wl", passphrase="x")


def test_outputs_appear_whole_or_not_at_all():
    pathlib.Path("a").write_bytes(b"old")
    with pytest.raises(FileExistsError) as refused:
        warplock.encrypt_file("a", "a", key=bytes(32))
    assert refused.value.filename == "a"
    with pytest.raises(FileNotFoundError) as refused:
        warplock.encrypt_file("none", "b", key=bytes(32))
    assert refused.value.filename == "none"
    with pytest.raises(ZeroDivisionError), warplock.open("b.wl", "wb", key=bytes(32)) as file:
        file.write(bytes(1_000_000))
        1 / 0
    abandoned = warplock.open("b.wl", "wb", key=bytes(32))
    abandoned.write(b"x")
    with pytest.warns(RuntimeWarning, match="was not closed"):
        del abandoned
    with pytest.raises(FileExistsError):
        warplock.open("a", "xb", key=bytes(32))
    assert os.listdir() == ["a"]
    with pytest.raises(ValueError):
        file.write(b"x")
    with warplock.open("a", "wb", key=bytes(32)) as file:
        file.write(b"new")
        assert pathlib.Path("a").read_bytes() == b"old"
    with warplock.open("a", key=bytes(32)) as file:
        assert file.read() == b"new"


def test_file_objects():
    me = Identity.generate()
    text = os.urandom(1_000_000)
    store = io.BytesIO()
    warplock.encrypt_file(io.BytesIO(text), store, recipients=me)
    store.seek(0)
    back = io.BytesIO()
    assert warplock.decrypt_file(store, back, identities=me) == len(text)
    assert back.getvalue() == text

    class Broken(io.BytesIO):
        def read(self, size=-1):
            raise RuntimeError("the tape is torn")

    with pytest.raises(RuntimeError, match="torn"):
        warplock.encrypt_file(Broken(), "b.wl", recipients=me)

    class Full(io.BytesIO):
        def write(self, data):
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError) as refused:
        warplock.encrypt_file(io.BytesIO(text), Full(), recipients=me)
    assert refused.value.errno == 28
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as pipe:
        os.close(writer)
        with pytest.raises(ValueError, match="seekable"):
            warplock.open(pipe, identities=me)
    assert os.listdir() == []


def test_parts_of_many_machines():
    key, envelope = new_envelope(Identity.generate())
    text = os.urandom(1_000_000)
    first = warplock.PartSealer(key, len(text))
    stream = b""
    for start, stop in first.parts(20):
        other = warplock.PartSealer(key, len(text), first.header)
        low, high = other.plain_range(start, stop)
        part = other.seal(start, stop, text[low:high])
        assert (len(stream), len(stream) + len(part)) == other.sealed_range(start, stop)
        stream += part
    assert len(stream) == warplock.sealed_len(len(text))
    with warplock.open(io.BytesIO(stream), key=key) as file:
        assert file.read() == text
    assert warplock.inspect(io.BytesIO(envelope + stream)).content == len(text)
    with pytest.raises(ValueError):
        first.seal(0, 20, b"short")
    with pytest.raises(warplock.WrongKeyError):
        warplock.PartSealer(bytes(32), len(text), first.header)


def test_no_thread_is_an_error_like_any_other():
    pathlib.Path("a").write_bytes(bytes(1 << 20))
    # Engines with more threads say it themselves.
    program = """if True:
        import warplock
        engine = warplock.Engine("cpu", threads=1)
        warplock.encrypt_file("a", "a.wl", key=bytes(32), engine=engine)
    """
    # No thread gets a stack of more than the address space.
    environment = os.environ | {"RUST_MIN_STACK": "200000000000000"}
    command = [sys.executable, "-P", "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert "Error: cannot start a thread" in done.stderr
    assert os.listdir() == ["a"]


def test_progress_may_stop_the_work():
    with open("a", "wb") as file:
        file.truncate(1 << 30)

    def stop(done):
        raise LookupError(done)

    with pytest.raises(LookupError):
        warplock.encrypt_file("a", "a.wl", key=bytes(32), progress=stop)
    assert os.listdir() == ["a"]


@pytest.mark.parametrize("old", [None, b"old"])
def test_progress_that_raises_leaves_all_or_nothing_new(old):
    """The last call comes when the output is in place."""
    text = b"a long story" * 1000
    pathlib.Path("a").write_bytes(text)
    sealed = pathlib.Path("a.wl")
    for last in (1, 2):
        if old is not None:
            sealed.write_bytes(old)
        calls = []

        def stop(done):
            calls.append(done)
            if len(calls) == last:
                raise LookupError(done)

        try:
            warplock.encrypt_file("a", sealed, key=bytes(32), replace=True, progress=stop)
        except LookupError:
            pass
        there = sealed.read_bytes() if sealed.exists() else None
        assert there == old or warplock.verify_file(sealed, key=bytes(32)) == len(text)
        assert set(os.listdir()) <= {"a", "a.wl"}


def test_ctrl_c_leaves_nothing():
    with open("a", "wb") as file:
        file.truncate(4 << 30)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            # To nowhere: a disk would only slow it down.
            warplock.encrypt_file("a", "/dev/shm/warplock-test.wl", key=bytes(32))
    finally:
        timer.join()
    assert os.listdir() == ["a"]
    assert not os.path.exists("/dev/shm/warplock-test.wl")


def test_age_opens_the_envelope():
    """docs/format.md: age and ten lines of Python."""
    chunked = pytest.importorskip("cryptography.hazmat.primitives.kdf.hkdf")
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    key = bytes(range(32))
    with warplock.open("a.wl", "wb", key=key) as file:
        file.write(b"text")
    stream = pathlib.Path("a.wl").read_bytes()
    info = b"c2sp.org/chunked-encryption@v1+AEAD_AES_256_GCM\x00" + stream[:24]
    made = chunked.HKDFExpand(hashes.SHA512(), 76, info).derive(key)
    assert made[44:] == stream[24:56]
    assert AESGCM(made[:32]).decrypt(made[32:44], stream[56:], None) == b"text"


def test_a_temporary_file_object():
    with tempfile.TemporaryFile() as store:
        with warplock.open(store, "wb", key=bytes(32)) as file:
            file.write(b"text")
        with warplock.open(store, key=bytes(32)) as file:
            assert file.readline() == b"text"


def test_the_command_line_mounts_in_the_background():
    """It starts itself once more: with this environment's interpreter."""
    if not os.path.exists("/dev/fuse") or shutil.which("fusermount3") is None:
        pytest.skip("there is no FUSE here")
    write_identity("key.txt")
    (recipient,) = recipients_of("key.txt")
    subprocess.run([*CLI, "vault", "init", "-r", str(recipient), "store"], check=True)
    os.mkdir("mount")
    mount = [*CLI, "vault", "mount", "-i", "key.txt", "store", "mount"]
    mounted = subprocess.run(mount, capture_output=True, text=True, timeout=60)
    if mounted.returncode != 0 and "fuse" in mounted.stderr.lower():
        pytest.skip(f"FUSE does not work here: {mounted.stderr}")
    assert mounted.returncode == 0, mounted.stderr
    try:
        pathlib.Path("mount/a").write_bytes(b"text")
        assert pathlib.Path("mount/a").read_bytes() == b"text"
    finally:
        subprocess.run(["fusermount3", "-u", "mount"], check=True)


def test_other_keys_for_a_file(tmp_path: Path) -> None:
    old, new = Identity.generate(), Identity.generate()
    sealed = tmp_path / "a.wl"
    for size in (10, 3_000_000):
        text = os.urandom(size)
        warplock.encrypt_file(io.BytesIO(text), sealed, recipients=old, replace=True)
        with pytest.raises(warplock.WrongKeyError):
            warplock.rewrap(sealed, identities=new, recipients=new)
        warplock.rewrap(sealed, identities=old, recipients=[new])
        with pytest.raises(warplock.WrongKeyError):
            warplock.verify_file(sealed, identities=old)
        warplock.rewrap(sealed, identities=new, recipients=old, rekey=True)
        with warplock.open(sealed, identities=old) as file:
            assert file.read() == text
    with pytest.raises(FileNotFoundError):
        warplock.rewrap(tmp_path / "missing", identities=old, recipients=new)
    with pytest.raises(ValueError, match="what opens it"):
        warplock.rewrap(sealed, recipients=new)
    assert [path.name for path in tmp_path.iterdir()] == ["a.wl"]
