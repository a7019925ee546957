"""What an old snapshot costs: a REPEATABLE READ transaction that stays open keeps dead rows and index entries.

Three measures, PostgreSQL only:

- 300,000 no-op jobs at full speed with two worker processes: the rate of the last 50,000 as a share of that of the
  first, with the snapshot and without.
- Ten minutes at 2,000 jobs a second with one worker, then another minute in which a fresh one joins: the 99th
  percentile of claims in that minute, from the newcomer's first one on, as a multiple of that of the first minute.
  Claims are timed in the worker, from the statement to its answer; how long jobs took from the enqueue call to their
  start is told beside it.
- Jobs of a transaction that commits five seconds after it has enqueued them, without a notification: how long after
  the commit the last of them has started, while workers are busy at that pace and the snapshot is open, and when they
  are idle.

At a smaller scale there are fewer jobs, and minutes are shorter.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from bench.asking import asking
from bench.backlog import receipts
from bench.databases import Database
from bench.notes import Note, percentile, read_notes
from bench.processes import workers
from bench.steady import APP
from bench.steady_load import await_all_done, steady_load
from holdfast import App

_JOBS = 300_000
_PARTS = 6
_MINUTES = 10
_WARM_JOBS = 5_000
_WARM_SECONDS = 3.0
#: no minute is shorter than this: a process has to start in one
_SHORTEST_MINUTE_SECONDS = 1.0
_SHORTEST_LAST_MINUTE_SECONDS = 6.0
_LATE_JOBS = 100
_LATE_SECONDS = 5.0
#: of the time at a steady pace: its commit is to be found before the newcomer looks around
_LATE_COMMIT_FROM_END_SECONDS = 20.0


def measure(database: Database, scale: float) -> dict[str, float]:
    jobs = max(_PARTS * _WARM_JOBS, int(_JOBS * scale))
    figures = {}
    for has_snapshot, name in ((False, "no snapshot"), (True, "old snapshot")):
        first, last = _ends_of_drain(database, jobs, has_snapshot=has_snapshot)
        figures[f"{name}: first {jobs // _PARTS:,} of {jobs:,}, jobs/s"] = first
        figures[f"{name}: last {jobs // _PARTS:,}, jobs/s"] = last
        figures[f"{name}: last, share of first"] = last / first
    return figures | _at_steady_pace(database, 60 * scale)


def _ends_of_drain(database: Database, jobs: int, *, has_snapshot: bool) -> tuple[float, float]:
    """Jobs per second of its first and of its last part."""
    with database.fresh(), receipts(database.dialect, database.url) as backlog:
        backlog.pause()
        with workers(2, database.url):
            backlog.await_workers(2)
            backlog.drain(_WARM_JOBS)
            with _snapshot(database.url, is_open=has_snapshot):
                span = backlog.work_off(backlog.lay_up(_WARM_JOBS + jobs))
        part = jobs // _PARTS
        ends = []
        with asking(database.dialect, database.url) as ask:
            # A worker takes a moment to learn how much it can do: that is not in the first part.
            for number in (0, part, jobs - part, jobs):
                where = f"FROM {{job}} WHERE {span.where} ORDER BY finished_at OFFSET {_WARM_JOBS + number - 1} LIMIT 1"
                ends += ask.moments(f"SELECT finished_at {where}")
    return part / (ends[1] - ends[0]).total_seconds(), part / (ends[3] - ends[2]).total_seconds()


def _at_steady_pace(database: Database, minute: float) -> dict[str, float]:
    minute = max(_SHORTEST_MINUTE_SECONDS, minute)
    with tempfile.TemporaryDirectory() as folder, database.fresh(), ThreadPoolExecutor(1) as aside:
        with steady_load(database.url) as load, workers(1, database.url, app=APP, notes=Path(folder)):
            load(_WARM_SECONDS)
            with _snapshot(database.url):
                began_ns = time.monotonic_ns()
                committing = aside.submit(_commit_late, database.url, minute * _MINUTES - _LATE_COMMIT_FROM_END_SECONDS)
                pace = load(minute * _MINUTES)
                while_busy = committing.result()
                started_ns = time.monotonic_ns()
                with workers(1, database.url, app=APP, notes=Path(folder)) as [newcomer]:
                    load(max(_SHORTEST_LAST_MINUTE_SECONDS, minute))
                    ended_ns = time.monotonic_ns()
                    await_all_done(database.dialect, database.url)
                    while_idle = _commit_late(database.url)
                    await_all_done(database.dialect, database.url)
        notes = list(read_notes(Path(folder)))
    first = [note for note in notes if began_ns <= note.began_ns < began_ns + minute * 1e9]
    # Not from the start of its process: that takes a core for a second, whatever snapshots there are.
    joined_ns = min(note.began_ns for note in notes if note.pid == newcomer and note.what == "claim")
    last = [note for note in notes if joined_ns <= note.began_ns < ended_ns]
    new = [note for note in last if note.pid == newcomer]
    figures = {"steady: minutes under the snapshot": _MINUTES * minute / 60, "steady: enqueued, jobs/s": pace}
    for what, name in (("claim", "claims"), ("start", "enqueue to start")):
        before, after = _p99(first, what), _p99(last, what)
        figures[f"steady: {name}, p99 of the first minute, ms"] = before
        figures[f"steady: {name}, p99 of the last one with a newcomer, ms"] = after
        figures[f"steady: {name}, times the first minute's"] = after / before
    figures["steady: claims of the newcomer alone, p99, ms"] = _p99(new, "claim")
    first_start_ns = min(note.ended_ns for note in new if note.what == "start")
    figures["steady: the newcomer's first job after the start of its process, s"] = (first_start_ns - started_ns) / 1e9
    figures["late commit, busy worker: started after, s"] = while_busy.seconds_until_started(notes)
    figures["late commit, idle workers: started after, s"] = while_idle.seconds_until_started(notes)
    return figures


def _p99(notes: Sequence[Note], what: str) -> float:
    return percentile([note.milliseconds for note in notes if note.what == what], 0.99)


@contextmanager
def _snapshot(url: str, *, is_open: bool = True) -> Iterator[None]:
    """Somebody has read something, and does not end the transaction."""
    if not is_open:
        yield
        return
    with psycopg.connect(url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT count(*) FROM holdfast.worker")
        yield


@dataclass(frozen=True)
class _LateJobs:
    """By the instant at which they were enqueued, and the one at which that was committed."""

    sent_ns: int
    committed_ns: int

    def seconds_until_started(self, notes: Sequence[Note]) -> float:
        """Of the last of them, from the commit."""
        starts = [note.ended_ns for note in notes if note.what == "late" and note.began_ns == self.sent_ns]
        if len(starts) != _LATE_JOBS:
            raise RuntimeError(f"{len(starts)} of {_LATE_JOBS} late jobs have started")
        return (max(starts) - self.committed_ns) / 1e9


def _commit_late(url: str, after_seconds: float = 0.0) -> _LateJobs:
    time.sleep(max(0.0, after_seconds))
    app = App(url, notify=False)

    @app.job()
    async def late(sent_ns: int) -> None: ...

    with app.client() as client, psycopg.connect(url) as connection:
        sent_ns = time.monotonic_ns()
        client.enqueue_many([late.call(sent_ns) for _ in range(_LATE_JOBS)], tx=connection)
        time.sleep(_LATE_SECONDS)
        connection.commit()
        committed_ns = time.monotonic_ns()
    app.close()
    return _LateJobs(sent_ns, committed_ns)
