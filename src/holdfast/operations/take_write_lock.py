"""Be the one who writes."""

from __future__ import annotations

from holdfast.operations.statement import Operation, Statement


def take_write_lock() -> Operation[None]:
    """On SQLite, before the first read of a transaction that is going to write."""
    yield Statement("take_write_lock")
