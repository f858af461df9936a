"""What is done to one object. Everything here can run in any process: it is given plain values."""

from __future__ import annotations

import os
import re
import tempfile
import time
from typing import TYPE_CHECKING, Any, TypedDict

from obstore.store import S3Store

import warplock
from warplock._errors import CorruptedError, DecryptionError, FormatError, InvalidTag, WrongKeyError
from warplock.bulk._places import Changed, FolderMarker, Store, exactly, place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from warplock.bulk._places import Pinned

_BLOCK = 4 << 20
_ATTEMPTS = 3
# Room for the envelope.
_HEAD = 64 << 10


class Unit(TypedDict):
    """One object of a job."""

    unit: int
    path: str
    size: int
    version: str
    skipped: str | None
    failed: str | None


class Row(TypedDict):
    """What became of a unit: the fields of docs/bulk.md."""

    unit: int
    path: str
    status: str
    bytes: int
    seconds: float
    message: str | None


class Settings(TypedDict):
    """What all units of a job have in common. It holds no secret."""

    operation: str
    source: str
    destination: str | None
    recipients: list[str]
    job: str
    identities: list[str] | Callable[[], Any]
    """Paths of identity files as the worker sees them, or a function that returns identities there."""
    replace: bool


class Worker:
    """Does units of one job. It may be used by several threads."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._source = place(settings["source"])
        self._destination = place(settings["destination"]) if settings["destination"] else None
        self._identities: Any = None
        if settings["operation"] != "encrypt":
            given = settings["identities"]
            self._identities = given() if callable(given) else [os.fspath(each) for each in given]

    def __call__(self, unit: Unit) -> Row:
        """Does a unit; what fails is in the row."""
        start = time.monotonic()
        planned = unit["skipped"] or unit["failed"]
        status, message = "skipped" if unit["skipped"] else "failed", planned
        for attempt in range(1, _ATTEMPTS + 1):
            if planned is not None:
                break
            try:
                status, message = self._do(unit), None
                break
            except Changed as error:
                status, message = "changed", f"{error}; plan again"
                break
            except FolderMarker:
                status, message = "skipped", "its key ends in '/': it stands for a folder"
                break
            except FileExistsError:
                status, message = "failed", (
                    "its result's name is taken, by another object or the result of an older version; "
                    "--force replaces it"
                )
                break
            except (WrongKeyError, CorruptedError, InvalidTag) as error:
                status, message = "authentication", str(error)
                break
            except (DecryptionError, ValueError) as error:
                status, message = "failed", str(error)
                break
            except Exception as error:
                # A later attempt has a key of its own: nothing of this one is used again.
                status, message = "failed", sentence(error)
                if attempt < _ATTEMPTS:
                    time.sleep(0.2 * 2**attempt)
        return Row(
            unit=unit["unit"],
            path=unit["path"],
            status=status,
            bytes=unit["size"],
            seconds=round(time.monotonic() - start, 6),
            message=message,
        )

    def _do(self, unit: Unit) -> str:
        operation = self._settings["operation"]
        if operation == "rewrap":
            return self._rewrap(unit)
        name = result_name(operation, unit["path"])
        if name is not None and self._destination is not None:
            if self._is_result(name, unit):
                return "unchanged"
        file: Any
        with self._source.read(unit["path"], unit["size"], unit["version"]) as file:
            if operation == "verify":
                warplock.verify_file(file, identities=self._identities)
                file.check()
                return "done"
            assert name is not None and self._destination is not None
            blocks = (self._encrypted if operation == "encrypt" else self._decrypted)(file)
            # Azure takes letters only, proxies drop underscores.
            marks = {
                "warplocksource": _mark(unit["version"]),
                "warplocksize": str(unit["size"]),
                "warplockjob": self._settings["job"],
            }
            size = unit["size"] + unit["size"] // 1000 + _HEAD
            try:
                self._destination.write(name, blocks, marks, size, self._settings["replace"])
            except FileExistsError:
                # By another run at the same time, or by a request of ours whose answer was lost.
                if self._is_result(name, unit):
                    return "unchanged"
                raise
        return "done"

    def _is_result(self, name: str, unit: Unit) -> bool:
        """Whether the unit's result is there. Raises FileExistsError if it is something else."""
        assert self._destination is not None
        marks = self._destination.marks(name)
        if marks is None:
            return False
        if marks.get("warplocksource") == _mark(unit["version"]):
            return True
        if not self._settings["replace"]:
            raise FileExistsError(name)
        return False

    def _encrypted(self, file: Any) -> Iterator[bytes]:
        sink: Any = _Sink()
        writer = warplock.open(sink, "wb", recipients=self._settings["recipients"])
        try:
            while block := file.read(_BLOCK):
                writer.write(block)
                yield from sink.take()
            file.check()
            writer.close()
            yield from sink.take()
        finally:
            if not writer.closed:
                writer.abandon()

    def _decrypted(self, file: Any) -> Iterator[bytes]:
        with warplock.open(file, "rb", identities=self._identities) as plain:
            while block := plain.read(_BLOCK):
                yield block
            file.check()

    def _rewrap(self, unit: Unit) -> str:
        path, source = unit["path"], self._source
        marks = source.marks(path) or {}
        if marks.get("warplockrewrap") == self._settings["job"]:
            return "unchanged"
        with source.read(path, unit["size"], unit["version"]) as file:
            old = _envelope(file)
            new = self._new_envelope(file, old)
            marks = {**marks, "warplockrewrap": self._settings["job"]}
            if isinstance(source, Store) and isinstance(source.store, S3Store):
                from warplock.bulk._s3 import replace_start

                replace_start(source, unit, file, old, new, marks)
            else:
                blocks = _from(file, old, new)
                source.write(path, blocks, marks, unit["size"], replace=unit["version"])
        return "done"

    def _new_envelope(self, file: Pinned, old: int) -> bytes:
        """The envelope for the new recipients, in place of the first `old` bytes of `file`."""
        file.seek(0)
        with tempfile.NamedTemporaryFile() as head:
            # With the beginning of the stream, by which the key is checked.
            head.write(exactly(file, old + 56))
            head.flush()
            warplock.rewrap(
                head.name, identities=self._identities, recipients=self._settings["recipients"]
            )
            with open(head.name, "rb") as changed:
                whole = changed.read()
        return whole[:-56]


