"""Let dead letters and cancelled jobs begin anew, if their deduplication keys are free.

Lock order: keys, by type and key; then jobs, by id.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from holdfast.model.control import ACTS_ON, ControlOutcome, ControlResult
from holdfast.model.payload import to_json
from holdfast.operations.control import (
    ControlBatch,
    LockedJob,
    Orders,
    in_order,
    lock_jobs,
    locked_result,
    record_audit,
    refusal,
    result_of,
    wrong_status,
)
from holdfast.operations.deduplication_keys import Key, LockedKeys, lock_keys_of_chains
from holdfast.operations.statement import ATOMICALLY, Operation, Statement


def retry_jobs(ids: Sequence[str], orders: Orders) -> Operation[ControlBatch]:
    """Attempts start from zero; steps, the history of attempts and the last error stay."""
    yield ATOMICALLY
    keys = yield from lock_keys_of_chains(ids, patient=orders.is_patient)
    targets = yield from lock_jobs(ids, orders, "blockers")
    lost = yield from _lost_blockers(targets.jobs.values())
    taking: dict[Key, str] = {}
    results = targets.missing | {
        asked: _verdict(asked, job, keys, taking, lost.get(job.id)) for asked, job in targets.jobs.items()
    }
    if refused := refusal("retry", orders, results.values()):
        yield from keys.give_back()
        raise refused
    yield from keys.give_back(keep=taking)
    yield from keys.point(taking)
    retried = {job.id: job for asked, job in targets.jobs.items() if results[asked].is_done}
    if retried:
        yield Statement("retry_jobs", {"jobs": to_json(sorted(retried)).decode()})
    yield from record_audit("retry", orders, list(results.values()))
    woken = {job.queue for job in retried.values() if job.waiting_for == 0}
    return ControlBatch(in_order(ids, results), woken)


def _lost_blockers(jobs: Iterable[LockedJob]) -> Operation[dict[str, list[str]]]:
    """Chains that jobs wait for and that are gone; the others cannot go before these wait again."""
    waiting = sorted({job.id for job in jobs if job.status in ACTS_ON["retry"] and job.waiting_for > 0})
    lost: defaultdict[str, list[str]] = defaultdict(list)
    if waiting:
        rows = yield Statement("guard_blockers", {"jobs": to_json(waiting).decode()})
        for job_id, chain_id in rows:
            lost[job_id].append(chain_id)
    return lost


def _verdict(
    asked: str, job: LockedJob, keys: LockedKeys, taking: dict[Key, str], lost: Sequence[str] | None
) -> ControlResult:
    if job.status not in ACTS_ON["retry"]:
        return wrong_status("retry", asked, job)
    if lost:
        why = f"it waits for chains that have been deleted: {', '.join(lost)}; enqueue a new one"
        return result_of(asked, job, ControlOutcome.BLOCKER_GONE, why)
    claim = keys.claims.get(job.chain_id)
    if claim is not None:
        if claim.key in keys.unlocked:
            return locked_result(asked)
        other = taking.get(claim.key) or keys.holder_but(job.chain_id, claim.key)
        if other is not None and other != job.chain_id:
            why = f"chain {other} holds its key {claim.key.key!r} now"
            return result_of(asked, job, ControlOutcome.KEY_TAKEN, why)
        taking[claim.key] = job.chain_id
    return result_of(asked, job, ControlOutcome.RETRIED)
