"""The table of states."""

from __future__ import annotations

import pytest

from holdfast.model.status import TERMINAL, TRANSITIONS, Status, may_move


def test_every_state_is_in_the_table() -> None:
    """No state is forgotten, and none leads to itself."""
    assert set(TRANSITIONS) == set(Status)
    assert all(before not in moves for before, moves in TRANSITIONS.items())


def test_terminal_states_are_left_by_retry_only() -> None:
    """Completed is final; dead letters and cancelled jobs come back when a person says so."""
    assert {Status.COMPLETED, Status.DEAD_LETTER, Status.CANCELLED} == TERMINAL
    assert TRANSITIONS[Status.COMPLETED] == {}
    for status in TERMINAL - {Status.COMPLETED}:
        assert set(TRANSITIONS[status].values()) == {"retry"}
        assert set(TRANSITIONS[status]) == {Status.PENDING, Status.BLOCKED}


def test_only_pending_is_claimable() -> None:
    """The way to running leads through pending alone."""
    assert [status for status in Status if status.is_claimable] == [Status.PENDING]


@pytest.mark.parametrize(
    ("before", "after", "allowed"),
    [
        ("pending", "running", True),
        ("blocked", "pending", True),
        ("blocked", "running", False),
        ("running", "pending", True),
        ("running", "blocked", True),
        ("running", "completed", True),
        ("running", "dead_letter", True),
        ("pending", "completed", True),
        ("completed", "pending", False),
        ("dead_letter", "running", False),
        ("cancelled", "completed", False),
        ("cancelled", "pending", True),
    ],
)
def test_moves(before: str, after: str, *, allowed: bool) -> None:
    """The steps of DESIGN.md, section 2."""
    assert may_move(Status(before), Status(after)) is allowed


def test_everything_unfinished_can_finish() -> None:
    """From every state that is not terminal a terminal one can be reached directly."""
    for status in set(Status) - TERMINAL:
        assert TERMINAL & set(TRANSITIONS[status])
