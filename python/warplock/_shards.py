"""Models of several files, with an index."""

from __future__ import annotations

import io
import json
import os
import pathlib
from typing import TYPE_CHECKING, Any, Unpack

from warplock import _files
from warplock._errors import CorruptedError, FormatError
from warplock._tensor_file import File, LockArguments, Path, UnlockArguments, save

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SUFFIX = ".wl"
_STREAMS = "warplock_streams"
"""In the index's metadata: the beginning of each file's stream, which no other file has."""


def save_sharded(
    tensors: Mapping[str, Any],
    folder: Path,
    *,
    name: str = "model",
    max_shard_size: int = 5_000_000_000,
    metadata: Mapping[str, str] | None = None,
    **keys: Unpack[LockArguments],
) -> None:
    """Saves a model to a folder, in files of at most `max_shard_size` bytes, with an index.

    Names are those of Hugging Face with `.wl`. The index is encrypted like the files, and says which
    ones belong to it: older ones, exchanged ones and those of another model are refused.
    """
    top = pathlib.Path(folder)
    top.mkdir(parents=True, exist_ok=True)
    shards: list[dict[str, Any]] = [{}]
    room, total = max_shard_size, 0
    for key, tensor in tensors.items():
        size = int(tensor.nbytes)
        if size > room and shards[-1]:
            shards.append({})
            room = max_shard_size
        shards[-1][key] = tensor
        room -= size
        total += size
    if len(shards) == 1:
        save(tensors, top / f"{name}.safetensors{_SUFFIX}", metadata, True, {**keys})
        return
    weights, streams = {}, {}
    for number, shard in enumerate(shards, 1):
        file = f"{name}-{number:05}-of-{len(shards):05}.safetensors"
        save(shard, top / (file + _SUFFIX), metadata, True, {**keys})
        streams[file] = _stream_header(top / (file + _SUFFIX))
        weights.update(dict.fromkeys(shard, file))
    index = {"metadata": {"total_size": total, _STREAMS: streams}, "weight_map": weights}
    store = io.BytesIO(json.dumps(index, indent=2).encode())
    path = top / f"{name}.safetensors.index.json{_SUFFIX}"
    _files.encrypt_file(store, path, replace=True, **keys)


def _stream_header(path: pathlib.Path) -> str:
    at = _files.inspect(path).stream_offset
    with path.open("rb") as file:
        file.seek(at or 0)
        return file.read(56).hex()


class _Index:
    """Which file has which tensor, and which streams those files must have, if it says."""

    def __init__(self, folder: Path, name: str, keys: UnlockArguments) -> None:
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
    index = _Index(folder, name, {**keys})
    paths = {}
    for file in _shards(index, name):
        path = index.top / (file + _SUFFIX)
        opened = File(path, "np", "cpu", {**keys})
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
    """All tensors of a folder: of `save_sharded`, or one whose safetensors files were encrypted.

    An index that is not encrypted is read, too; it is not authenticated, and may name old files.
    """
    index = _Index(folder, name, {**keys})
    tensors: dict[str, Any] = {}
    for file in _shards(index, name):
        opened = File(index.top / (file + _SUFFIX), framework, device, {**keys})
        if index.weights is not None:
            index.check(file, opened)
        tensors.update(opened.all())
    return tensors
