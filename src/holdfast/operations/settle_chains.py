"""Tell those who wait for chains that these have ended."""

from __future__ import annotations

from collections.abc import Collection

from holdfast.model.payload import to_json
from holdfast.operations.lease import Settlement
from holdfast.operations.statement import Operation, Statement

_TRIES = 3


def settle_chains(chain_ids: Collection[str], *, patient: bool = True) -> Operation[set[str]]:
    """In the transaction that ended them; returns the queues that got work."""
    if not chain_ids:
        return set()
    rows = yield Statement("settle_chains", {"chains": to_json(sorted(chain_ids)).decode(), "patient": patient})
    return {queue for _, queue in rows if queue is not None}


def settle_stragglers(settlement: Settlement) -> Operation[None]:
    """What a batch of endings could not settle, tried again without waiting; what is left then, the sweep finds."""
    for _ in range(_TRIES):
        if not settlement.unsettled:
            return
        parameters = {"chains": to_json(sorted(settlement.unsettled)).decode(), "patient": False}
        rows = yield Statement("settle_chains", parameters)
        settlement.unsettled = {chain_id for chain_id, _ in rows if chain_id is not None}
        settlement.woken.update(queue for _, queue in rows if queue is not None)
