"""fsspec, and what reads through it."""

from __future__ import annotations

import io
import os

import pytest

import warplock
from warplock.fs import WarplockFileSystem
from warplock.keys import Identity

fsspec = pytest.importorskip("fsspec")
ME = Identity.generate()
OPTIONS = {"recipients": ME, "identities": ME}


@pytest.fixture(params=["memory", "file"])
def store(request, tmp_path):
    """A prefix of URLs, and the file system underneath."""
    under = fsspec.filesystem(request.param)
    place = f"memory://{tmp_path.name}" if request.param == "memory" else f"file://{tmp_path}"
    return f"warplock::{place}", under


def test_there_and_back(store):
    url, under = store
    text = os.urandom(200_000)
    with fsspec.open(url + "/a.wl", "wb", warplock=OPTIONS) as file:
        file.write(text)
    path = (url + "/a.wl").removeprefix("warplock::")
    with under.open(path) as file:
        assert file.read(11) == b"warplock/1\n"
    with fsspec.open(url + "/a.wl", "rb", warplock=OPTIONS) as file:
        assert file.read() == text
        file.seek(100_000)
        assert file.read(5) == text[100_000:100_005]
    fs, name = fsspec.url_to_fs(url + "/a.wl", warplock=OPTIONS)
    assert fs.info(name)["size"] == fs.size(name) == len(text)
    assert fs.cat_file(name, 50_000, 50_010) == text[50_000:50_010]
    assert fs.cat_file(name, start=-3) == text[-3:] and fs.read_block(name, 5, 7) == text[5:12]
    assert fs.exists(name) and fs.isfile(name) and not fs.isdir(name)
    fs.pipe_file(name, b"new")
    assert fs.cat_file(name) == b"new" and fs.size(name) == 3
    fs.rm_file(name)
    assert not fs.exists(name)


def test_what_was_not_finished_does_not_appear_complete(store):
    url, _ = store
    fs, name = fsspec.url_to_fs(url + "/a.wl", warplock=OPTIONS)
    with pytest.raises(ZeroDivisionError), fs.open(name, "wb") as file:
        file.write(bytes(1_000_000))
        1 / 0
    with pytest.raises((warplock.DecryptionError, FileNotFoundError)):
        fs.cat_file(name)


def test_a_local_file_stays_until_the_new_one_is_complete(tmp_path):
    fs = fsspec.filesystem("warplock", **OPTIONS)
    name = str(tmp_path / "a.wl")
    fs.pipe_file(name, b"old")
    with pytest.raises(ZeroDivisionError), fs.open(name, "wb") as file:
        file.write(bytes(1_000_000))
        1 / 0
    assert fs.cat_file(name) == b"old"
    fs = fsspec.filesystem("warplock", target_options={"auto_mkdir": True}, **OPTIONS)
    fs.pipe_file(str(tmp_path / "new" / "b.wl"), b"text")
    assert sorted(os.listdir(tmp_path)) == ["a.wl", "new"]


def test_transactions(tmp_path):
    fs = fsspec.filesystem("warplock", **OPTIONS)
    name = str(tmp_path / "a.wl")
    for fails in (True, False):
        try:
            with fs.transaction:
                with fs.open(name, "wb") as file:
                    file.write(b"text")
                with pytest.raises(ZeroDivisionError), fs.open(name + "2", "wb") as file:
                    1 / 0
                assert os.listdir(tmp_path) == []
                if fails:
                    raise KeyError
        except KeyError:
            assert os.listdir(tmp_path) == []
    assert os.listdir(tmp_path) == ["a.wl"] and fs.cat_file(name) == b"text"
    fs, name = fsspec.url_to_fs("warplock::memory://a.wl", warplock=OPTIONS)
    with pytest.raises(NotImplementedError, match="local files"), fs.transaction:
        fs.open(name, "wb")
    assert not fs.exists(name)


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"recipients": "age1nonsense"},
        {"recipients": 7},
        {"key": bytes(31)},
        {"key": "no such key file"},
        {"passphrase": 3},
    ],
)
def test_bad_keys_leave_the_older_file_alone(store, keys, tmp_path):
    url, under = store
    with fsspec.open(url + "/a.wl", "wb", warplock=OPTIONS) as file:
        file.write(b"old")
    fs, name = fsspec.url_to_fs(url + "/a.wl", warplock=keys)
    for mode in ("wb", "xb"):
        with pytest.raises((ValueError, TypeError, OSError, warplock.Error)):
            fs.open(name, mode)
        with pytest.raises((ValueError, TypeError, OSError, warplock.Error)):
            fs.open(name.replace("a.wl", "new.wl"), mode)
    with fsspec.open(url + "/a.wl", "rb", warplock=OPTIONS) as file:
        assert file.read() == b"old"
    assert not fs.exists(name.replace("a.wl", "new.wl"))


