"""Take a deduplication key from whoever holds it."""

from __future__ import annotations

from holdfast.errors import ChainNeeded, shown
from holdfast.model.control import ControlOutcome, ControlResult
from holdfast.model.status import Status
from holdfast.operations.control import ControlBatch, Orders, record_audit, refuse_if_strict
from holdfast.operations.deduplication_keys import Key, judge_keys, keys_of, lock_keys, return_keys
from holdfast.operations.delete_chains import LockedChains, delete_locked, find_dependants, lock_chains
from holdfast.operations.statement import ATOMICALLY, Operation, Statement

_WAITING = (Status.PENDING, Status.BLOCKED)


def remove_job(key: Key, orders: Orders) -> Operation[ControlBatch]:
    """Delete the holder if it has not begun; one that has goes on without the key, and is not tried again.

    Lock order: the key, then jobs by id.
    """
    yield ATOMICALLY
    woken: set[str] = set()
    keys = keys_of(key, orders.aliases)
    yield from lock_keys(keys, patient=True)
    found = yield from judge_keys(keys)
    holder = min((each for each in found.values() if each.is_holding), default=None)
    if holder is None:
        why = f"nobody holds the key {shown(key.key)}"
        result = ControlResult(id=key.key, outcome=ControlOutcome.NOT_FOUND, why=why)
        refuse_if_strict("remove", orders, [result])
    else:
        locked = yield from lock_chains([holder.chain_id], patient=True)
        result = yield from _decide(holder.chain_id, locked)
        refuse_if_strict("remove", orders, [result])
        if result.is_done:
            yield from return_keys(keys, holder.chain_id)
        if result.outcome is ControlOutcome.REMOVED:
            woken = yield from delete_locked(locked, [holder.chain_id])
        elif result.outcome is ControlOutcome.KEY_GIVEN_UP:
            yield from _go_on_without(holder.chain_id, locked)
    yield from record_audit("remove", orders, [result], {"type_name": key.type_name, "key": key.key})
    return ControlBatch([result], woken)


def _decide(chain_id: str, locked: LockedChains) -> Operation[ControlResult]:
    if chain_id not in locked.members:
        # A key taken for ever outlives its chain.
        return ControlResult(id=chain_id, outcome=ControlOutcome.KEY_GIVEN_UP, chain_id=chain_id)
    tail = locked.tail(chain_id)
    if tail.chain_index > 0 or tail.status not in _WAITING:
        return ControlResult(id=chain_id, outcome=ControlOutcome.KEY_GIVEN_UP, chain_id=chain_id, job_id=tail.id)
    dependants = yield from find_dependants([chain_id])
    waiting = sorted(job.id for job in dependants.get(chain_id, ()) if job.is_unfinished and job.chain_id != chain_id)
    return ControlResult(
        id=chain_id,
        outcome=ControlOutcome.NEEDED if waiting else ControlOutcome.REMOVED,
        chain_id=chain_id,
        job_id=tail.id,
        why=ChainNeeded.sentence(chain_id, waiting) if waiting else None,
    )


def _go_on_without(chain_id: str, locked: LockedChains) -> Operation[None]:
    if chain_id not in locked.members:
        return
    tail = locked.tail(chain_id)
    # A running attempt is the last one; of a chain that waits for its next step, the next one is.
    attempts = {Status.RUNNING: tail.attempt, Status.PENDING: tail.attempt + 1, Status.BLOCKED: tail.attempt + 1}
    yield Statement("give_up_key", {"chain": chain_id, "job": tail.id, "max_attempts": attempts.get(tail.status)})
