"""Counts that cost no more than they may: bounded looks, kept in a table by the leader, read from there by all.

Only what is unfinished or dead is counted, each kind by its index and up to a cap; history is never read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import get_args

import msgspec

from holdfast.model.clock import milliseconds
from holdfast.model.operating import QueueRecord, ServiceRecord, State, StateCount, Stats, ThroughputMinute
from holdfast.model.queue import QueueSettings
from holdfast.operations.list_workers import list_workers
from holdfast.operations.queue_settings import read_queues
from holdfast.operations.statement import Operation, Statement

#: counting goes so far in each queue, and so far for each kind of job outside the queues
CAP = 10_000
#: so many pairs of queue and priority are looked at
LANES = 1_000
#: older ones were left by a leader that is gone
STALE = timedelta(seconds=60)
#: how long the throughput is kept minute by minute, and then hour by hour
KEEP_MINUTES = timedelta(days=1)
KEEP_THROUGHPUT = timedelta(days=30)

_minute = msgspec.json.Decoder(ThroughputMinute)


class OutcomeCount(msgspec.Struct):
    """What a worker reports of a type."""

    queue: str
    type_name: str
    completed: int = 0
    failed: int = 0


class _Sent(msgspec.Struct):
    queue: str
    type_name: str
    state: State
    jobs: int
    is_capped: bool
    waiting_ms: int | None


class _Count:
    __slots__ = ("is_capped", "jobs", "waiting_ms")

    def __init__(self) -> None:
        self.jobs = 0
        self.is_capped = False
        self.waiting_ms: int | None = None

    def add(self, jobs: int, waiting_ms: int | None, *, is_capped: bool) -> None:
        self.jobs += jobs
        self.is_capped |= is_capped
        if waiting_ms is not None:
            self.waiting_ms = max(waiting_ms, waiting_ms if self.waiting_ms is None else self.waiting_ms)


def count_jobs(cap: int = CAP) -> Operation[list[StateCount]]:
    """Count now, up to `cap` jobs of each queue and of each kind."""
    counts: dict[tuple[str, str, State], _Count] = {}
    lanes = yield Statement("find_queues", {}, literals={"limit": LANES})
    for queue in dict.fromkeys(lane[0] for lane in lanes):
        rows = yield Statement("count_queue", {"queue": queue}, literals={"limit": cap})
        is_capped = sum(row[2] for row in rows) >= cap
        for type_name, is_due, jobs, waiting_ms in rows:
            key = (queue, type_name, _waiting(is_due=is_due))
            counts.setdefault(key, _Count()).add(jobs, waiting_ms, is_capped=is_capped)
    for queue, type_name, is_due, waiting_ms in lanes:
        # The oldest one may stand in a lane that the cap did not let us reach.
        key = (queue, type_name, _waiting(is_due=is_due))
        is_beyond = key not in counts
        counts.setdefault(key, _Count()).add(int(is_beyond), waiting_ms, is_capped=is_beyond)
    rows = yield Statement("count_aside", {}, literals={"limit": cap})
    totals: Counter[str] = Counter()
    for _, _, state, jobs, _ in rows:
        totals[state] += jobs
    for queue, type_name, state, jobs, waiting_ms in rows:
        counts.setdefault((queue, type_name, state), _Count()).add(jobs, waiting_ms, is_capped=totals[state] >= cap)
    return [
        _state_count(queue, type_name, state, found.jobs, found.waiting_ms, is_capped=found.is_capped)
        for (queue, type_name, state), found in sorted(counts.items())
    ]


def keep_stats(
    worker_id: str, term: int, counts: Sequence[StateCount], services: Mapping[str, timedelta] | None = None
) -> Operation[bool]:
    """Write down what was counted, in the place of what was there; whether the worker still led.

    `services`: how long ago each had its last success.
    """
    served = [{"name": name, "ago_ms": milliseconds(ago)} for name, ago in sorted((services or {}).items())]
    sent = [
        _Sent(each.queue, each.type_name, each.state, each.jobs, each.is_capped, _milliseconds(each.oldest_seconds))
        for each in counts
    ]
    rows = yield Statement(
        "keep_stats",
        {
            "worker": worker_id,
            "term": term,
            "counts": msgspec.json.encode(sent).decode(),
            "services": msgspec.json.encode(served).decode(),
            "minutes_ms": milliseconds(KEEP_MINUTES),
            "keep_ms": milliseconds(KEEP_THROUGHPUT),
        },
    )
    return bool(rows)


def report_outcomes(outcomes: Iterable[OutcomeCount]) -> Operation[None]:
    """Add to this minute's throughput."""
    chosen = sorted(outcomes, key=lambda each: (each.queue, each.type_name))
    yield Statement("report_outcomes", {"outcomes": msgspec.json.encode(chosen).decode()})


