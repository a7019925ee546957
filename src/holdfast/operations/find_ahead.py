"""Which job of its partition key a job waits for."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.model.status import Status
from holdfast.operations.statement import Operation, Statement


class Ahead(NamedTuple):
    """A job that is in the way of another."""

    id: str
    status: Status


def find_ahead(job_id: str) -> Operation[Ahead | None]:
    rows = yield Statement("find_ahead", {"id": job_id})
    return Ahead(rows[0][0], Status(rows[0][1])) if rows else None
