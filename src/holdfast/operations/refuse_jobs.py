"""Put back what this worker cannot run: its code may be older or newer than the job's."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import msgspec

from holdfast.model.clock import milliseconds
from holdfast.model.job import JobError
from holdfast.operations.fail_jobs import FailSettlement
from holdfast.operations.lease import document
from holdfast.operations.settle_chains import settle_stragglers
from holdfast.operations.statement import Operation, Statement

#: a deploy is over by then; what nobody can run still is a dead letter
PATIENCE = timedelta(hours=1)


class Refusal(msgspec.Struct, frozen=True):
    """A job of an unknown type, or whose input the type does not accept; back in `delay_ms` at the earliest."""

    id: str
    lease_generation: int
    error: JobError
    delay_ms: int = 0


def refuse_jobs(jobs: Sequence[Refusal], patience: timedelta = PATIENCE) -> Operation[FailSettlement]:
    """Fenced; attempt refunded, for a growing time, and a dead letter `patience` after the first refusal."""
    rows = yield Statement("refuse_jobs", {"jobs": document(jobs), "patience_ms": milliseconds(patience)})
    settlement = FailSettlement.of(rows)
    yield from settle_stragglers(settlement)
    return settlement