def result_name(operation: str, path: str) -> str | None:
    """The name of a unit's result, if it has one."""
    if operation == "encrypt":
        return f"{path}.wl"
    return path.removesuffix(".wl") if operation == "decrypt" else None


_workers: dict[str, Worker] = {}


def run_unit(settings: Settings, unit: Unit) -> Row:
    """Does one unit of a job: for clusters of your own (Dask, Spark). Both arguments can be pickled,
    and neither holds a secret.

    >>> from warplock import bulk
    >>> from warplock.keys import Identity
    >>> me = Identity.generate()
    >>> _ = bulk.memory_store("memory://pictures").put("a.txt", b"a long story")
    >>> job = bulk.plan("memory://pictures", "memory://sealed", "encrypt", recipients=[me])
    >>> [bulk.run_unit(job.settings(), unit)["status"] for unit in job.units()]
    ['done']
    """
    key = repr(sorted(settings.items(), key=lambda item: item[0]))
    worker = _workers.get(key)
    if worker is None:
        worker = _workers[key] = Worker(settings)
    return worker(unit)


class _Sink:
    """Takes what a writer writes, until it is asked for."""

    def __init__(self) -> None:
        self._blocks: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._blocks.append(data)
        return len(data)

    def flush(self) -> None:
        """Nothing waits elsewhere."""

    def take(self) -> list[bytes]:
        blocks, self._blocks = self._blocks, []
        return blocks


def _mark(version: str) -> str:
    # Not all stores give quotes back.
    return version.strip('"')


def sentence(error: Exception) -> str:
    """What an exception says."""
    # Libraries append their own debug output after a blank line.
    text = str(error).split("\n\n")[0].strip()
    # Stores answer in XML, which obstore quotes.
    if code := re.search("<Code>(.*?)</Code>", text):
        request = re.search(r"Error performing ([A-Z]+ \S+)", text)
        told = re.search("<Message>(.*?)</Message>", text)
        text = code[1] + (f": {told[1]}" if told else "") + (f" ({request[1]})" if request else "")
    return " ".join(text.split()) or type(error).__name__


def _envelope(file: Any) -> int:
    """Where the stream begins."""
    file.seek(0)
    found = warplock.inspect(file).stream_offset
    if not found:
        raise FormatError("it has no envelope: only files with recipients can get others")
    return found


def _from(file: Pinned, old: int, new: bytes) -> Iterator[bytes]:
    yield new
    file.seek(old)
    while block := file.read(_BLOCK):
        yield block
    file.check()
