"""The files of a job: what is to be done, and what became of it."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import re
import secrets
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from warplock.bulk._places import Listed, inside, place
from warplock.bulk._unit import Row, Settings, Unit
from warplock.keys import new_envelope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import IO

OPERATIONS = ("encrypt", "decrypt", "verify", "rewrap")
STATUSES = ("done", "unchanged", "skipped", "changed", "failed", "authentication")
# Nothing is left to do for units with these.
_FINAL = STATUSES[:3]
# The version of these files. `warplock bulk` on local trees has version 1.
_VERSION = 2
_PER_FILE = 100_000
# A unit costs as much as this many bytes more.
_OVERHEAD = 64 << 10


class Job(NamedTuple):
    """A job in a folder: an operation and its units, which never change."""

    folder: str
    operation: str
    source: str
    destination: str | None
    recipients: list[str]
    id: str
    units_total: int
    bytes: int

    def settings(
        self, identities: list[str] | Callable[[], Any] | None = None, replace: bool = False
    ) -> Settings:
        """What `run_unit` needs."""
        return Settings(
            operation=self.operation,
            source=self.source,
            destination=self.destination,
            recipients=self.recipients,
            job=self.id,
            identities=identities or [],
            replace=replace,
        )

    def units(self, shard: tuple[int, int] = (0, 1)) -> Iterator[Unit]:
        """The units of shard (index, count): neighbours, about the same bytes in each shard."""
        index, count = shard
        total = max(1, self.bytes + self.units_total * _OVERHEAD)
        before = number = 0
        for name in _files(self.folder, "units-"):
            with open(name, encoding="utf-8") as lines:
                for line in lines:
                    try:
                        path, size, version, skipped, failed = json.loads(line)
                    except (ValueError, TypeError) as error:
                        raise ValueError(f"{name} is damaged: {error}; plan again") from None
                    if before * count // total == index:
                        yield Unit(
                            unit=number,
                            path=path,
                            size=size,
                            version=version,
                            skipped=skipped,
                            failed=failed,
                        )
                    before += size + _OVERHEAD
                    number += 1
        if number != self.units_total:
            raise ValueError(
                f"{self.folder}: {number} of {self.units_total} units are there: it was not copied whole"
            )


def open_job(folder: str | os.PathLike[str]) -> Job:
    """Opens a job that `plan` made."""
    folder = os.fspath(folder)
    try:
        with open(os.path.join(folder, "job.json"), encoding="utf-8") as file:
            told = dict(json.load(file))
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{folder} is no job: it has no job.json (a plan that was stopped is made again)"
        ) from None
    except (ValueError, TypeError) as error:
        raise ValueError(f"{folder}: job.json is damaged: {error}; plan again") from None
    if told.get("version") == 1:
        raise ValueError(f"{folder} is a job of local trees: run it with `warplock bulk run`")
    if told.get("version") != _VERSION:
        raise ValueError(f"{folder}: the job's version is {told.get('version')}, not {_VERSION}")
    missing = [name for name in Job._fields[1:] if name not in told]
    if missing:
        raise ValueError(f"{folder}: job.json is damaged: it lacks {missing[0]!r}; plan again")
    # The program may go to another folder before it runs the job.
    return Job(os.path.abspath(folder), *(told[name] for name in Job._fields[1:]))


def plan_job(
    folder: str,
    source: str,
    destination: str | None,
    operation: str,
    recipients: list[str],
    include: Iterable[str],
    exclude: Iterable[str],
) -> Job:
    """Lists `source` into a new job."""
    if operation not in OPERATIONS:
        raise ValueError(f"the operation is one of {', '.join(OPERATIONS)}, not {operation!r}")
    if (destination is not None) != (operation in ("encrypt", "decrypt")):
        raise ValueError(
            f"{operation} needs a destination"
            if destination is None
            else f"{operation} has no destination"
        )
    if (operation in ("encrypt", "rewrap")) != bool(recipients):
        raise ValueError(
            f"{operation} has no recipients"
            if recipients
            else f"name the recipients that shall open the results of {operation}"
        )
    if "://" in folder:
        raise ValueError(f"{folder}: a job is a folder, where all machines of its runs see it")
    wanted = [_pattern(each, folders=False) for each in include]
    unwanted = [_pattern(each, folders=True) for each in exclude]
    origin = place(source)
    target = None if destination is None else place(destination)
    results = None if target is None else inside(origin, target)
    job = inside(origin, place(folder))
    own = [each for each in (results, job) if each is not None]
    if "" in own:
        raise ValueError(f"{source}: the results and the job cannot be in the source itself")
    if job is not None and os.path.isdir(folder) and set(os.listdir(folder)) - _own_names(folder):
        # They would be left out with the job.
        raise ValueError(f"{folder} is in the source and holds other files: name a new folder")
    chosen = not wanted
    avoided = tuple(f"{each}/" for each in own)
    os.makedirs(folder, exist_ok=True)
    if os.path.exists(os.path.join(folder, "job.json")):
        raise FileExistsError(f"{folder} holds a job already")
    for old in _files(folder, "units-"):
        # Of a plan that was stopped.
        os.unlink(old)
    units = total = 0
    seen: set[str] = set()
    file: IO[str] | None = None
    try:
        for found in origin.list():
            if any(match(found.path) for match in unwanted):
                continue
            if found.path.startswith(avoided):
                marker = f"{results}/"
                if results is None or marker in seen or not found.path.startswith(marker):
                    continue
                # Told once, as a folder of the source was perhaps named by mistake.
                found = Listed(marker, 0, "", skipped="it is the destination")
            elif wanted and not (found.unlisted or any(match(found.path) for match in wanted)):
                continue
            else:
                chosen = True
            skipped, failed = found.skipped, found.failed
            if operation != "encrypt" and not found.path.endswith(".wl"):
                skipped = skipped or "its name does not end in .wl"
            # Keys such as "a//b" and "a/b" are one to obstore.
            if found.path == "":
                skipped = "its key stands for the place itself"
            elif found.path in seen:
                failed = failed or "its key cannot be told from another's"
            seen.add(found.path)
            if units % _PER_FILE == 0:
                if file is not None:
                    _close(file)
                name = f"units-{units // _PER_FILE:05}.jsonl"
                file = open(os.path.join(folder, name), "w", encoding="utf-8")
            assert file is not None
            line = json.dumps([found.path, found.size, found.version, skipped, failed])
            file.write(line + "\n")
            units += 1
            total += found.size
    finally:
        if file is not None:
            _close(file)
    if not chosen:
        raise ValueError(f"{source}: no file there matches --include")
    told = {
        "version": _VERSION,
        "operation": operation,
        "source": origin.url,
        "destination": target and target.url,
        "recipients": recipients,
        "id": secrets.token_hex(8),
        "units_total": units,
        "bytes": total,
    }
    temporary = os.path.join(folder, "job.json.new")
    with open(temporary, "w", encoding="utf-8") as out:
        json.dump(told, out, indent=1)
        out.flush()
        os.fsync(out.fileno())
    os.rename(temporary, os.path.join(folder, "job.json"))
    return open_job(folder)


def recipient_lines(recipients: Any) -> list[str]:
    """Recipients as the lines that a job keeps, each of them tried."""
    lines: list[str] = []
    if isinstance(recipients, str | os.PathLike) or not hasattr(recipients, "__iter__"):
        recipients = [recipients]
    for each in recipients:
        if isinstance(each, os.PathLike):
            with open(each, encoding="utf-8-sig") as file:
                found = [line.strip() for line in file]
            lines += [line for line in found if line and not line.startswith("#")]
        else:
            public = getattr(each, "to_public", None)
            lines.append(str(each if public is None else public()))
    if lines:
        new_envelope(lines)
    return lines


class Log:
    """The rows of one shard, as they come. One process at a time."""

    def __init__(self, job: Job, shard: tuple[int, int]) -> None:
        name = f"log-{shard[0]:05}-of-{shard[1]:05}.jsonl"
        self._file = open(os.path.join(job.folder, name), "a+", encoding="utf-8")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise RuntimeError(f"shard {shard[0]}/{shard[1]} of {job.folder} runs already") from None
        # A line that a killed process left behind ends here.
        end = self._file.seek(0, os.SEEK_END)
        if end:
            with open(self._file.name, "rb") as whole:
                whole.seek(end - 1)
                if whole.read(1) != b"\n":
                    self._file.write("\n")

    def append(self, row: Row) -> None:
        """Notes a row."""
        self._file.write(json.dumps(row) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Ends the shard's turn."""
        self._file.close()