def test_a_place_that_cannot_be_written_is_refused(store):
    url, _ = store
    fs, name = fsspec.url_to_fs(url + "/a.wl", warplock=OPTIONS)
    fs.pipe_file(name, b"old")
    with pytest.raises(FileExistsError):
        fs.open(name, "xb")
    assert fs.cat_file(name) == b"old"
    if "file" in url:
        with pytest.raises(FileNotFoundError):
            fs.open(name.replace("a.wl", "none/a.wl"), "wb")


class Counting:
    """A file that knows which bytes were read."""

    def __init__(self, file):
        self.file, self.read_bytes = file, 0

    def __getattr__(self, name):
        return getattr(self.file, name)

    def read(self, size=-1):
        data = self.file.read(size)
        self.read_bytes += len(data)
        return data


def test_a_range_costs_its_chunks(store, monkeypatch):
    url, under = store
    with fsspec.open(url + "/a.wl", "wb", warplock=OPTIONS) as file:
        file.write(bytes(64 << 20))
    files = []
    opens = type(under).open

    def counting(self, path, *arguments, **options):
        files.append(Counting(opens(self, path, *arguments, **options)))
        return files[-1]

    monkeypatch.setattr(type(under), "open", counting)
    fs, name = fsspec.url_to_fs(url + "/a.wl", warplock=OPTIONS)
    assert fs.cat_file(name, 30 << 20, (30 << 20) + 10_000) == bytes(10_000)
    # The envelope, the last chunk, and two or three around the range, which a buffered file reads
    # 64 KiB at a time.
    assert sum(file.read_bytes for file in files) < 200_000


def test_pandas_and_a_column(store, monkeypatch):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    np = pytest.importorskip("numpy")
    url, under = store
    chance = np.random.default_rng(1)
    table = pandas.DataFrame({f"c{i}": chance.random(200_000) for i in range(10)})
    options = {"warplock": OPTIONS}
    table.to_parquet(url + "/t.parquet.wl", storage_options=options)
    back = pandas.read_parquet(url + "/t.parquet.wl", storage_options=options)
    pandas.testing.assert_frame_equal(back, table)
    table.head(100).to_csv(url + "/t.csv.wl", index=False, storage_options=options)
    back = pandas.read_csv(url + "/t.csv.wl", storage_options=options)
    pandas.testing.assert_frame_equal(back, table.head(100))

    files = []
    opens = type(under).open

    def counting(self, path, *arguments, **options):
        files.append(Counting(opens(self, path, *arguments, **options)))
        return files[-1]

    monkeypatch.setattr(type(under), "open", counting)
    back = pandas.read_parquet(
        url + "/t.parquet.wl", columns=["c3"], storage_options=options
    )
    assert (back["c3"] == table["c3"]).all()
    # A column is 1.6 MB of 16.
    assert sum(file.read_bytes for file in files) < 3_000_000


def test_zarr(store):
    zarr = pytest.importorskip("zarr")
    np = pytest.importorskip("numpy")
    from zarr.storage import FsspecStore

    url, _ = store
    fs, path = fsspec.url_to_fs(url + "/z", warplock=OPTIONS, file={"auto_mkdir": True})
    from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper

    values = np.arange(10_000, dtype="i4").reshape(100, 100)
    storage = FsspecStore(AsyncFileSystemWrapper(fs, asynchronous=True), path=path)
    made = zarr.create_array(storage, shape=values.shape, chunks=(10, 100), dtype="i4")
    made[:] = values
    again = zarr.open_array(storage, mode="r")
    assert (again[:] == values).all() and (again[35:37] == values[35:37]).all()


