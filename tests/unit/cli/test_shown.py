"""How jobs are called in a table."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from holdfast import Job, Status
from holdfast.cli.shown import shown_age, shown_status

_NOW = datetime(2026, 5, 1, tzinfo=UTC)


def _job(status: Status, *, held: bool = False, attempt: int = 0, ready_at: datetime = _NOW) -> Job:
    return Job(
        id="x", seq=1, type_name="t", queue="q", priority=0, chain_id="x", chain_type_name="t", chain_index=0, input={},
        status=status, held=held, attempt=attempt, crash_count=0, created_at=_NOW, scheduled_at=_NOW, ready_at=ready_at,
        lease_generation=0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("job", "shown"),
    [
        (_job(Status.PENDING), "pending"),
        (_job(Status.PENDING, ready_at=_NOW + timedelta(seconds=1)), "scheduled"),
        (_job(Status.PENDING, attempt=1, ready_at=_NOW + timedelta(seconds=1)), "retrying"),
        (_job(Status.PENDING, held=True), "held"),
        (_job(Status.RUNNING, attempt=2), "running"),
        (_job(Status.DEAD_LETTER, attempt=5), "dead_letter"),
    ],
)
def test_shown_status(job: Job, shown: str) -> None:
    """A pending job says why it waits; all others are called by their status."""
    assert shown_status(job, _NOW) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-3, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (7199, "119m"), (7200, "2h"), (172_800, "2d")],
)
def test_shown_age(seconds: int, shown: str) -> None:
    """One number and one unit, and never below zero."""
    assert shown_age(timedelta(seconds=seconds)) == shown
