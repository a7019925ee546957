"""What handlers write down, and what is read of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from holdfast.operations.statement import Operation, Statement


class LogLine(msgspec.Struct, frozen=True):
    """A line on its way; `age_ms` is how long ago it was written, by the writer's clock."""

    job_id: str
    lease_generation: int
    level: str
    message: str
    fields: msgspec.Raw | None = None
    age_ms: int = 0


class LogRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A line that a handler wrote with `ctx.log`."""

    level: str
    message: str
    fields: dict[str, Any] | None = None
    logged_at: datetime
    lease_generation: int


_record = msgspec.json.Decoder(LogRecord)


def write_logs(lines: Sequence[LogLine]) -> Operation[None]:
    """In order; those of somebody whose job is another's by now are dropped."""
    yield Statement("write_logs", {"lines": msgspec.json.encode(lines).decode()})


def list_logs(job_id: str) -> Operation[list[LogRecord]]:
    """Oldest first."""
    rows = yield Statement("list_logs", {"id": job_id})
    return [_record.decode(row[0]) for row in rows]