def files(folder):
    return sorted(os.path.relpath(path, folder) for path in folder.rglob("*"))


@pytest.mark.parametrize("compression", ["gzip", "bz2", "xz", "infer"])
def test_what_compresses_closes_the_file(tmp_path, compression):
    """The compressor left the file open, so nothing appeared, without an exception."""
    fs = WarplockFileSystem(**OPTIONS)
    path = str(tmp_path / "a.gz")
    for mode, text in (("wb", b"text"), ("wt", "text")):
        file = fs.open(path, mode, compression=compression)
        file.write(text)
        file.close()
        assert fs.open(path, "rb", compression=compression).read() == b"text"
    with pytest.raises(ZeroDivisionError):
        with fs.open(path, "wb", compression=compression) as file:
            file.write(b"other")
            1 / 0
    with pytest.raises(ValueError, match="not supported"):
        fs.open(path, "wb", compression="none such")
    assert fs.open(path, "rb", compression=compression).read() == b"text"
    with fs.transaction:
        with fs.open(path, "wb", compression=compression) as file:
            file.write(b"other")
        assert fs.open(path, "rb", compression=compression).read() == b"text"
    assert fs.open(path, "rb", compression=compression).read() == b"other"
    assert files(tmp_path) == ["a.gz"]


def test_folders_are_removed_and_what_links_lead_to_stays(tmp_path):
    fs = WarplockFileSystem(**OPTIONS)
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/file").write_bytes(b"text")
    (tmp_path / "a/link").symlink_to(tmp_path / "kept")
    for name in ("a/b/c.wl", "1.wl", "2.wl"):
        fs.pipe(str(tmp_path / name), b"text")
    fs.rm(f"warplock::{tmp_path}/a", recursive=True)
    fs.rm(f"{tmp_path}/*.wl")
    assert files(tmp_path) == ["kept", "kept/file"]
    with pytest.raises(FileNotFoundError):
        fs.rm(f"{tmp_path}/missing")
    memory = WarplockFileSystem(fs=fsspec.filesystem("memory"), **OPTIONS)
    memory.pipe("/removed/a/b.wl", b"text")
    memory.rm("/removed", recursive=True)
    assert not memory.exists("/removed")


def test_a_misspelt_option_is_refused():
    """A recipient in it was left out."""
    with pytest.raises(TypeError, match="identites"):
        WarplockFileSystem(recipients=OPTIONS["recipients"], identites=OPTIONS["identities"])
    fsspec.filesystem("warplock", skip_instance_cache=True, use_listings_cache=False, **OPTIONS)
    fsspec.filesystem("warplock", s3={"anon": True}, **OPTIONS)


def test_a_block_that_fails_leaves_nothing_whatever_wraps_the_file(store):
    url, under = store
    fs, path = fsspec.url_to_fs(url + "/a.wl", warplock=OPTIONS)
    for compression in (None, "gzip"):
        with pytest.raises(ZeroDivisionError):
            with fs.open(path, "wb", compression=compression) as file:
                with io.TextIOWrapper(file) as outer:
                    outer.write("text")
                    1 / 0
        # Some file systems cannot throw away what is being written: then it counts as cut.
        if fs.exists(path):
            with pytest.raises(warplock.TruncatedError):
                fs.cat(path)
        with fs.open(path, "wb", compression=compression) as file:
            with io.TextIOWrapper(file) as outer:
                outer.write("text")
        with fs.open(path, "rb", compression=compression) as file:
            assert file.read() == b"text"
        fs.rm(path)


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_text_of_a_block_that_fails_is_thrown_away(tmp_path, compression):
    fs = WarplockFileSystem(**OPTIONS)
    path = str(tmp_path / "a.wl")
    for text in ("first", "zweiter ä"):
        with fs.open(path, "wt", compression=compression, encoding="latin-1") as file:
            file.write(text)
        with pytest.raises(ZeroDivisionError):
            with fs.open(path, "w", compression=compression) as file:
                file.write("half")
                1 / 0
        with fs.open(path, "rt", compression=compression, encoding="latin-1") as file:
            assert file.read() == text
