"""What a worker's speed is beside very many jobs that are none of its business now, as a share of the empty case.

At scale 1 ten million finished ones, and a million of every other kind. An empty database and a grown one on the same
server have a worker process each, and take turns at 50,000 no-op jobs, so that whatever else the machine does happens
to both; what they have finished themselves stays in both. With minutes, each kind goes on for so long: autovacuum comes
to its work, and the time that it takes is told.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from bench.backlog import Backlog, receipts
from bench.databases import Database
from bench.filling import Filling
from bench.processes import workers
from bench.vacuuming import Vacuuming, watching_vacuum

_MOST_JOBS = 50_000
_LEAST_JOBS = 5_000
_LEAST_TURNS = 5


@dataclass(frozen=True)
class Kind:
    """`name`: what there is very much of, in words."""

    name: str
    count: int
    fill: Callable[[Filling, int], None]


KINDS = {
    "finished": Kind("finished", 10_000_000, Filling.finished),
    "pending": Kind("pending in the same queue", 1_000_000, Filling.pending),
    "future": Kind("due tomorrow", 1_000_000, Filling.future),
    "blocked": Kind("blocked", 1_000_000, Filling.blocked),
    "elsewhere": Kind("in other queues", 1_000_000, Filling.elsewhere),
    "unknown": Kind("of unknown types", 1_000_000, Filling.unknown),
}


def measure(
    database: Database, scale: float, minutes: float = 0.0, kinds: Sequence[str] | None = None
) -> dict[str, float]:
    figures: dict[str, float] = {}
    for kind in kinds or KINDS:
        count = int(KINDS[kind].count * scale)
        jobs = min(_MOST_JOBS, max(_LEAST_JOBS, int(_MOST_JOBS * scale)))
        with _side(database, lambda _: None) as empty, _side(database, _filled(kind, count)) as grown:
            measured = (
                _one_after_the_other(empty, grown, jobs, minutes)
                if kind == "unknown"
                else _in_turns(empty, grown, jobs, minutes, is_pending=kind == "pending")
            )
        figures |= {f"{count:,} {KINDS[kind].name}: {name}": figure for name, figure in measured.items()}
    return figures


def _filled(kind: str, count: int) -> Callable[[Filling], None]:
    return lambda filling: KINDS[kind].fill(filling, count)


@dataclass(frozen=True)
class _Side:
    """A database of its own."""

    dialect: str
    url: str
    backlog: Backlog

    @contextmanager
    def working(self, *, is_oldest: bool = False, is_quiet: bool = False) -> Iterator[Vacuuming]:
        """With a worker that is warm, whose queue is paused."""
        self.backlog.pause()
        with workers(1, self.url, is_quiet=is_quiet):
            self.backlog.await_workers(1)
            self.backlog.drain(_LEAST_JOBS, is_oldest=is_oldest)
            with watching_vacuum(self.dialect, self.url) as vacuuming:
                yield vacuuming


@contextmanager
def _side(database: Database, fill: Callable[[Filling], None]) -> Iterator[_Side]:
    with database.fresh():
        url = database.url
        fill(Filling(database.dialect, url))
        with receipts(database.dialect, url) as backlog:
            yield _Side(database.dialect, url, backlog)


def _in_turns(empty: _Side, grown: _Side, jobs: int, minutes: float, *, is_pending: bool) -> dict[str, float]:
    alone: list[float] = []
    beside: list[float] = []
    ends_at = time.monotonic() + minutes * 60
    with empty.working() as empty_vacuum, grown.working(is_oldest=is_pending) as grown_vacuum:
        while len(beside) < _LEAST_TURNS or time.monotonic() < ends_at:
            is_first = len(alone) % 2 == 0
            if is_first:
                alone.append(empty.backlog.drain(jobs))
            beside.append(grown.backlog.drain(jobs, is_oldest=is_pending))
            if not is_first:
                alone.append(empty.backlog.drain(jobs))
    shares = [grown_rate / empty_rate for empty_rate, grown_rate in zip(alone, beside, strict=True)]
    return _summary(alone, beside, shares) | _vacuums(empty, empty_vacuum, grown_vacuum)


def _one_after_the_other(empty: _Side, grown: _Side, jobs: int, minutes: float) -> dict[str, float]:
    """For jobs of unknown types, which come back all the time, also while another side would have its turn.

    A worker claims what its queues hold whatever its type, and gives back for later what it cannot run: first after a
    second, then after as much time as has passed since, in the end every five minutes. Paused meanwhile, they would
    add up. What is asked for is how soon known jobs that come now are done, whatever lies before them.
    """
    with empty.working() as empty_vacuum:
        alone = _openly(empty.backlog, jobs, minutes * 60)
    began = time.monotonic()
    with workers(1, grown.url, is_quiet=True), watching_vacuum(grown.dialect, grown.url) as grown_vacuum:
        grown.backlog.await_first_look()
        first_look = time.monotonic() - began
        beside = _openly(grown.backlog, jobs, minutes * 60)
    median = statistics.median(alone)
    return (
        {"until each was put off once, s": first_look}
        | _summary(alone, beside, [rate / median for rate in beside])
        | _vacuums(empty, empty_vacuum, grown_vacuum)
    )


def _openly(backlog: Backlog, jobs: int, seconds: float) -> list[float]:
    """Rates from the moment at which jobs may run; the queue is paused while they come in only."""
    rates: list[float] = []
    ends_at = time.monotonic() + seconds
    while len(rates) < _LEAST_TURNS or time.monotonic() < ends_at:
        span = backlog.work_off(backlog.lay_up(jobs))
        backlog.resume()
        rates.append(backlog.rate_since_release(span))
    return rates


def _summary(alone: Sequence[float], beside: Sequence[float], shares: Sequence[float]) -> dict[str, float]:
    return {
        "empty beside it, jobs/s": statistics.median(alone),
        "jobs/s": statistics.median(beside),
        "share of empty": statistics.median(shares),
        "the worst turn's share": min(shares),
        "turns": len(shares),
    }


def _vacuums(empty: _Side, empty_vacuum: Vacuuming, grown_vacuum: Vacuuming) -> dict[str, float]:
    if empty.dialect != "postgres":
        return {}
    return {
        "autovacuum of the empty one, s": empty_vacuum.seconds,
        "vacuums and analyses of the empty one": empty_vacuum.count,
        "autovacuum, s": grown_vacuum.seconds,
        "vacuums and analyses": grown_vacuum.count,
    }
