"""Finish jobs by the next job of their chains."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.model.call import JobDocument
from holdfast.operations.blockers import add_blockers, hold_blockers
from holdfast.operations.lease import Settlement, document
from holdfast.operations.settle_chains import settle_chains, settle_stragglers
from holdfast.operations.statement import ATOMICALLY, Operation, Statement


class Continuation(msgspec.Struct, frozen=True, omit_defaults=True):
    """A finished job whose chain goes on with `next`."""

    id: str
    lease_generation: int
    next: JobDocument
    duration_ms: int | None = None
    #: where it is not the job's own id
    chain_id: str | None = None


def continue_jobs(worker_id: str | None, jobs: Sequence[Continuation]) -> Operation[Settlement]:
    """Fenced; continuing again under the same generation is a success.

    Of a chain that somebody has asked to cancel, the next job is written as cancelled.
    """
    guarded = [job.next for job in jobs if job.next.is_guarded]
    if not guarded:
        return (yield from _continue(worker_id, jobs))
    yield ATOMICALLY
    blocking = yield from hold_blockers(guarded, waiting={job.next.id: job.chain_id or job.id for job in jobs})
    settlement = yield from _continue(worker_id, jobs)
    refused = settlement.lost | settlement.locked
    written = [job.next for job in jobs if job.id not in refused and job.next.is_guarded]
    yield from add_blockers(written, blocking)
    settlement.woken |= yield from settle_chains(blocking.failed, ended_here=False)
    return settlement


def _continue(worker_id: str | None, jobs: Sequence[Continuation]) -> Operation[Settlement]:
    rows = yield Statement("continue_jobs", {"worker": worker_id, "jobs": document(jobs)})
    settlement = Settlement.of(rows)
    yield from settle_stragglers(settlement)
    return settlement
