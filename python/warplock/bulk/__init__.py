"""Many objects in buckets and folders, on one machine or many: `python -m warplock.bulk`.

Places are URLs, "s3://bucket/prefix", "gs://..", "az://..", "memory://name" (in this process), or
folders. Each object has a result of its own, `NAME.wl`, which `warplock decrypt` opens like any
other file. Needs `pip install warplock[bulk]`. docs/bulk.md has the rules; trees on local disks are
faster through `warplock bulk`.

>>> from warplock import bulk
>>> from warplock.keys import Identity
>>> me = Identity.generate()
>>> _ = bulk.memory_store("memory://photos").put("2026/a.jpg", b"a picture")
>>> job = bulk.plan("memory://photos", "memory://backup", "encrypt", recipients=[me])
>>> bulk.run(job).done
1
>>> bulk.run(bulk.plan("memory://backup", None, "verify"), identities=lambda: [me]).done
1
"""

from __future__ import annotations

import itertools
import os
import stat
import tempfile
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from warplock.bulk._job import STATUSES, Job, Log, finished, open_job, plan_job, recipient_lines, results
from warplock.bulk._places import memory_store
from warplock.bulk._unit import Row, Settings, Unit, Worker, run_unit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from warplock.keys import Identity, Recipient

    _Recipient = str | Recipient | Identity | os.PathLike[str]
    _Recipients = _Recipient | Iterable[_Recipient]
    _Identities = str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | Callable[[], Any]

__all__ = [
    "Job",
    "Report",
    "Row",
    "Settings",
    "Unit",
    "memory_store",
    "open_job",
    "plan",
    "report",
    "run",
    "run_unit",
]


@dataclass
class Report:
    """The sum of rows: units by their status."""

    units: int = 0
    """Units of the job, or of the shard."""
    done: int = 0
    unchanged: int = 0
    """Their results were there already."""
    skipped: int = 0
    """Nothing is done with them, for the reason in the row."""
    changed: int = 0
    """Their sources are no longer what was planned."""
    failed: int = 0
    authentication: int = 0
    """Wrong keys, or altered or cut objects."""
    pending: int = 0
    """Units without a row."""
    bytes: int = 0
    """Of the sources of the units done."""

    def add(self, row: Row) -> None:
        """Counts a row."""
        status = row["status"]
        setattr(self, status, getattr(self, status) + 1)
        if status == "done":
            self.bytes += row["bytes"]

    @property
    def exit_code(self) -> int:
        """3 if anything failed authentication, 1 if anything else is not right, otherwise 0."""
        if self.authentication:
            return 3
        return 1 if self.failed or self.changed or self.pending else 0

    def to_dict(self) -> dict[str, int]:
        """The fields, for JSON."""
        return asdict(self)


_folders: list[tempfile.TemporaryDirectory[str]] = []


def plan(
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str] | None,
    operation: str,
    *,
    recipients: _Recipients = (),
    job: str | os.PathLike[str] | None = None,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
) -> Job:
    """Lists `source` into a job. `operation` is "encrypt", "decrypt", "verify" or "rewrap" (other
    recipients, in place); the first two need a `destination`. `recipients`: as for
    `warplock.encrypt_file`.

    `job` is a new folder, for runs by many processes and for going on after a stop; without one the
    job ends with this process. `include`, `exclude`: patterns, as for `warplock bulk`.
    """
    if job is None:
        _folders.append(tempfile.TemporaryDirectory(prefix="warplock-bulk-"))
        job = os.path.join(_folders[-1].name, "job")
    return plan_job(
        os.fspath(job),
        os.fspath(source),
        None if destination is None else os.fspath(destination),
        operation,
        recipient_lines(recipients),
        include,
        exclude,
    )


def run(
    job: Job | str | os.PathLike[str],
    *,
    identities: _Identities = (),
    shard: tuple[int, int] = (0, 1),
    threads: int = 8,
    on: str | None = None,
    workers: int = 2,
    replace: bool = False,
    each: Callable[[Row, Unit], object] | None = None,
) -> Report:
    """Does the units of a job that are not done. Failures are rows, not exceptions.

    `identities` (all but "encrypt"): paths of identity files, or a function that returns identities;
    each worker reads or calls them itself. `shard`: part (index, count) of the job; each runs in one
    process at a time. `threads`: units at a time, each with about 50 MB of memory. `on="ray"`: on a
    Ray cluster, by `workers` actors of so many threads each. `replace`: other objects that have the
    results' names. `each` is called with each row and its unit, from this thread.
    """
    if not isinstance(job, Job):
        job = open_job(job)
    index, count = shard
    if not 0 <= index < count:
        raise ValueError(f"shard {shard}: give (index, count), the index from 0 to count - 1")
    if threads < 1 or workers < 1:
        raise ValueError("threads and workers are at least 1")
    if isinstance(identities, str | os.PathLike):
        identities = [identities]
    given: Any = identities if callable(identities) else [os.fspath(path) for path in identities]
    if job.operation != "encrypt" and not given:
        raise ValueError(f"{job.operation} needs the identities that open the files")
    if on not in (None, "ray"):
        raise ValueError(f"on is None or 'ray', not {on!r}")
    if on is None and not callable(identities):
        for path in given:
            # Each object reads it again.
            if not stat.S_ISREG(os.stat(path).st_mode):
                raise ValueError(f"{path}: give a regular file; each object reads it")
    settings = job.settings(given, replace)
    # Wrong places and keys are errors of the run, not of each unit. On a cluster only its workers
    # have the keys.
    worker = Worker(settings) if on is None else None
    log = Log(job, shard)
    sum = Report()
    try:
        done = finished(job)
        units = (unit for unit in _counted(job.units(shard), sum) if unit["unit"] not in done)
        if worker is None:
            from warplock.bulk._ray import on_ray

            done_rows = on_ray(settings, units, workers, threads)
        else:
            done_rows = _threads(worker, units, threads)
        for row, unit in done_rows:
            log.append(row)
            sum.add(row)
            if each is not None:
                each(row, unit)
    finally:
        log.close()
    # Those of earlier runs.
    sum.unchanged += sum.units - (
        sum.done + sum.unchanged + sum.skipped + sum.changed + sum.failed + sum.authentication
    )
    return sum


def report(job: Job | str | os.PathLike[str], each: Callable[[Row], object] | None = None) -> Report:
    """Adds up what the runs of a job did: a unit is done, or its last row counts. `each` is called with
    those that are not right."""
    if not isinstance(job, Job):
        job = open_job(job)
    last = results(job)
    sum = Report(units=job.units_total, pending=job.units_total - len(last))
    for _, row in sorted(last.items()):
        sum.add(row)
        if each is not None and row["status"] in STATUSES[3:]:
            each(row)
    return sum


def _counted(units: Iterable[Unit], sum: Report) -> Iterator[Unit]:
    for unit in units:
        sum.units += 1
        yield unit


def _threads(worker: Worker, units: Iterator[Unit], threads: int) -> Iterator[tuple[Row, Unit]]:
    """The rows of units, as they end."""
    with ThreadPoolExecutor(threads, "warplock-bulk") as pool:
        waiting: dict[Future[Row], Unit] = {}
        try:
            while True:
                for unit in itertools.islice(units, 2 * threads - len(waiting)):
                    waiting[pool.submit(worker, unit)] = unit
                if not waiting:
                    return
                ready, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for future in ready:
                    yield future.result(), waiting.pop(future)
        finally:
            for future in waiting:
                future.cancel()
