"""Cancel what nobody started in time."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.operations.lease import Settlement
from holdfast.operations.settle_chains import settle_stragglers
from holdfast.operations.statement import Operation, Statement


class Expiry(NamedTuple):
    """How many jobs one round cancelled, and the queues that got work by it."""

    expired: int
    woken: set[str]


def expire_jobs(limit: int = 500) -> Operation[Expiry]:
    """One batch; those who wait for its chains are told."""
    rows = yield Statement("expire_jobs", {}, literals={"limit": limit})
    settlement = Settlement.of(rows)
    yield from settle_stragglers(settlement)
    return Expiry(sum(outcome == "expired" for _, outcome in rows), settlement.woken)
