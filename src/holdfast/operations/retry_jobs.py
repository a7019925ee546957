"""Let dead letters and cancelled jobs begin anew, if their deduplication keys are free.

Lock order: keys, by type and key; then jobs, by id.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.errors import shown
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
from holdfast.operations.cycles import find_waits, reaches
from holdfast.operations.deduplication_keys import Key, LockedKeys, lock_keys_of_chains
from holdfast.operations.statement import ATOMICALLY, Operation, Statement

#: a cycle of more chains than this is left to the sweep
_WALK = 100_000


def retry_jobs(ids: Sequence[str], orders: Orders) -> Operation[ControlBatch]:
    """Attempts start from zero; steps, the history of attempts and the last error stay."""
    yield ATOMICALLY
    keys = yield from lock_keys_of_chains(ids, patient=orders.is_patient, aliases=orders.aliases)
    targets = yield from lock_jobs(ids, orders, "blockers")
    blockers = yield from _find_blockers(targets.jobs.values())
    taking: dict[Key, str] = {}
    results = dict(targets.missing)
    judged: list[tuple[str, LockedJob]] = []
    open_ = _in_order(ids, targets.jobs)
    while len(open_) != len(judged):
        # Who was cancelled for a chain that this batch sends back as well is judged again, whichever was named first.
        judged, open_ = open_, []
        for asked, job in judged:
            results[asked] = _verdict(asked, job, keys, taking, blockers)
            if results[asked].is_done:
                blockers.add(job)
            elif results[asked].outcome is ControlOutcome.BLOCKER_FAILED:
                open_.append((asked, job))
    if refused := refusal("retry", orders, results.values()):
        yield from keys.give_back()
        raise refused
    yield from keys.give_back(keep=taking)
    yield from keys.point(taking)
    retried = {job.id: job for asked, job in targets.jobs.items() if results[asked].is_done}
    if retried:
        # Before, for whoever waited for these and is sent back with them.
        chains = sorted(job.chain_id for job in retried.values() if job.is_tail)
        yield Statement("reopen_blockers", {"chains": to_json(chains).decode()})
        yield Statement("retry_jobs", {"jobs": to_json(sorted(retried)).decode()})
    yield from record_audit("retry", orders, list(results.values()))
    woken = {job.queue for job in retried.values() if job.waiting_for == 0}
    return ControlBatch(in_order(ids, results), woken, targets.jobs)


@dataclass(slots=True)
class _Blockers:
    """By job, the chains that it would wait for again; those of them that are gone, or for which it would be cancelled.

    By chain, whom it waits for.
    """

    standing: dict[str, list[str]]
    gone: dict[str, list[str]]
    failed: dict[str, list[str]]
    waits: dict[str, set[str]]
    #: chains that this batch sends back
    retried: set[str] = field(default_factory=set)

    def add(self, job: LockedJob) -> None:
        """From now on this one waits too, for those who come after it in the batch."""
        self.retried.add(job.chain_id)
        self.waits.setdefault(job.chain_id, set()).update(self.standing.get(job.id, ()))


def _find_blockers(jobs: Collection[LockedJob]) -> Operation[_Blockers]:
    """The chains that are there cannot go before these wait again."""
    waiting = sorted({job.id for job in jobs if job.status in ACTS_ON["retry"] and job.waiting_for > 0})
    standing: defaultdict[str, list[str]] = defaultdict(list)
    gone: defaultdict[str, list[str]] = defaultdict(list)
    failed: defaultdict[str, list[str]] = defaultdict(list)
    waits: defaultdict[str, set[str]] = defaultdict(set)
    if waiting:
        rows = yield Statement("guard_blockers", {"jobs": to_json(waiting).decode()})
        for job_id, chain_id, is_gone, has_failed in rows:
            (gone if is_gone else standing)[job_id].append(chain_id)
            if has_failed:
                failed[job_id].append(chain_id)
        found = yield from find_waits({each for chains in standing.values() for each in chains}, _WALK)
        for wait in found:
            waits[wait.chain_id].add(wait.blocked_by)
        yield from _add_reopened(
            waits, [job.chain_id for job in jobs if job.id in standing], {each.job_id for each in found}
        )
    return _Blockers(standing, gone, failed, waits)


def _add_reopened(waits: dict[str, set[str]], chain_ids: Sequence[str], blocked: set[str]) -> Operation[None]:
    """Who waits, and was told that these had ended, will wait for them again."""
    if chain_ids and blocked:
        rows = yield Statement("find_dependants", {"chains": to_json(sorted(chain_ids)).decode()})
        for blocked_by, job_id, chain_id, _ in rows:
            if job_id in blocked:
                waits.setdefault(chain_id, set()).add(blocked_by)


def _in_order(ids: Sequence[str], jobs: Mapping[str, LockedJob]) -> list[tuple[str, LockedJob]]:
    return [(asked, jobs[asked]) for asked in dict.fromkeys(ids) if asked in jobs]


def _verdict(
    asked: str, job: LockedJob, keys: LockedKeys, taking: dict[Key, str], blockers: _Blockers
) -> ControlResult:
    if job.status not in ACTS_ON["retry"]:
        return wrong_status("retry", asked, job)
    if (hindered := _hindered(asked, job, blockers)) is not None:
        return hindered
    claim = keys.claims.get(job.chain_id)
    if claim is not None:
        if not keys.unlocked.isdisjoint(claim.keys):
            return locked_result(asked)
        for key in claim.keys:
            other = taking.get(key) or keys.holder_but(job.chain_id, key)
            if other is not None and other != job.chain_id:
                why = f"chain {other} holds its key {shown(key.key)} now"
                return result_of(asked, job, ControlOutcome.KEY_TAKEN, why)
        taking.update(dict.fromkeys(claim.keys, job.chain_id))
    return result_of(asked, job, ControlOutcome.RETRIED)


def _hindered(asked: str, job: LockedJob, blockers: _Blockers) -> ControlResult | None:
    """Where it must not wait again for what it waited for."""
    if lost := blockers.gone.get(job.id):
        why = f"it waits for chains that have been deleted: {', '.join(lost)}; enqueue a new one"
        return result_of(asked, job, ControlOutcome.BLOCKER_GONE, why)
    for chain_id in blockers.standing.get(job.id, ()):
        if reaches([chain_id], job.chain_id, blockers.waits):
            why = f"it waits for chain {chain_id}, which waits for this one now; complete that one first, or cancel it"
            return result_of(asked, job, ControlOutcome.BLOCKER_CYCLE, why)
    if failed := [each for each in blockers.failed.get(job.id, ()) if each not in blockers.retried]:
        why = f"it is cancelled when a chain that it waits for fails, as {', '.join(failed)} did; retry that one first"
        return result_of(asked, job, ControlOutcome.BLOCKER_FAILED, why)
    return None
