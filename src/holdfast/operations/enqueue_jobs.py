"""Create jobs, in the transaction of whoever runs this."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.model.call import JobDocument
from holdfast.model.status import Status
from holdfast.operations.statement import Operation, Statement


class ExistingJob(msgspec.Struct, frozen=True):
    """A job whose id was there before; `status` is unknown if a concurrent transaction is just creating it."""

    id: str
    status: Status | None = None


_existing = msgspec.json.Decoder(list[ExistingJob])


def enqueue_jobs(jobs: Sequence[JobDocument], channel: str | None) -> Operation[list[ExistingJob]]:
    """Insert `jobs` in order; returns those that existed already. With a channel, hints go out with the commit."""
    rows = yield Statement("enqueue_jobs", {"jobs": msgspec.json.encode(jobs).decode(), "channel": channel})
    return _existing.decode(rows[0][0])
