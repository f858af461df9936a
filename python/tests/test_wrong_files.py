"""Files that cannot be what they are given for."""

from __future__ import annotations

import gc
import io
import os
import pathlib
import signal
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

import warplock
from warplock import parquet
from warplock.keys import Identity, recipients_of, write_identity, write_key_file


@pytest.fixture(autouse=True)
def _folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_no_key_is_replaced_by_what_it_encrypts_or_opens() -> None:
    write_identity("key.txt")
    (me,) = recipients_of("key.txt")
    write_key_file("raw.key")
    team = pathlib.Path("team.txt")
    team.write_text(f"{me}\n")
    pathlib.Path("text").write_text("a long story")
    warplock.encrypt_file("text", "text.wl", recipients=me)
    os.link("key.txt", "link")
    files = ["key.txt", "raw.key", "team.txt"]
    before = {name: pathlib.Path(name).read_bytes() for name in files}
    calls: list[Callable[[], Any]] = [
        lambda: warplock.encrypt_file("text", "team.txt", recipients=[team], replace=True),
        lambda: warplock.encrypt_file("text", "key.txt", identities="key.txt", replace=True),
        lambda: warplock.encrypt_file("text", "raw.key", key="raw.key", replace=True),
        lambda: warplock.decrypt_file("text.wl", "key.txt", identities="key.txt", replace=True),
        lambda: warplock.decrypt_file("text.wl", "link", identities=["key.txt"], replace=True),
        lambda: warplock.open("./team.txt", "wb", recipients=team),
        # Whatever they are listed in.
        lambda: warplock.decrypt_file("text.wl", "key.txt", identities=iter(["key.txt"]), replace=True),
        lambda: warplock.encrypt_file("text", "key.txt", identities={"key.txt": 1}, replace=True),
        lambda: warplock.encrypt_file("text", "team.txt", recipients={team: 1}.keys(), replace=True),
        lambda: warplock.open("key.txt", "wb", identities=deque(["key.txt"])),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="is read as well, for its keys"):
            call()
    for name in files:
        assert pathlib.Path(name).read_bytes() == before[name]
    with pytest.raises(FileExistsError):
        warplock.encrypt_file("text", team, recipients=team)
    warplock.encrypt_file("text", io.BytesIO(), recipients=team, replace=True)


def test_tensors_do_not_replace_their_key() -> None:
    np = pytest.importorskip("numpy")
    from warplock.safetensors import save_file

    write_key_file("raw.key")
    before = pathlib.Path("raw.key").read_bytes()
    with pytest.raises(ValueError, match="is read as well, for its keys"):
        save_file({"a": np.zeros(4, "f4")}, "raw.key", key="raw.key")
    assert pathlib.Path("raw.key").read_bytes() == before


def test_models_of_several_files_do_not_replace_their_key() -> None:
    np = pytest.importorskip("numpy")
    from warplock.safetensors import save_sharded

    tensors = {"a": np.zeros(4, "f4"), "b": np.zeros(4, "f4")}
    for name, most in (
        ("model.safetensors.wl", 1000),
        ("model.safetensors.index.json.wl", 16),
        ("model-00001-of-00002.safetensors.wl", 16),
        ("model-00003-of-00003.safetensors.wl", 16),
    ):
        write_key_file(name)
        pathlib.Path("model.safetensors.index.json.wl").touch()
        before = {file: file.read_bytes() for file in pathlib.Path().glob("model*")}
        with pytest.raises(ValueError, match="is read as well, for its keys"):
            save_sharded(tensors, ".", max_shard_size=most, key=name)
        assert {file: file.read_bytes() for file in pathlib.Path().glob("model*")} == before
        for file in before:
            file.unlink()


def test_fsspec_does_not_replace_its_key() -> None:
    pytest.importorskip("fsspec")
    from warplock.fs import WarplockFileSystem

    write_key_file("raw.key")
    before = pathlib.Path("raw.key").read_bytes()
    with pytest.raises(ValueError, match="is read as well, for its keys"):
        WarplockFileSystem(key="raw.key").open("raw.key", "wb")
    assert pathlib.Path("raw.key").read_bytes() == before


def test_folders_are_named_by_their_error() -> None:
    me = Identity.generate()
    os.mkdir("d")
    pathlib.Path("text").write_text("a long story")
    calls: list[Callable[[], Any]] = [
        lambda: warplock.encrypt_file("d", "out", recipients=me),
        lambda: warplock.encrypt_file("text", "d", recipients=me),
        lambda: warplock.decrypt_file("d", "out", identities=me),
        lambda: warplock.verify_file("d", identities=me),
        lambda: warplock.inspect("d"),
        lambda: warplock.open("d", identities=me),
        lambda: warplock.open("d", "wb", recipients=me),
        lambda: parquet.decrypt("d", bytes(16)),
        lambda: parquet.encrypt("d", bytes(16)),
    ]
    for call in calls:
        with pytest.raises(IsADirectoryError) as raised:
            call()
        assert raised.value.filename == "d"
    assert not pathlib.Path("out").exists()


