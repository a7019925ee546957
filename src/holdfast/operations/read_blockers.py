"""What a job waited for."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.model.job import JobError
from holdfast.model.status import Status
from holdfast.operations.statement import Operation, Statement


class Blocker(msgspec.Struct, frozen=True, kw_only=True):
    """A chain that had to finish before the job could run: how it ended, and with what.

    `status` is None if the chain has been deleted since.
    """

    chain_id: str
    status: Status | None = None
    output: Any = None
    error: JobError | None = None


_blocker = msgspec.json.Decoder(Blocker)


def read_blockers(job_id: str) -> Operation[list[Blocker]]:
    """In the order in which they were given."""
    rows = yield Statement("read_blockers", {"id": job_id})
    return [_blocker.decode(row[0]) for row in rows]
