"""End attempts that failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from holdfast.model.job import JobError
from holdfast.operations.lease import Settlement, document
from holdfast.operations.settle_chains import settle_stragglers
from holdfast.operations.statement import Operation, Statement


class Failure(msgspec.Struct, frozen=True):
    """A failed attempt; `is_final` makes a dead letter whatever attempts are left, `max_attempts` is the type's."""

    id: str
    lease_generation: int
    error: JobError
    delay_ms: int
    is_final: bool
    max_attempts: int
    duration_ms: int | None = None


@dataclass(slots=True)
class FailSettlement(Settlement):
    """Also names the jobs that became dead letters."""

    dead: set[str] = field(default_factory=set)


def fail_jobs(worker_id: str, jobs: Sequence[Failure]) -> Operation[FailSettlement]:
    """Fenced; each job is tried again later or becomes a dead letter."""
    rows = yield Statement("fail_jobs", {"worker": worker_id, "jobs": document(jobs)})
    settlement = FailSettlement.of(rows)
    settlement.dead = {job_id for job_id, outcome in rows if outcome == "dead_letter"}
    yield from settle_stragglers(settlement)
    return settlement
