"""Tell those who wait for chains that these have ended."""

from __future__ import annotations

from collections.abc import Collection

from holdfast.model.payload import to_json
from holdfast.operations.lease import Settlement
from holdfast.operations.statement import Operation, Statement


def settle_chains(chain_ids: Collection[str], *, patient: bool = True, ended_here: bool = True) -> Operation[set[str]]:
    """In the transaction that ended them, or wrote who is to be told of it; returns the queues that got work."""
    if not chain_ids:
        return set()
    rows = yield _settle(chain_ids, patient=patient, ended_here=ended_here)
    return {queue for _, queue in rows if queue is not None}


def settle_stragglers(settlement: Settlement) -> Operation[None]:
    """What a batch of endings could not settle, tried again without waiting; what is left then, a sweep finds."""
    if not settlement.unsettled:
        return
    rows = yield _settle(settlement.unsettled, patient=False, ended_here=True)
    settlement.unsettled = {chain_id for chain_id, _ in rows if chain_id is not None}
    settlement.woken.update(queue for _, queue in rows if queue is not None)


def _settle(chain_ids: Collection[str], *, patient: bool, ended_here: bool) -> Statement:
    chains = to_json(sorted(chain_ids)).decode()
    return Statement("settle_chains", {"chains": chains, "patient": patient, "ended_here": ended_here})