def test_what_is_no_file_is_refused_in_words() -> None:
    me = Identity.generate()
    calls: list[Callable[[Any], Any]] = [
        lambda file: warplock.encrypt_file(file, "out", recipients=me),
        lambda file: warplock.encrypt_file(io.BytesIO(), file, recipients=me),
        lambda file: warplock.open(file, identities=me),
        lambda file: warplock.inspect(file),
    ]
    for call in calls:
        for wrong in (b"name", 5, None, ["name"]):
            with pytest.raises(TypeError, match="a str, a path or a binary file object, not "):
                call(wrong)
        with pytest.raises(ValueError, match="embedded null byte"):
            call("a\0b")
    with pytest.raises(TypeError, match="a binary file object, not int"):
        parquet.decrypt(5, bytes(16))  # type: ignore[call-overload]
    prefix: Any = "v1"
    for function in (parquet.decrypt, parquet.encrypt, parquet.open):
        with pytest.raises(TypeError, match="aad_prefix must be bytes, not str"):
            function(b"", bytes(16), aad_prefix=prefix)
    with pytest.raises(TypeError, match="key_metadata must be bytes, not str"):
        parquet.encrypt(b"", bytes(16), key_metadata=prefix)
    keys: Any = [bytes(16)]
    for function in (parquet.decrypt, parquet.encrypt, parquet.open):
        with pytest.raises(TypeError, match="column_keys must be a dict by column path .* not list"):
            function(b"", bytes(16), column_keys=keys)
    with pytest.raises(TypeError, match="column_key_metadata must be a dict"):
        parquet.encrypt(b"", bytes(16), column_key_metadata=keys)
    assert not pathlib.Path("out").exists()


class Odd(io.BytesIO):
    """A file object of somebody's own."""

    def __init__(self, data: bytes = b"", read: Any = None, write: Any = None) -> None:
        super().__init__(data)
        self.answers = (read, write)

    def read(self, size: int | None = -1, /) -> Any:
        return self.answers[0](super().read(size)) if self.answers[0] else super().read(size)

    def write(self, data: Any, /) -> Any:
        return self.answers[1](super().write(data)) if self.answers[1] else super().write(data)


def test_what_a_file_object_cannot_give_or_take_is_never_lost() -> None:
    me = Identity.generate()
    text = os.urandom(100_000)

    def there_and_back(source: Any, target: Any) -> bytes:
        warplock.encrypt_file(source, target, recipients=me)
        return warplock.open(io.BytesIO(target.getvalue()), identities=me).read()

    # None was taken for the end.
    with pytest.raises(BlockingIOError, match="without waiting"):
        there_and_back(Odd(text, read=lambda _: None), Odd())
    with pytest.raises(OSError, match="more bytes than it was asked for"):
        there_and_back(Odd(text, read=lambda data: data and data + bytes(1 << 20)), Odd())
    with pytest.raises(OSError, match="more bytes than there were"):
        there_and_back(Odd(text), Odd(write=lambda count: count + 1))
    with pytest.raises(OSError, match="more bytes than there were"):
        with warplock.open(Odd(write=lambda count: count + 1), "wb", recipients=me) as file:
            file.write(text)
    # Only raw files say so when they took nothing.
    assert there_and_back(Odd(text), Odd(write=lambda _: None)) == text
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    os.set_blocking(reader, False)
    with io.FileIO(reader) as waiting, io.FileIO(writer, "w") as full:
        with pytest.raises(BlockingIOError):
            warplock.encrypt_file(waiting, io.BytesIO(), recipients=me)
        with pytest.raises(BlockingIOError):
            warplock.encrypt_file(io.BytesIO(bytes(1 << 20)), full, recipients=me)


def test_no_table_appears_after_ctrl_c() -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    table = pa.table({"a": pa.array(range(8_000_000))})
    pq.write_table(table, "plain", compression="none", use_dictionary=False)
    # The signal may come between the appearance of the file and the return of the call.
    for _ in range(5):
        timer = threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            parquet.encrypt("plain", bytes(16), out="sealed", replace=True)
            time.sleep(10)
        timer.join()
        if not pathlib.Path("sealed").exists():
            break
        os.remove("sealed")
    else:
        pytest.fail("the file appeared in spite of Ctrl-C")


