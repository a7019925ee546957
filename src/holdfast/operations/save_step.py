"""Saved parts of a job: done once, skipped on the next attempt."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from holdfast.operations.fence import admitted
from holdfast.operations.lease import Lease
from holdfast.operations.statement import Operation, Statement


class SavedStep(msgspec.Struct, frozen=True):
    """A step with its result, still JSON, and the generation that saved it."""

    name: str
    lease_generation: int
    saved_at: datetime
    result: msgspec.Raw = msgspec.Raw(b"null")

    def record(self) -> StepRecord:
        """With the result decoded, for whoever does not know its type."""
        return StepRecord(self.name, self.lease_generation, self.saved_at, msgspec.json.decode(self.result))


class StepRecord(NamedTuple):
    """A saved step as a reader sees it."""

    name: str
    lease_generation: int
    saved_at: datetime
    result: Any


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