def read_stats(within: timedelta) -> Operation[Stats]:
    """What was kept, or, if nobody keeps it, what is counted now; and the throughput of the time `within`."""
    rows = yield Statement("read_stats")
    age_ms = max((row[6] for row in rows), default=None)
    if age_ms is None or age_ms > milliseconds(STALE):
        age_ms = 0
        counts = yield from count_jobs()
    else:
        counts = [
            _state_count(queue, type_name, state, jobs, waiting_ms, is_capped=bool(is_capped))
            for queue, type_name, state, jobs, is_capped, waiting_ms, _ in rows
        ]
    minutes = yield Statement("read_throughput", {"within_ms": milliseconds(within)})
    throughput = [_minute.decode(minute) for (minute,) in minutes]
    served = yield Statement("read_services")
    services = [
        ServiceRecord(name=name, worker_id=worker_id, last_success_seconds=max(0, ago_ms) / 1000)
        for name, worker_id, ago_ms in served
    ]
    return Stats(counts=counts, throughput=throughput, age_seconds=max(0, age_ms) / 1000, services=services)


def list_queues() -> Operation[list[QueueRecord]]:
    """Every queue that has jobs, workers that serve it, a pause or limits, by name."""
    stats = yield from read_stats(timedelta())
    workers = yield from list_workers()
    settings = {each.name: each for each in (yield from read_queues())}
    served = Counter(queue for worker in workers if worker.status == "alive" for queue in worker.queues)
    names = {count.queue for count in stats.counts} | served.keys() | settings.keys()
    return [
        _queue(
            settings.get(name) or QueueSettings(name=name),
            [each for each in stats.counts if each.queue == name],
            served[name],
        )
        for name in sorted(names)
    ]


def _queue(settings: QueueSettings, counts: list[StateCount], workers: int) -> QueueRecord:
    jobs = {state: sum(each.jobs for each in counts if each.state == state) for state in get_args(State)}
    waiting = [each.oldest_seconds for each in counts if each.state == "ready" and each.oldest_seconds is not None]
    return QueueRecord(
        **msgspec.structs.asdict(settings),
        ready=jobs["ready"],
        scheduled=jobs["scheduled"],
        held=jobs["held"],
        blocked=jobs["blocked"],
        running=jobs["running"],
        dead_letters=jobs["dead_letter"],
        is_capped=any(each.is_capped for each in counts),
        oldest_ready_seconds=max(waiting, default=None),
        workers=workers,
    )


def _waiting(*, is_due: bool) -> State:
    return "ready" if is_due else "scheduled"


def _state_count(
    queue: str, type_name: str, state: State, jobs: int, waiting_ms: int | None, *, is_capped: bool
) -> StateCount:
    seconds = None if waiting_ms is None or waiting_ms < 0 else waiting_ms / 1000
    return StateCount(
        queue=queue, type_name=type_name, state=state, jobs=jobs, is_capped=is_capped, oldest_seconds=seconds
    )


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)
