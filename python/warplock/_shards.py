"""Models of several files, with an index."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import pathlib
import re
import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Unpack

from warplock import _files, _frameworks, _tensors
from warplock._errors import CorruptedError, FormatError
from warplock._keys_kept import refuse_key_files
from warplock._tensor_file import File, LockArguments, Path, UnlockArguments, save

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SUFFIX = ".wl"
_STREAMS = "warplock_streams"
"""In the index's metadata: the beginning of each file's stream, which no other file has."""


def _bytes(size: int | str) -> int:
    """A number of bytes, or a text such as "5GB" or "512MiB"."""
    if isinstance(size, int):
        return size
    found = re.fullmatch(r"(\d+) ?([KMGT])(i?)B", size, re.IGNORECASE)
    if found is None:
        raise ValueError(f"{size!r} is no size: give a number of bytes, or one such as '5GB'")
    number, unit, binary = found.groups()
    power = 1 + "KMGT".index(unit.upper())
    return int(number) * (int(1024**power) if binary else int(1000**power))


def save_sharded(
    tensors: Mapping[str, Any],
    folder: Path,
    *,
    name: str = "model",
    max_shard_size: int | str = 5_000_000_000,
    metadata: Mapping[str, str] | None = None,
    replace: bool = True,
    **keys: Unpack[LockArguments],
) -> None:
    """Saves a model to a folder, in files of at most `max_shard_size` bytes, with an index. Texts such
    as "5GB" are sizes, too.

    Names are those of Hugging Face with `.wl`. The index is encrypted like the files, and says which
    ones belong to it: older ones, exchanged ones and those of another model are refused.

    A model of this name in the folder is replaced, unless `replace` is false. Its files stay until
    all new ones are on the disk: after an exception or a crash, the folder has the old model or the
    new one, whole.
    """
    _check_name(name)
    most = _bytes(max_shard_size)
    if most < 1:
        raise ValueError("max_shard_size is at least 1 byte")
    again: LockArguments = _lasting(keys)
    shards, total = _planned(tensors, most, metadata)
    top = pathlib.Path(folder)
    top.mkdir(parents=True, exist_ok=True)
    before = set(os.listdir(top))
    ours = re.compile(
        rf"{re.escape(name)}(-\d{{5,}}-of-\d{{5,}}(-[0-9a-f]{{8}})?\.safetensors\.wl"
        r"|\.safetensors\.wl|\.safetensors\.index\.json\.wl(\.[0-9a-f]{8})?)"
    )
    old = {file for file in before if ours.fullmatch(file) and not (top / file).is_dir()}
    if old and not replace:
        what = "the folder has a model of this name already; give replace=True to replace it"
        raise FileExistsError(errno.EEXIST, what, str(top / min(old)))
    for file in old:
        # It is replaced or removed.
        refuse_key_files(top / file, *(again.get(what) for what in ("recipients", "identities", "key")))
    index = f"{name}.safetensors.index.json"
    # A foreign index that is not encrypted stays: an encrypted one takes precedence.
    if len(shards) == 1 and index not in before:
        only, old_index = top / f"{name}.safetensors{_SUFFIX}", top / (index + _SUFFIX)
        new = {only.name}
        try:
            save(shards[0], only, metadata, replace, {**again})
            # From here on, the old model is replaced.
            old_index.unlink(missing_ok=True)
        except BaseException:
            if old_index.exists():
                only.unlink(missing_ok=True)
            raise
    else:
        new = _save_shards(shards, total, top, name, before, metadata, again)
    _sync(top)
    for file in sorted(old - new):
        (top / file).unlink(missing_ok=True)


def _check_name(name: str) -> None:
    if not name or os.path.basename(name) != name or "\0" in name:
        raise ValueError(f"name {name!r} is not the beginning of a file's name")


def _lasting(keys: Mapping[str, object]) -> Any:
    """`keys` for several files: iterators become lists."""
    return {
        what: list(given) if isinstance(given, Iterator) else given for what, given in keys.items()
    }


def _planned(
    tensors: Mapping[str, Any], most: int, metadata: Mapping[str, str] | None
) -> tuple[list[dict[str, Any]], int]:
    """The tensors of each file, and the bytes of all. What cannot be saved is refused now."""
    shards: list[dict[str, Any]] = [{}]
    described: list[list[tuple[str, str, tuple[int, ...]]]] = [[]]
    room, total = most, 0
    for key, tensor in tensors.items():
        # Not kept: it may be a copy.
        dtype, shape = _frameworks.given(key, tensor, None)[:2]
        size = _tensors.byte_len(dtype, shape) or 0
        if size > room and shards[-1]:
            shards.append({})
            described.append([])
            room = most
        shards[-1][key] = tensor
        described[-1].append((key, dtype, shape))
        room -= size
        total += size
    for each in described:
        _tensors.write(each, metadata)
    return shards, total


def _save_shards(
    shards: Sequence[dict[str, Any]],
    total: int,
    top: pathlib.Path,
    name: str,
    before: set[str],
    metadata: Mapping[str, str] | None,
    keys: LockArguments,
) -> set[str]:
    """Writes new files, none of which replaces another, and then the index, from which on they
    count; returns their names."""
    files = [f"{name}-{n:05}-of-{len(shards):05}" for n in range(1, len(shards) + 1)]
    mark = secrets.token_hex(4)
    if any(f"{file}.safetensors{_SUFFIX}" in before for file in files):
        files = [f"{file}-{mark}" for file in files]
    files = [f"{file}.safetensors" for file in files]
    index = top / f"{name}.safetensors.index.json{_SUFFIX}"
    draft = index.with_name(f"{index.name}.{mark}")
    weights: dict[str, str] = {}
    streams: dict[str, str] = {}
    is_ready = False
    try:
        for file, shard in zip(files, shards):
            save(shard, top / (file + _SUFFIX), metadata, False, {**keys})
            streams[file] = _stream_header(top / (file + _SUFFIX))
            weights.update(dict.fromkeys(shard, file))
        made = {"metadata": {"total_size": total, _STREAMS: streams}, "weight_map": weights}
        store = io.BytesIO(json.dumps(made, indent=2).encode())
        _files.encrypt_file(store, draft, **keys)
        _sync(top)
        is_ready = True
        os.replace(draft, index)
    except BaseException:
        # Ctrl-C may come after the index was replaced.
        if draft.exists() or not is_ready:
            for path in (draft, *(top / (file + _SUFFIX) for file in files)):
                path.unlink(missing_ok=True)
        raise
    return {index.name, *(file + _SUFFIX for file in files)}


def _sync(folder: pathlib.Path) -> None:
    """Syncs a folder's names to the disk, if the file system can."""
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(at)
    finally:
        os.close(at)


