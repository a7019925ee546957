"""What more worker processes than cores do to a drain: to the speed of all of them together.

They are up before the first job may be claimed. Each count has a turn on the way up and one on the way down, so that a
machine that grows slower or faster meanwhile does so for all of them.
"""

from __future__ import annotations

from collections import defaultdict
from statistics import fmean

from bench.backlog import receipts
from bench.databases import Database
from bench.processes import workers

_COUNTS = {"postgres": (1, 2, 4, 8), "sqlite": (1, 4)}
_WARM_JOBS = 5_000


def measure(database: Database, scale: float) -> dict[str, float]:
    jobs = max(5_000, int(100_000 * scale))
    counts = _COUNTS[database.dialect]
    rates = defaultdict(list)
    for count in (*counts, *reversed(counts)):
        rates[count].append(_rate(database, jobs, count))
    means = {count: fmean(measured) for count, measured in rates.items()}
    figures = {f"{count} worker process{'es' if count > 1 else ''}, jobs/s": mean for count, mean in means.items()}
    if database.dialect == "sqlite":
        return figures | {"share of one, 4 on one file": means[4] / means[1]}
    return figures | {"share of the best count, 8": means[8] / max(means.values())}


def _rate(database: Database, jobs: int, count: int) -> float:
    with database.fresh(), receipts(database.dialect, database.url) as backlog:
        backlog.pause()
        with workers(count, database.url):
            backlog.await_workers(count)
            backlog.drain(_WARM_JOBS)
            return backlog.drain(jobs)
