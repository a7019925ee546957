"""How much of what realistic handlers would do alone is left with a queue around them: one worker process each time.

A millisecond of waiting with 500 at once, and a millisecond of computing in threads and in processes. The handlers
alone are measured before and after the queue, and their mean counts. Beside those that wait stand jobs that do nothing,
with as many slots: handlers that take no core are held up by the queue alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import fmean

from bench import bare_handlers
from bench.asking import asking
from bench.backlog import Backlog
from bench.databases import Database
from bench.processes import workers
from holdfast import App

_BARE_SECONDS = 4.0


@dataclass(frozen=True)
class _Place:
    """`jobs`: so many take some ten seconds with a queue around them."""

    title: str
    job: str
    queue: str
    slots: int
    jobs: int
    bare: bare_handlers.Bare


_CORES = os.cpu_count() or 1
_WAITING = _Place("1 ms of waiting, 500 at once", "wait", "waiting", 500, 200_000, bare_handlers.waiting)
_NOTHING = replace(_WAITING, title="no-op, 500 at once", job="do_nothing", queue="nothing")
_PLACES = (
    _WAITING,
    _Place("1 ms of CPU, 20 threads", "compute", "threads", 20, 10_000, bare_handlers.in_threads),
    _Place(
        f"1 ms of CPU, {_CORES} processes",
        "compute_apart",
        "processes",
        _CORES,
        10_000 * _CORES,
        bare_handlers.in_processes,
    ),
)


def measure(database: Database, scale: float) -> dict[str, float]:
    figures = {}
    for place in _PLACES:
        seconds = max(1.0, _BARE_SECONDS * scale)
        before = place.bare(place.slots, seconds)
        rate = _with_queue(database, place, max(500, int(place.jobs * scale)))
        alone = fmean([before, place.bare(place.slots, seconds)])
        figures[f"{place.title}, jobs/s"] = rate
        figures[f"{place.title}, alone, calls/s"] = alone
        figures[f"{place.title}, share of alone"] = rate / alone
    nothing = _with_queue(database, _NOTHING, max(500, int(_NOTHING.jobs * scale)))
    figures[f"{_NOTHING.title}, jobs/s"] = nothing
    figures[f"{_WAITING.title}, share of no-op"] = figures[f"{_WAITING.title}, jobs/s"] / nothing
    return figures


def _with_queue(database: Database, place: _Place, jobs: int) -> float:
    with database.fresh(), _backlog(database, place) as backlog:
        backlog.pause()
        arguments = ("--queues", place.queue, "--concurrency", str(place.slots))
        with workers(1, database.url, *arguments, app="bench.handler_jobs:app"):
            backlog.await_workers(1)
            backlog.drain(max(100, place.slots))  # threads and processes are there
            return backlog.drain(jobs)


@contextmanager
def _backlog(database: Database, place: _Place) -> Iterator[Backlog]:
    app = App(database.url, auto_migrate=True)

    @app.job(name=place.job, queue=place.queue)
    async def declared() -> None: ...

    with app.client() as client:
        client.migrate()
        with asking(database.dialect, database.url) as ask:
            yield Backlog(client, ask, lambda _: declared.call(), place.queue)
    app.close()
