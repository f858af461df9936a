"""A job on a Ray cluster: each worker is an actor with its engine. Only plain values and rows travel:
identities are paths that a worker reads itself, or a function that it calls."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import ray.data

from warplock.bulk._unit import Row, Settings, Unit, Worker

if TYPE_CHECKING:
    from collections.abc import Iterator

# Units that are handed out together, and again together if their worker dies; those that were done
# are then found done.
_BATCH = 32
# Units in the driver's memory at a time.
_WINDOW = 50_000


class _Actor:
    def __init__(self, settings: Settings, threads: int) -> None:
        self._worker = Worker(settings)
        self._pool = ThreadPoolExecutor(threads)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        names = list(batch)
        units = [
            dict(zip(names, values, strict=True))
            for values in zip(*(list(batch[name]) for name in names), strict=True)
        ]
        done = list(self._pool.map(self._one, units))
        return {name: [row[name] for row in done] for name in done[0]}

    def _one(self, told: dict[str, Any]) -> dict[str, Any]:
        unit = Unit(
            unit=int(told["unit"]),
            path=str(told["path"]),
            size=int(told["size"]),
            version=str(told["version"]),
            skipped=str(told["skipped"]) or None,
            failed=str(told["failed"]) or None,
        )
        row: dict[str, Any] = dict(self._worker(unit))
        # Columns of one type.
        row["message"] = row["message"] or ""
        return row


def on_ray(
    settings: Settings, units: Iterator[Unit], workers: int, threads: int
) -> Iterator[tuple[Row, Unit]]:
    """The rows of units, as they end."""
    while window := list(itertools.islice(units, _WINDOW)):
        by_number = {unit["unit"]: unit for unit in window}
        plain = [
            {**unit, "skipped": unit["skipped"] or "", "failed": unit["failed"] or ""}
            for unit in window
        ]
        data = ray.data.from_items(
            plain, override_num_blocks=min(len(plain), max(workers, len(plain) // _BATCH))
        ).map_batches(
            _Actor,
            fn_constructor_args=(settings, threads),
            batch_size=_BATCH,
            compute=ray.data.ActorPoolStrategy(min_size=1, max_size=workers),
        )
        for told in data.iter_rows():
            row: Any = dict(told, message=told["message"] or None)
            yield row, by_number[row["unit"]]
