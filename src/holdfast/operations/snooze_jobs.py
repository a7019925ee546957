"""Put running jobs off."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.operations.lease import Settlement, document
from holdfast.operations.settle_chains import settle_stragglers
from holdfast.operations.statement import Operation, Statement


class Postponement(msgspec.Struct, frozen=True):
    """A job that its holder wants to have again later: after `delay_ms`, or at `until`."""

    id: str
    lease_generation: int
    delay_ms: int | None = None
    until: str | None = None


def snooze_jobs(jobs: Sequence[Postponement]) -> Operation[Settlement]:
    """Fenced; attempt refunded, place given up."""
    rows = yield Statement("snooze_jobs", {"jobs": document(jobs)})
    settlement = Settlement.of(rows)
    yield from settle_stragglers(settlement)
    return settlement
