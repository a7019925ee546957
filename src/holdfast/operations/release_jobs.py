"""Give claimed jobs back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.model.payload import to_json
from holdfast.operations.lease import Lease, Settlement, document
from holdfast.operations.settle_chains import settle_stragglers
from holdfast.operations.statement import Operation, Statement


def release_jobs(leases: Sequence[Lease]) -> Operation[Settlement]:
    """Untouched: attempt refunded, place kept."""
    rows = yield Statement("release_jobs", {"jobs": document(leases)})
    settlement = Settlement.of(rows)
    yield from settle_stragglers(settlement)
    return settlement


def release_orphans(worker_id: str, known: Iterable[str]) -> Operation[list[str]]:
    """Give back what the database says this worker holds and the worker does not know of."""
    rows = yield Statement("release_orphans", {"worker": worker_id, "known": to_json(list(known)).decode()})
    yield from settle_stragglers(Settlement.of(rows))
    return [job_id for job_id, outcome in rows if outcome in ("pending", "cancelled")]
