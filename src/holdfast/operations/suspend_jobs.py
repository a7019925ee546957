"""Let running jobs wait without a slot: for a time, for a signal, or for their children."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

import msgspec

from holdfast.model.payload import to_json
from holdfast.operations.lease import Settlement, document
from holdfast.operations.settle_chains import settle_stragglers
from holdfast.operations.statement import ATOMICALLY, Operation, Statement

WaitKind = Literal["sleep", "signal", "children"]


class Suspension(msgspec.Struct, frozen=True, omit_defaults=True):
    """A job that goes on later, where its steps say.

    - `name`: of the step that waits; children have none.
    - `signal`: the name of what it waits for.
    - `delay_ms`, `until`: when the wait is over in any case, unless an earlier attempt has decided that.
    """

    id: str
    lease_generation: int
    kind: WaitKind
    name: str | None = None
    signal: str | None = None
    delay_ms: int | None = None
    until: str | None = None


def suspend_jobs(jobs: Sequence[Suspension]) -> Operation[Settlement]:
    """Fenced; attempt refunded."""
    listening = [job.id for job in jobs if job.kind == "signal"]
    if listening:
        yield ATOMICALLY
    rows = yield Statement("suspend_jobs", {"jobs": document(jobs)})
    settlement = Settlement.of(rows)
    if listening:
        # With a snapshot of its own: what was sent before these rows were locked is committed, and is seen.
        settlement.woken |= yield from wake_signalled(listening)
    yield from settle_stragglers(settlement)
    return settlement


def wake_signalled(job_ids: Collection[str]) -> Operation[set[str]]:
    """Those of these locked jobs whose signal has come may go on; returns their queues."""
    rows = yield Statement("wake_signalled", {"jobs": to_json(sorted(job_ids)).decode()})
    return {queue for (queue,) in rows}