def _stream_header(path: pathlib.Path) -> str:
    at = _files.inspect(path).stream_offset
    with path.open("rb") as file:
        file.seek(at or 0)
        return file.read(56).hex()


class _Index:
    """Which file has which tensor, and which streams those files must have, if it says."""

    def __init__(self, folder: Path, name: str, keys: UnlockArguments) -> None:
        _check_name(name)
        self.top = pathlib.Path(folder)
        index = self.top / f"{name}.safetensors.index.json"
        sealed = index.with_name(index.name + _SUFFIX)
        text: bytes | None = None
        if sealed.exists():
            with _files.open(sealed, **keys) as file:
                text = file.read()
        elif index.exists():
            text = index.read_bytes()
        self.streams: dict[str, str] | None = None
        self.weights: dict[str, str] | None = None
        if text is None:
            return
        try:
            found = json.loads(text)
            weights, streams = found["weight_map"], found.get("metadata", {}).get(_STREAMS)
            texts = [*weights, *weights.values(), *(streams or {}), *(streams or {}).values()]
        except (ValueError, KeyError, TypeError, AttributeError):
            texts = [None]
        if not all(isinstance(text, str) for text in texts):
            raise FormatError(f"{index.name} is not an index of safetensors files")
        if any(os.path.basename(file) != file for file in weights.values()):
            raise FormatError(f"{index.name} names files in other folders")
        self.weights, self.streams = weights, streams

    def check(self, file: str, opened: File) -> None:
        """Refuses a file that is not the index's."""
        wanted = {name for name, place in (self.weights or {}).items() if place == file}
        found = opened.native.stream_header().hex()
        if self.streams is not None and self.streams.get(file) != found:
            raise CorruptedError(f"{file}: this is not the file that the index was made with")
        if wanted != set(opened.header.entries):
            raise CorruptedError(f"{file}: it does not have the tensors that the index says")


def weight_map(
    folder: Path, *, name: str = "model", **keys: Unpack[UnlockArguments]
) -> dict[str, str]:
    """For each tensor of a folder, the path of its file, for `safe_open`: each of the files was
    compared with the index."""
    again: UnlockArguments = _lasting(keys)
    index = _Index(folder, name, {**again})
    paths = {}
    for file in _shards(index, name):
        path = index.top / (file + _SUFFIX)
        opened = File(path, "np", "cpu", {**again})
        if index.weights is not None:
            index.check(file, opened)
        paths.update(dict.fromkeys(opened.header.entries, str(path)))
    return paths


def _shards(index: _Index, name: str) -> Sequence[str]:
    if index.weights is None:
        return [f"{name}.safetensors"]
    return sorted(set(index.weights.values()))


def load_sharded(
    folder: Path,
    device: Any = "cpu",
    *,
    name: str = "model",
    framework: str = "pt",
    **keys: Unpack[UnlockArguments],
) -> dict[str, Any]:
    """All tensors of a folder that `save_sharded` wrote, or whose safetensors files were encrypted.

    An index that is not encrypted is read, too; it is not authenticated, and may name old files.
    """
    again: UnlockArguments = _lasting(keys)
    index = _Index(folder, name, {**again})
    tensors: dict[str, Any] = {}
    for file in _shards(index, name):
        opened = File(index.top / (file + _SUFFIX), framework, device, {**again})
        if index.weights is not None:
            index.check(file, opened)
        tensors.update(opened.all())
    return tensors
