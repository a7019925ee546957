"""Enqueue what the ticks of schedules ask for, each once.

A tick is dealt with when `next_at` has moved past it; that happens under the lock of the schedule's row, in the
transaction that enqueues the job. So any number of schedulers may try, on whatever clock, and after a commit that was
not answered as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple

from holdfast.errors import InvalidOption
from holdfast.model.call import JobDocument
from holdfast.model.clock import iso, milliseconds
from holdfast.model.job import Chain
from holdfast.model.schedule import ScheduleRecord, due_ticks, extra_job, tick_job
from holdfast.operations.enqueue_guarded import Enqueued, enqueue_guarded
from holdfast.operations.enqueue_jobs import enqueue_plain
from holdfast.operations.look_at_chains import look_at_chain
from holdfast.operations.schedule_rows import iso_or_none, lock_schedule, lock_schedules, record_schedule
from holdfast.operations.statement import ATOMICALLY, Operation, Statement
from holdfast.operations.within import within

#: so many new ids
MakeIds = Callable[[int], list[str]]


class Upcoming(NamedTuple):
    """A schedule whose next tick has come, or comes soon: after so many milliseconds."""

    app: str
    name: str
    wait_ms: int


@dataclass(frozen=True, slots=True)
class Fired:
    """What came of looking at a schedule: how many jobs, and how many ticks passed because one was unfinished.

    - `is_more`: there are ticks that are due still.
    - `queues`: those that got work.
    - `jobs`: what was enqueued, and what came of each.
    """

    enqueued: int = 0
    overlapped: int = 0
    is_more: bool = False
    queues: set[str] = field(default_factory=set)
    jobs: Sequence[tuple[JobDocument, Enqueued]] = ()


def find_due_schedules(soon: timedelta) -> Operation[list[Upcoming]]:
    """Those that are due, and those that will be soon; the earliest first."""
    rows = yield Statement("find_due_schedules", {"soon_ms": milliseconds(soon)})
    return [Upcoming(*row) for row in rows]


def fire_schedule(app: str, name: str, make_ids: MakeIds) -> Operation[Fired]:
    """Deal with the ticks of a schedule that are due, or with the first of them, if there are many."""
    yield ATOMICALLY
    now, found = yield from lock_schedules(app, name)
    if not found:
        return Fired()
    record, template = found[0]
    if not record.is_active or record.next_at is None or record.next_at > now:
        return Fired()  # somebody else was here
    due = due_ticks(record, record.next_at, now)
    ticks = due.ticks
    if record.overlap == "skip" and ticks:
        # The first of them will be unfinished when the next one comes.
        ticks = [] if (yield from _is_unfinished(record)) else ticks[:1]
    jobs = [tick_job(record, template, tick, job_id) for tick, job_id in zip(ticks, make_ids(len(ticks)), strict=True)]
    woken: set[str] = set()
    enqueued: list[Enqueued] = (yield from within(enqueue_guarded(jobs, None, woken=woken))) if jobs else []
    yield Statement(
        "advance_schedule",
        {
            "app": app,
            "name": name,
            "next_at": iso_or_none(due.next_at),
            "last_tick_at": iso(due.ticks[-1]) if due.ticks else None,
            "last_chain_id": enqueued[-1].id if enqueued else None,
        },
    )
    return Fired(
        enqueued=len(jobs),
        overlapped=len(due.ticks) - len(ticks),
        is_more=due.next_at is not None and due.next_at <= now,
        queues=woken.union(job.queue for job in jobs),
        jobs=list(zip(jobs, enqueued, strict=True)),
    )


class RunNow(NamedTuple):
    """What a schedule enqueued beside its ticks, and the queues that got work."""

    chain: Chain[Any]
    woken: set[str]
    job: JobDocument


def run_schedule(app: str, name: str, job_id: str, actor: str | None) -> Operation[RunNow]:
    """Enqueue its job now, beside its ticks, be it paused or not."""
    yield ATOMICALLY
    _, (record, template) = yield from lock_schedule(app, name)
    if record.retired_at is not None:
        raise InvalidOption("name", name, "is retired: the code of the app does not have it any more")
    job = extra_job(name, template, job_id)
    woken = {job.queue}
    if job.is_guarded:
        (result,) = yield from within(enqueue_guarded([job], None, woken=woken))
    else:
        yield from within(enqueue_plain([job], None))
        result = Enqueued(job_id)
    yield Statement(
        "advance_schedule",
        {
            "app": app,
            "name": name,
            "next_at": iso_or_none(record.next_at),
            "last_tick_at": None,
            "last_chain_id": result.id,
        },
    )
    yield from record_schedule("run_schedule", app, name, actor, result.outcome, chain_id=result.id)
    chain: Chain[Any] = Chain(result.id, job.type_name, result.status, result.outcome, result.superseded)
    return RunNow(chain, woken, job)


def _is_unfinished(record: ScheduleRecord) -> Operation[bool]:
    """Asked after the lock, so that what another scheduler has just enqueued is seen."""
    if record.last_chain_id is None:
        return False
    sight = yield from look_at_chain(record.last_chain_id)
    return not sight.is_over
