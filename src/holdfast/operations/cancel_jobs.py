"""Cancel jobs: those that wait at once, those that run by asking."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model.control import ACTS_ON, ControlOutcome, ControlResult
from holdfast.model.job import JobError
from holdfast.model.payload import to_json
from holdfast.model.status import Status
from holdfast.operations.control import (
    ControlBatch,
    LockedJob,
    Orders,
    in_order,
    lock_jobs,
    record_audit,
    refuse_if_strict,
    result_of,
    wrong_status,
)
from holdfast.operations.settle_chains import settle_chains
from holdfast.operations.statement import ATOMICALLY, Operation, Statement
from holdfast.operations.tell_holders import tell_holders


def cancel_jobs(ids: Sequence[str], orders: Orders, reason: str | None = None) -> Operation[ControlBatch]:
    """Whoever waits for a chain that ends by this is told in the same transaction."""
    yield ATOMICALLY
    targets = yield from lock_jobs(ids, orders, "dependants")
    results = targets.missing | {asked: _verdict(asked, job) for asked, job in targets.jobs.items()}
    refuse_if_strict("cancel", orders, results.values())
    changed = {job.id for asked, job in targets.jobs.items() if results[asked].is_done}
    ended = {
        job.chain_id
        for asked, job in targets.jobs.items()
        if results[asked].outcome is ControlOutcome.CANCELLED and job.is_tail
    }
    asked = [result.job_id for result in results.values() if result.outcome is ControlOutcome.REQUESTED]
    woken = (yield from tell_holders(filter(None, asked))) if asked else set()
    by = "" if orders.actor is None else f" by {orders.actor}"
    error = JobError("Cancelled", f"cancelled{by}" if reason is None else reason)
    if changed:
        rows = yield Statement(
            "cancel_jobs",
            {
                "jobs": to_json(sorted(changed)).decode(),
                "error": to_json(error).decode(),
                "chain": not orders.is_job_only,
            },
        )
        woken |= {queue for (queue,) in rows}
    yield from record_audit("cancel", orders, list(results.values()), None if reason is None else {"reason": reason})
    # Whoever is in haste waits for nobody while he holds the locks of 500 jobs; what he passes by, the sweep finds.
    woken |= yield from settle_chains(ended, patient=orders.is_patient)
    return ControlBatch(in_order(ids, results), woken, targets.jobs, error)


def _verdict(asked: str, job: LockedJob) -> ControlResult:
    if job.status not in ACTS_ON["cancel"]:
        return wrong_status("cancel", asked, job)
    is_running = job.status is Status.RUNNING
    return result_of(asked, job, ControlOutcome.REQUESTED if is_running else ControlOutcome.CANCELLED)
