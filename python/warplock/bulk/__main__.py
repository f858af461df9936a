"""`python -m warplock.bulk`: buckets and folders from the command line."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from obstore.exceptions import BaseError

from warplock import Error
from warplock.bulk import Job, Report, Row, Unit, open_job, plan, report, run
from warplock.bulk._job import OPERATIONS
from warplock.bulk._unit import sentence

if TYPE_CHECKING:
    from collections.abc import Sequence

_ABOUT = """\
Encrypt, decrypt, verify or rewrap all objects of a place: s3://bucket/prefix, gs://.., az://..
or a folder. Each object has a result of its own, NAME.wl, with a fresh key. Credentials come from
the environment, as for the vendors' tools. Exit codes: 0 all done; 1 something failed; 3 something
failed authentication. The other objects are done all the same."""


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m warplock.bulk", description=_ABOUT)
    commands = parser.add_subparsers(dest="command", required=True)

    recipients = argparse.ArgumentParser(add_help=False)
    recipients.add_argument("-r", "--recipient", action="append", default=[], metavar="RECIPIENT")
    recipients.add_argument("-R", "--recipients-file", action="append", default=[], metavar="FILE")
    selection = argparse.ArgumentParser(add_help=False)
    selection.add_argument("--include", action="append", default=[], metavar="PATTERN")
    selection.add_argument("--exclude", action="append", default=[], metavar="PATTERN")
    running = argparse.ArgumentParser(add_help=False)
    running.add_argument("-i", "--identity", action="append", default=[], metavar="FILE")
    running.add_argument("--threads", type=int, default=8, help="objects at a time (8)")
    running.add_argument("--on", choices=["ray"], help="run on a Ray cluster")
    running.add_argument("--workers", type=int, default=2, help="actors on the cluster (2)")
    running.add_argument("--force", action="store_true", help="replace objects with such names")
    output = argparse.ArgumentParser(add_help=False)
    output.add_argument("--json", action="store_true", help="the sum as one JSON object on stdout")

    for operation in OPERATIONS:
        parents = [running, selection, output]
        if operation in ("encrypt", "rewrap"):
            parents.append(recipients)
        one = commands.add_parser(operation, parents=parents, help=f"{operation} in one go")
        one.add_argument("source")
        if operation in ("encrypt", "decrypt"):
            one.add_argument("destination")
    planned = commands.add_parser(
        "plan", parents=[recipients, selection, output], help="list a place into a job"
    )
    planned.add_argument("--op", required=True, choices=OPERATIONS)
    planned.add_argument("--job", required=True, help="the job's folder; it is made")
    planned.add_argument("source")
    planned.add_argument("destination", nargs="?")
    ran = commands.add_parser("run", parents=[running, output], help="run a job, or go on with it")
    ran.add_argument("job")
    ran.add_argument("--shard", default="0/1", metavar="I/N", help="only part I of N, from 0")
    reported = commands.add_parser("report", parents=[output], help="add up what runs did")
    reported.add_argument("job")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    if not _has_standard():
        print("warplock.bulk: stdout is closed, and what belongs there would be lost", file=sys.stderr)
        return 1
    given = _arguments().parse_args(arguments)
    try:
        return _run(given)
    except (OSError, ValueError, RuntimeError, Error, BaseError) as error:
        print(f"warplock.bulk: {sentence(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as stop:
        print("warplock.bulk: stopped; the same command goes on from here", file=sys.stderr)
        return 143 if isinstance(stop, _Terminated) else 130
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "ray":
            raise
        print('warplock.bulk: --on ray needs `pip install "warplock[ray]"`', file=sys.stderr)
        return 1


class _Terminated(KeyboardInterrupt):
    """Schedulers and service managers stop a process by SIGTERM: it leaves as little as Ctrl-C."""


def _stop(number: int, frame: object) -> None:
    # Not again while the first one is served.
    signal.signal(number, signal.SIG_IGN)
    raise _Terminated


def _has_standard() -> bool:
    """Whether there is a standard output. Closed descriptors are opened on /dev/null: the next file
    that is opened would get their numbers, and what others write to them."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)
    return sys.stdout is not None


def _run(given: argparse.Namespace) -> int:
    command = given.command
    if command == "report":
        return _finish(given, report(given.job, _tell))
    if command == "run":
        index, _, count = given.shard.partition("/")
        if not (index.isdigit() and count.isdigit()):
            raise ValueError(f"--shard {given.shard}: give I/N with I from 0 to N - 1")
        return _run_job(given, open_job(given.job), (int(index), int(count)))
    recipients = [
        *getattr(given, "recipient", []),
        *map(Path, getattr(given, "recipients_file", [])),
    ]
    job = plan(
        given.source,
        getattr(given, "destination", None),
        given.op if command == "plan" else command,
        recipients=recipients,
        job=given.job if command == "plan" else None,
        include=given.include,
        exclude=given.exclude,
    )
    if not job.units_total and "://" in job.source:
        # In a bucket that is all that a wrong prefix shows.
        raise ValueError(
            f"{given.source}: nothing to do is found there; a place is a bucket or a prefix that ends "
            "before a '/', not one object (for one, name its prefix and --include)"
        )
    if command == "plan":
        told = {"job": given.job, "units": job.units_total, "bytes": job.bytes}
        print(json.dumps(told) if given.json else f"{job.units_total} units, {job.bytes} bytes")
        return 0
    return _run_job(given, job, (0, 1))


def _run_job(given: argparse.Namespace, job: Job, shard: tuple[int, int]) -> int:
    progress = _Progress(job)
    total = run(
        job,
        identities=given.identity,
        shard=shard,
        threads=given.threads,
        on=given.on,
        workers=given.workers,
        replace=given.force,
        each=progress,
    )
    progress.clear()
    return _finish(given, total)


def _finish(given: argparse.Namespace, total: Report) -> int:
    told = total.to_dict()
    if given.json:
        print(json.dumps(told))
    else:
        words = [f"{count} {name}" for name, count in told.items() if count and name != "bytes"]
        print(", ".join([*words, f"{total.bytes / 1e9:.3f} GB"]))
    return total.exit_code


def _tell(row: Row) -> None:
    line = f"{row['path']}: {row['status']}: {row['message']}"
    # Keys may hold what a terminal obeys.
    plain = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
    print(plain, file=sys.stderr)


class _Progress:
    """Failures as lines, and on a terminal one line of progress."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._start = self._shown = time.monotonic()
        self._units = self._bytes = 0
        self._line = sys.stderr.isatty()

    def __call__(self, row: Row, unit: Unit) -> None:
        self._units += 1
        self._bytes += unit["size"]
        # What was left out of a source has no encrypted copy.
        left_out = self._job.operation == "encrypt" and unit["skipped"] is not None
        if left_out or row["status"] in ("changed", "failed", "authentication"):
            self.clear()
            _tell(row)
        now = time.monotonic()
        if self._line and now > self._shown + 0.5:
            self._shown = now
            rate = self._bytes / (now - self._start)
            left = (self._job.bytes - self._bytes) / rate if rate else 0
            print(
                f"\r\033[K{self._units} of {self._job.units_total} objects, "
                f"{self._bytes / 1e9:.2f} GB, {rate / 1e6:.0f} MB/s, {left:.0f} s left",
                end="",
                file=sys.stderr,
                flush=True,
            )

    def clear(self) -> None:
        """Removes the line."""
        if self._line:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _stop)
    sys.exit(main())
