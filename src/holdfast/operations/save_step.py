"""Saved parts of a job: done once, skipped on the next attempt."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from holdfast.operations.fence import admitted
from holdfast.operations.lease import Lease
from holdfast.operations.statement import Operation, Statement


class SavedStep(msgspec.Struct, frozen=True):
    """A step with its result, still JSON, and the generation that saved it.

    - `kind`: None for what a handler calls a step; else "sleep", "signal" or "child".
    - `ends_at`: of a wait, when it is over in any case; `is_open`: what it waits for has not come, or it is a sleep.
    - `signal`: the name of the signal that it waits for.
    """

    name: str
    lease_generation: int
    saved_at: datetime
    result: msgspec.Raw = msgspec.Raw(b"null")
    kind: str | None = None
    signal: str | None = None
    ends_at: datetime | None = None
    is_open: bool = False

    def record(self) -> StepRecord:
        """With the result decoded, for whoever does not know its type."""
        result = msgspec.json.decode(self.result)
        return StepRecord(self.name, self.lease_generation, self.saved_at, result, self.kind, self.ends_at)


class StepRecord(NamedTuple):
    """A saved step as a reader sees it.

    - `kind`: "sleep", "signal" or "child"; None for one that has called a function.
    - `ends_at`: of a wait that is over in any case, when.
    """

    name: str
    lease_generation: int
    saved_at: datetime
    result: Any
    kind: str | None = None
    ends_at: datetime | None = None


_step = msgspec.json.Decoder(SavedStep)


def save_step(lease: Lease, name: str, result: str) -> Operation[bool]:
    """Fenced; False if somebody has the job locked just now. Saving again keeps the first result."""
    rows = yield Statement(
        "save_step",
        {"id": lease.id, "lease_generation": lease.lease_generation, "name": name, "result": result},
    )
    return admitted(lease, rows[0][0])


def list_steps(job_id: str) -> Operation[list[SavedStep]]:
    """In the order in which they were saved."""
    rows = yield Statement("list_steps", {"id": job_id})
    return [_step.decode(row[0]) for row in rows]
