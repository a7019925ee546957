"""How long the jobs of a killed worker take to be done after all, with default settings.

The worker has all its slots full when it is killed with SIGKILL. In one case another worker is alive, in the other it
was the only one and is started again at once; jobs that it died with are over as soon as they run again.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime

from bench.asking import Asking, asking
from bench.databases import Database
from bench.processes import workers
from holdfast import App

_APP = "bench.crash_jobs:app"
#: as many as a worker has slots
_MOST_JOBS = 100
_LONGEST_SECONDS = 600


def measure(database: Database, scale: float) -> dict[str, float]:
    jobs = min(_MOST_JOBS, max(10, int(_MOST_JOBS * scale)))
    figures = {}
    for has_other, name in ((True, "another is alive"), (False, "the only one, started again")):
        first, last = _recovered(database, jobs, has_other=has_other)
        figures[f"{name}: first of {jobs} jobs claimed again after, s"] = first
        figures[f"{name}: all completed after, s"] = last
    return figures


def _recovered(database: Database, jobs: int, *, has_other: bool) -> tuple[float, float]:
    """Seconds from the kill: until the first was claimed again, and until the last was completed."""
    with database.fresh(), _enqueued(database, jobs) as ask, ExitStack() as stack:
        [pid] = stack.enter_context(workers(1, database.url, app=_APP))
        _until(ask, f"(SELECT count(*) = {jobs} FROM {{job}} WHERE status = 'running')")
        if has_other:
            stack.enter_context(workers(1, database.url, app=_APP))
            _until(ask, "(SELECT count(*) = 2 FROM {worker} WHERE status = 'alive')")
        time.sleep(1)  # what was claimed has been started, and the other has looked around
        os.kill(pid, signal.SIGKILL)
        killed_at = datetime.now(UTC)
        if not has_other:
            stack.enter_context(workers(1, database.url, app=_APP))
        _until(ask, f"(SELECT count(*) = {jobs} FROM {{job}} WHERE status = 'completed')")
        began, ended = ask.moments("SELECT min(last_attempt_at), max(finished_at) FROM {job}")
        return (began - killed_at).total_seconds(), (ended - killed_at).total_seconds()


@contextmanager
def _enqueued(database: Database, jobs: int) -> Iterator[Asking]:
    app = App(database.url, auto_migrate=True)

    @app.job()
    async def unfinished() -> None: ...

    with app.client() as client:
        client.enqueue_many([unfinished.call() for _ in range(jobs)])
    app.close()
    with asking(database.dialect, database.url) as ask:
        yield ask


def _until(ask: Asking, condition: str) -> None:
    deadline = time.monotonic() + _LONGEST_SECONDS
    while not ask.value(f"SELECT {condition}"):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not so within {_LONGEST_SECONDS} s: {condition}")
        time.sleep(0.1)
