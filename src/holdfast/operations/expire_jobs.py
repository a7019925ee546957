"""Cancel what nobody started in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from holdfast.model.job import JobError
from holdfast.operations.lease import Settlement
from holdfast.operations.settle_chains import settle_stragglers
from holdfast.operations.statement import Operation, Statement


class Expired(NamedTuple):
    """A job that nobody started in time."""

    id: str
    chain_id: str
    type_name: str
    queue: str
    tenant: str | None
    lease_generation: int
    error: JobError


@dataclass(frozen=True, slots=True)
class Expiry:
    """How many jobs one round cancelled, the queues that got work by it, and the jobs."""

    expired: int
    woken: set[str]
    jobs: Sequence[Expired] = field(default=(), compare=False)


def expire_jobs(limit: int = 500) -> Operation[Expiry]:
    """One batch; those who wait for its chains are told."""
    rows = yield Statement("expire_jobs", {}, literals={"limit": limit})
    settlement = Settlement.of([(subject, outcome) for subject, outcome, *_ in rows])
    yield from settle_stragglers(settlement)
    expired = [
        Expired(job_id, chain, type_name, queue, tenant, generation, msgspec.json.decode(error, type=JobError))
        for job_id, outcome, chain, type_name, queue, tenant, generation, error in rows
        if outcome == "expired"
    ]
    return Expiry(len(expired), settlement.woken, expired)