def test_ctrl_c_ends_work_on_tables_early() -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    # Constant-time code, in ten row groups: half a second and more.
    engine = warplock.Engine("cpu:portable", threads=1)
    table = pa.table({"a": pa.array(range(4_000_000))})
    pq.write_table(table, "plain", compression="none", use_dictionary=False, row_group_size=400_000)
    calls: list[Callable[[], Any]] = [
        lambda: parquet.encrypt("plain", bytes(16), out="sealed", engine=engine),
        lambda: parquet.decrypt("sealed", bytes(16), out="opened", engine=engine),
    ]
    for call in calls:
        start = time.monotonic()
        call()
        whole = time.monotonic() - start
        made = {file.name for file in pathlib.Path().iterdir()}
        for name in made - {"plain", "sealed"}:
            os.remove(name)
        sealed = pathlib.Path("sealed").rename("kept") if call is calls[0] else None
        timer = threading.Timer(whole / 10, os.kill, (os.getpid(), signal.SIGINT))
        start = time.monotonic()
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            call()
            time.sleep(10)
        took = time.monotonic() - start
        timer.join()
        assert took < 0.7 * whole
        if sealed is not None:
            sealed.rename("sealed")
    assert not pathlib.Path("opened").exists()


def test_the_time_to_refuse_is_before_the_work() -> None:
    me = Identity.generate()
    text = bytes(100)
    warplock.encrypt_file(io.BytesIO(text), "a.wl", recipients=me)
    before = os.listdir()
    number: Any = 5
    with pytest.raises(TypeError, match="progress must be a function"):
        warplock.decrypt_file("a.wl", "b", identities=me, progress=number)
    for span in ((5, 1), (-1, 5), (-2, -1)):
        with pytest.raises(ValueError, match="a range is"):
            warplock.decrypt_file("a.wl", "b", identities=me, range=span)
    with pytest.raises(FileNotFoundError):
        warplock.encrypt_file(io.BytesIO(text), "", recipients=me)
    for wrong in (b"age1", number, [number]):
        with pytest.raises(TypeError, match="a recipient is .*, not (bytes|int)"):
            warplock.encrypt_file(io.BytesIO(text), "b", recipients=wrong)
    with pytest.raises(warplock.KeyringError, match=r'give pathlib\.Path\("a\.wl"\)'):
        warplock.encrypt_file(io.BytesIO(text), "b", recipients="a.wl")
    with pytest.raises(TypeError, match="an identity is .*, not int"):
        warplock.decrypt_file("a.wl", "b", identities=number)
    with pytest.raises(TypeError, match="read returned str instead of bytes"):
        source: Any = io.StringIO("text")
        warplock.encrypt_file(source, "b", recipients=me)
    assert os.listdir() == before


def test_a_relative_path_stays_where_it_was_named() -> None:
    """It led from the folder in which the program was in the end, where it replaced another file."""
    me = Identity.generate()
    os.mkdir("elsewhere")
    pathlib.Path("elsewhere/a.wl").write_bytes(b"another file")
    with warplock.open("a.wl", "wb", recipients=me) as file:
        os.chdir("elsewhere")
        file.write(b"text")
    assert pathlib.Path("a.wl").read_bytes() == b"another file"
    assert warplock.verify_file("../a.wl", identities=me) == 4
    os.chdir("..")


def test_a_file_that_is_written_belongs_to_one_process() -> None:
    """Both wrote to it: it was damaged without an exception, and nonces were used twice."""
    me = Identity.generate()
    file = warplock.open("a.wl", "wb", recipients=me)
    file.write(b"from the parent")
    child = os.fork()
    if child == 0:
        refused = 0
        for work in (lambda: file.write(b"from the child"), file.close):
            try:
                work()
            except ValueError as error:
                refused += "fork" in str(error)
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    assert not os.path.exists("a.wl")
    file.write(b", too")
    file.close()
    with warplock.open("a.wl", identities=me) as back:
        assert back.read() == b"from the parent, too"


@pytest.mark.parametrize("wrapper", [io.TextIOWrapper, io.BufferedWriter])
def test_a_block_that_fails_leaves_nothing_whatever_wraps_the_file(wrapper: Any) -> None:
    """The wrapper closed the file before its own block could know of the exception."""
    me = Identity.generate()
    text: Any = "text" if wrapper is io.TextIOWrapper else b"text"
    with pytest.raises(ZeroDivisionError):
        with warplock.open("a.wl", "wb", recipients=me) as file, wrapper(file) as outer:
            outer.write(text)
            1 / 0
    assert file.closed and os.listdir() == []
    with warplock.open("a.wl", "wb", recipients=me) as file:
        with wrapper(file) as outer:
            outer.write(text)
        assert file.closed and os.listdir() == []
    assert warplock.verify_file("a.wl", identities=me) == 4
    with warplock.open("a.wl", "wb", recipients=me) as file:
        file.write(b"longer text")
        file.close()
        with pytest.raises(ValueError, match="closed"):
            file.write(b"more")
    assert warplock.verify_file("a.wl", identities=me) == 11


def test_a_file_that_is_forgotten_is_told() -> None:
    me = Identity.generate()
    with pytest.warns(RuntimeWarning, match="was not closed"):
        warplock.open("a.wl", "wb", recipients=me).write(b"text")
        gc.collect()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for end in (lambda file: file.close(), lambda file: file.abandon()):
            file = warplock.open("b.wl", "wb", recipients=me)
            end(file)
            del file
            gc.collect()
    assert os.listdir() == ["b.wl"]
