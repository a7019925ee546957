"""Give jobs that have not begun another time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from holdfast.model.clock import iso, milliseconds
from holdfast.model.control import ACTS_ON, ControlOutcome
from holdfast.model.payload import to_json
from holdfast.model.status import Status
from holdfast.operations.control import (
    ControlBatch,
    Orders,
    in_order,
    lock_jobs,
    record_audit,
    refuse_if_strict,
    result_of,
    wrong_status,
)
from holdfast.operations.statement import ATOMICALLY, Operation, Statement


def reschedule_jobs(
    ids: Sequence[str], orders: Orders, *, at: datetime | None = None, delay: timedelta | None = None
) -> Operation[ControlBatch]:
    """To `at`, or `delay` from now; what lies in the past means now."""
    yield ATOMICALLY
    targets = yield from lock_jobs(ids, orders)
    results = targets.missing | {
        asked: result_of(asked, job, ControlOutcome.RESCHEDULED)
        if job.status in ACTS_ON["reschedule"]
        else wrong_status("reschedule", asked, job)
        for asked, job in targets.jobs.items()
    }
    refuse_if_strict("reschedule", orders, results.values())
    changed = [job for asked, job in targets.jobs.items() if results[asked].is_done]
    when = {
        "at": None if at is None else iso(at),
        "delay_ms": None if delay is None else milliseconds(delay),
    }
    if changed:
        yield Statement("reschedule_jobs", {"jobs": to_json(sorted({job.id for job in changed})).decode(), **when})
    yield from record_audit("reschedule", orders, list(results.values()), when)
    # Idle workers sleep until the next job is due, and must hear of an earlier one.
    woken = {job.queue for job in changed if job.status is Status.PENDING}
    return ControlBatch(in_order(ids, results), woken, targets.jobs)
