"""End attempts that failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import msgspec

from holdfast.model.job import JobError
from holdfast.operations.lease import Settlement, document
from holdfast.operations.settle_chains import settle_stragglers
from holdfast.operations.statement import Operation, Rows, Statement


class Failure(msgspec.Struct, frozen=True):
    """A failed attempt.

    `is_final` makes a dead letter whatever attempts are left, `is_cancelled` a cancelled job; `max_attempts` is the
    type's; `retry_at` is the time of the next attempt, instead of `delay_ms` from now.
    """

    id: str
    lease_generation: int
    error: JobError
    delay_ms: int
    is_final: bool
    max_attempts: int
    duration_ms: int | None = None
    retry_at: str | None = None
    is_cancelled: bool = False


@dataclass(slots=True)
class FailSettlement(Settlement):
    """Also names the jobs that became dead letters, and of the lost those that are completed."""

    dead: set[str] = field(default_factory=set)
    completed: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, rows: Rows) -> Self:
        settlement = super(FailSettlement, cls).of(rows)
        sets = {
            "dead_letter": settlement.dead,
            "completed": settlement.completed,
        }
        for job_id, outcome in rows:
            if outcome in sets:
                sets[outcome].add(job_id)
        settlement.lost |= settlement.completed
        return settlement


def fail_jobs(worker_id: str, jobs: Sequence[Failure]) -> Operation[FailSettlement]:
    """Fenced; each job is tried again later or becomes a dead letter."""
    rows = yield Statement("fail_jobs", {"worker": worker_id, "jobs": document(jobs)})
    settlement = FailSettlement.of(rows)
    yield from settle_stragglers(settlement)
    return settlement
