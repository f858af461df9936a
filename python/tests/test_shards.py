"""Folders of encrypted tensors that are saved again: the old model or the new one, whole."""

from __future__ import annotations

import json
import os
import pathlib

import numpy as np
import pytest

import warplock
from warplock import _files, _shards
from warplock.safetensors import load_sharded, safe_open, save_sharded, weight_map

KEY = bytes(range(32))
INDEX = "model.safetensors.index.json.wl"
SINGLE = "model.safetensors.wl"
# To files of at most this many bytes: one, two or four of them.
SIZES = {1: 10_000, 2: 4_000, 4: 2_000}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def model(value):
    return {f"layer.{i}": np.full(250, value, "f8") for i in range(4)}


def store(value, files, **more):
    save_sharded(model(value), "model", max_shard_size=SIZES[files], key=KEY, **more)


def stored():
    """The number that the model consists of; it must be whole."""
    found = load_sharded("model", framework="np", key=KEY)
    places = weight_map("model", key=KEY)
    assert set(found) == set(places) == set(model(0))
    values = {float(number) for tensor in found.values() for number in tensor}
    for name, path in places.items():
        with safe_open(path, "np", key=KEY) as file:
            values.add(float(file.get_tensor(name)[0]))
    assert len(values) == 1, values
    return values.pop()


@pytest.mark.parametrize("first", SIZES)
@pytest.mark.parametrize("second", SIZES)
def test_a_model_saved_again_is_the_new_one_and_nothing_else(first, second):
    store(1, first)
    pathlib.Path("model/other.safetensors.wl").write_text("another's")
    pathlib.Path("model/model-00001-of-00002.safetensors").write_text("not encrypted")
    for value in range(2, 5):
        store(value, second if value % 2 == 0 else first)
        assert stored() == value
        files = set(os.listdir("model")) - {
            "other.safetensors.wl",
            "model-00001-of-00002.safetensors",
        }
        count = second if value % 2 == 0 else first
        assert len(files) == (count if count == 1 else count + 1)
        assert (SINGLE in files) == (count == 1) and (INDEX in files) == (count > 1)
    assert pathlib.Path("model/other.safetensors.wl").read_text() == "another's"


@pytest.mark.parametrize("first", SIZES)
@pytest.mark.parametrize(
    "bad", [np.zeros((4, 4))[:, 1], np.array(["text"]), np.zeros(3, "c16"), object()]
)
def test_a_tensor_that_cannot_be_saved_is_noticed_before_anything_is_written(first, bad):
    store(1, first)
    files = sorted(os.listdir("model"))
    times = [os.stat(f"model/{file}").st_mtime_ns for file in files]
    for most in SIZES.values():
        with pytest.raises((ValueError, TypeError)):
            save_sharded({**model(2), "z": bad}, "model", max_shard_size=most, key=KEY)
        for wrong in ({"__metadata__": np.zeros(3)}, {7: np.zeros(3)}):
            with pytest.raises((ValueError, TypeError)):
                save_sharded({**model(2), **wrong}, "model", max_shard_size=most, key=KEY)
        with pytest.raises(TypeError, match="texts"):
            save_sharded(model(2), "model", max_shard_size=most, metadata={"a": 1}, key=KEY)
    assert sorted(os.listdir("model")) == files and stored() == 1
    assert [os.stat(f"model/{file}").st_mtime_ns for file in files] == times
    with pytest.raises((ValueError, TypeError)):
        save_sharded({"z": bad}, "new", key=KEY)
    assert not os.path.exists("new")


class Steps:
    """Ends the work at the n-th step, before or after it."""

    def __init__(self, monkeypatch, end, stop):
        self.end, self.stop, self.done = end, stop, 0
        for place, name in (
            (_shards, "save"),
            (_files, "encrypt_file"),
            (os, "replace"),
            (pathlib.Path, "unlink"),
        ):
            monkeypatch.setattr(place, name, self.around(getattr(place, name)))

    def around(self, function):
        def stepwise(*arguments, **options):
            self.step()
            result = function(*arguments, **options)
            self.step()
            return result

        return stepwise

    def step(self):
        self.done += 1
        if self.done == self.stop:
            self.end()


