"""Who works on this database."""

from __future__ import annotations

import msgspec

from holdfast.model.operating import WorkerRecord
from holdfast.operations.statement import Operation, Statement

_worker = msgspec.json.Decoder(WorkerRecord)


def list_workers() -> Operation[list[WorkerRecord]]:
    """Every registered worker, the longest-serving first."""
    rows = yield Statement("list_workers")
    return [_worker.decode(row[0]) for row in rows]
