"""What finished jobs cost those that run while they are pruned.

At scale 1 a million finished chains, which ended five hundred at a time. The rates are those of one worker process on
no-op jobs; that worker leads, and prunes the history itself.
"""

from __future__ import annotations

import time
from datetime import timedelta

from bench.asking import Asking, asking
from bench.backlog import receipts
from bench.databases import Database
from bench.filling import Filling
from bench.processes import workers

_HISTORY = 1_000_000
_JOBS = 50_000
_LONGEST_SECONDS = 1_800


def measure_prune(database: Database, scale: float) -> dict[str, float]:
    """Beside a history that stays, and while as much goes."""
    count = int(_HISTORY * scale)
    with database.fresh():
        Filling(database.dialect, database.url).finished(count)
        with workers(1, database.url), receipts(database.dialect, database.url) as backlog:
            figures = {f"{count:,} finished, jobs/s": backlog.drain(_JOBS)}
    with database.fresh():
        Filling(database.dialect, database.url).finished(count, timedelta(days=10))
        with (
            workers(1, database.url),
            receipts(database.dialect, database.url) as backlog,
            asking(database.dialect, database.url) as ask,
        ):
            figures[f"while {count:,} are pruned, jobs/s"] = backlog.drain(_JOBS)
            began, left = time.monotonic(), _left(ask)
            while _left(ask):
                if time.monotonic() - began > _LONGEST_SECONDS:
                    raise RuntimeError("the history is not pruned")
                time.sleep(1)
        figures["pruned by an idle worker, chains/s"] = left / (time.monotonic() - began)
    return figures


def _left(ask: Asking) -> int:
    """Counted by the index of ends."""
    return int(
        ask.value(
            "SELECT count(*) FROM {job} WHERE is_tail = {yes} AND finished_at IS NOT NULL AND type_name = 'history'"
        )
    )
