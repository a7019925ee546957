"""Who leads: one worker per database, for a term that it has to renew.

The lease is a row, so it works through any pooler, and the database's clock decides when it has run out.
"""

from __future__ import annotations

from datetime import timedelta

from holdfast.model.clock import milliseconds
from holdfast.operations.statement import Operation, Statement


def acquire_leadership(worker_id: str, lease: timedelta) -> Operation[int | None]:
    """The new term; None if somebody leads."""
    rows = yield Statement("acquire_leadership", {"worker": worker_id, "lease_ms": milliseconds(lease)})
    return rows[0][0] if rows else None


def renew_leadership(worker_id: str, term: int, lease: timedelta) -> Operation[bool]:
    """Whether the term goes on; once it is over, it stays so."""
    rows = yield Statement("renew_leadership", {"worker": worker_id, "term": term, "lease_ms": milliseconds(lease)})
    return bool(rows)


def resign_leadership(worker_id: str, term: int | None) -> Operation[bool]:
    """Whether the worker led; `term` is None if it does not know."""
    rows = yield Statement("resign_leadership", {"worker": worker_id, "term": term})
    return bool(rows)
