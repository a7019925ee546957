"""The states of a job and every transition between them: one table, from which all else is derived."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Status(StrEnum):
    """Where a job stands."""

    BLOCKED = "blocked"
    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    DEAD_LETTER = "dead_letter"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        return self in TERMINAL

    @property
    def is_claimable(self) -> bool:
        return Status.RUNNING in TRANSITIONS[self]


#: status -> status it may move to -> what does so
TRANSITIONS: Final[dict[Status, dict[Status, str]]] = {
    Status.BLOCKED: {
        Status.PENDING: "its blockers allow it",
        Status.CANCELLED: "cancel, or a blocker failed",
        Status.COMPLETED: "completed from outside",
        Status.DEAD_LETTER: "part of a cycle",
    },
    Status.PENDING: {
        Status.RUNNING: "claim",
        Status.CANCELLED: "cancel, or expired",
        Status.COMPLETED: "completed from outside",
        Status.DEAD_LETTER: "no worker knows its type or accepts its input",
    },
    Status.RUNNING: {
        Status.COMPLETED: "complete",
        Status.PENDING: "fail with attempts left, snooze, release, sleep, reap",
        Status.BLOCKED: "durable wait",
        Status.CANCELLED: "cancel",
        Status.DEAD_LETTER: "fail or crash for the last time",
    },
    Status.COMPLETED: {},
    Status.DEAD_LETTER: {Status.PENDING: "retry", Status.BLOCKED: "retry"},
    Status.CANCELLED: {Status.PENDING: "retry", Status.BLOCKED: "retry"},
}

TERMINAL: Final = frozenset({Status.COMPLETED, Status.DEAD_LETTER, Status.CANCELLED})


def may_move(before: Status, after: Status) -> bool:
    """Whether the table allows the step."""
    return after in TRANSITIONS[before]
