"""Finish jobs."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.operations.lease import Settlement, document
from holdfast.operations.settle_chains import settle_stragglers
from holdfast.operations.statement import Operation, Statement


class Completion(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A finished job.

    `output` is JSON text inside the JSON document, so that scalars stay JSON in both databases; without `duration_ms`
    the time since the claim is taken, which includes waiting in the worker's buffer.
    """

    id: str
    lease_generation: int
    output: str | None = None
    duration_ms: int | None = None
    #: its run, among those completed with it, and its place there: none is completed before those in front of it
    line: int | None = None
    place: int | None = None


def complete_jobs(worker_id: str | None, jobs: Sequence[Completion]) -> Operation[Settlement]:
    """Fenced; completing again under the same generation is a success."""
    rows = yield Statement("complete_jobs", {"worker": worker_id, "jobs": document(jobs)})
    settlement = Settlement.of(rows)
    yield from settle_stragglers(settlement)
    return settlement
