"""Give claimed jobs back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from holdfast.model.payload import to_json
from holdfast.operations.lease import Lease, Settlement, document
from holdfast.operations.settle_chains import settle_stragglers
from holdfast.operations.statement import Operation, Statement


class Release(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A job that its holder gives back; one whose handler was called no longer expires."""

    id: str
    lease_generation: int
    is_started: bool = False


def release_jobs(jobs: Sequence[Lease] | Sequence[Release]) -> Operation[Settlement]:
    """Untouched: attempt refunded, place kept."""
    rows = yield Statement("release_jobs", {"jobs": document(jobs)})
    settlement = Settlement.of(rows)
    yield from settle_stragglers(settlement)
    return settlement


class Orphans(NamedTuple):
    """The jobs that were given back, the queues that have work again, and which jobs were cancelled instead."""

    jobs: list[str]
    woken: set[str]
    cancelled: set[str]


def release_orphans(worker_id: str, known: Iterable[str], *, started: bool = True) -> Operation[Orphans]:
    """Give back what the database says this worker holds and the worker does not know of.

    `started`: perhaps they were, so that they no longer expire.
    """
    rows = yield Statement(
        "release_orphans", {"worker": worker_id, "known": to_json(list(known)).decode(), "started": started}
    )
    settlement = Settlement.of(rows)
    yield from settle_stragglers(settlement)
    jobs = [job_id for job_id, outcome in rows if outcome in ("pending", "cancelled")]
    return Orphans(jobs, settlement.woken, settlement.cancelled)