def rows(job: Job) -> Iterator[Row]:
    """The whole rows of all logs, older ones of a log first."""
    for name in _files(job.folder, "log-"):
        with open(name, encoding="utf-8") as lines:
            for line in lines:
                try:
                    row = json.loads(line)
                except ValueError:
                    continue
                if isinstance(row, dict) and row.get("status") in STATUSES and "unit" in row:
                    yield cast("Row", row)


def finished(job: Job) -> set[int]:
    """Units that need no further run."""
    return {row["unit"] for row in rows(job) if row["status"] in _FINAL}


def results(job: Job) -> dict[int, Row]:
    """The row of each unit that counts. Logs of other shards have no order in time, but a unit that is
    finished is not done again."""
    found: dict[int, Row] = {}
    for row in rows(job):
        if row["unit"] not in found or found[row["unit"]]["status"] not in _FINAL:
            found[row["unit"]] = row
    return found


def _close(file: IO[str]) -> None:
    file.flush()
    os.fsync(file.fileno())
    file.close()


def _own_names(folder: str) -> set[str]:
    """The names of what a job has in its folder."""
    files = [*_files(folder, "units-"), *_files(folder, "log-")]
    return {"job.json", "job.json.new", *map(os.path.basename, files)}


def _files(folder: str, prefix: str) -> list[str]:
    # Nothing else: the folder may hold files of its user.
    match = re.compile(rf"{prefix}\d{{5,}}(-of-\d{{5,}})?\.jsonl").fullmatch
    names = sorted(filter(match, os.listdir(folder)))
    return [os.path.join(folder, name) for name in names]


def _pattern(text: str, folders: bool) -> Callable[[str], object]:
    """`*`, `?`, `[a-z]`, `**`; without a slash for names, otherwise for paths (also of `folders`). A
    slash at the beginning makes it a path, one at the end makes no difference."""
    told = text.rstrip("/").removeprefix("/")
    if {"", ".", ".."} & set(told.split("/")):
        raise ValueError(
            f"the pattern {text} matches nothing: paths in the tree have no empty names, '.' or '..'"
        )
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[!?[^\]]+\])", told)
    known = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    expression = "".join(
        known.get(part) or (part.replace("[!", "[^", 1) if part[:1] == "[" else re.escape(part))
        for part in parts
    )
    try:
        match = re.compile(expression, re.DOTALL).fullmatch
    except re.error as error:
        raise ValueError(f"the pattern {text}: {error}") from None
    if "/" in text.rstrip("/"):
        if folders:
            return lambda path: any(match(each) for each in itertools.accumulate(path.split("/"), _join))
        return match
    if folders:
        return lambda path: any(match(name) for name in path.split("/"))
    return lambda path: match(path.rpartition("/")[2])


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}"