@pytest.mark.parametrize("first", SIZES)
@pytest.mark.parametrize("second", SIZES)
def test_a_crash_leaves_the_old_model_or_the_new_one(first, second, monkeypatch):
    """The process ends at every step, without cleaning up."""
    value = 1
    store(value, first)
    seen = set()
    for stop in range(1, 100):
        child = os.fork()
        if child == 0:
            try:
                Steps(monkeypatch, lambda: os._exit(3), stop)
                store(value + 1, second)
                os._exit(0)
            finally:
                os._exit(4)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in (0, 3)
        found = stored()
        seen.add(found - value)
        if code == 0:
            assert found == value + 1
            break
        assert found in (value, value + 1)
        # What the crash left is removed.
        store(value + 2, first)
        value += 2
        assert stored() == value
        assert len(os.listdir("model")) == (1 if first == 1 else first + 1)
    else:
        raise AssertionError("it never ended")
    assert seen == {0, 1}


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
@pytest.mark.parametrize("first", SIZES)
@pytest.mark.parametrize("second", SIZES)
def test_an_exception_leaves_the_old_model_or_the_new_one(first, second, error, monkeypatch):
    def fail():
        raise error

    value = 1
    for stop in range(1, 100):
        store(value, first)
        files = sorted(os.listdir("model"))
        with monkeypatch.context() as patch:
            steps = Steps(patch, fail, stop)
            try:
                store(value + 1, second)
            except error:
                pass
        found = stored()
        if steps.done < stop:
            assert found == value + 1
            break
        assert found in (value, value + 1)
        if found == value:
            assert sorted(os.listdir("model")) == files
        value += 2
    else:
        raise AssertionError("it never ended")


@pytest.mark.parametrize("first", SIZES)
@pytest.mark.parametrize("second", SIZES)
def test_without_replace_a_model_of_that_name_stays(first, second):
    store(1, first, replace=False)
    files = sorted(os.listdir("model"))
    with pytest.raises(FileExistsError, match="replace=True"):
        store(2, second, replace=False)
    assert sorted(os.listdir("model")) == files and stored() == 1
    store(2, second, name="second", replace=False)
    assert stored() == 1
    found = load_sharded("model", name="second", framework="np", key=KEY)
    assert found["layer.0"][0] == 2


@pytest.mark.parametrize("files", SIZES)
def test_a_plain_index_stays_and_does_not_count(files):
    store(1, 2)
    with warplock.open(f"model/{INDEX}", key=KEY) as file:
        text = json.loads(file.read())
    del text["metadata"]
    os.remove(f"model/{INDEX}")
    plain = pathlib.Path("model/model.safetensors.index.json")
    plain.write_text(json.dumps(text))
    assert stored() == 1
    for value in (2, 3):
        store(value, files)
        assert stored() == value and json.loads(plain.read_text()) == text
        assert len(os.listdir("model")) == files + 2


def test_names_and_sizes_are_checked():
    for name in ("", "a/b", "../a", "/a", "a\0"):
        with pytest.raises(ValueError, match="name"):
            save_sharded(model(1), "model", name=name, key=KEY)
        for load in (load_sharded, weight_map):
            with pytest.raises(ValueError, match="name"):
                load("model", name=name, key=KEY)
    for size in (0, -1):
        with pytest.raises(ValueError, match="max_shard_size"):
            save_sharded(model(1), "model", max_shard_size=size, key=KEY)
    assert os.listdir() == []
    save_sharded(model(1), "model", max_shard_size=1, key=KEY)
    assert stored() == 1 and len(os.listdir("model")) == 5


def test_each_file_has_all_recipients_of_an_iterator():
    from warplock.keys import Identity

    people = [Identity.generate() for _ in range(2)]
    save_sharded(model(1), "model", max_shard_size=2_000, recipients=iter(people))
    for one in people:
        found = load_sharded("model", framework="np", identities=iter([one]))
        assert set(found) == set(model(1)) == set(weight_map("model", identities=iter([one])))
