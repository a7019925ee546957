"""What people's verbs (cancel, retry, reschedule, remove, delete) say about each job they were asked about."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from holdfast.model.status import Status


class ControlOutcome(StrEnum):
    """What was done to a job, or why nothing was."""

    CANCELLED = "cancelled"
    REQUESTED = "requested"
    RETRIED = "retried"
    RESCHEDULED = "rescheduled"
    REMOVED = "removed"
    KEY_GIVEN_UP = "key_given_up"
    DELETED = "deleted"
    NOT_FOUND = "not_found"
    WRONG_STATUS = "wrong_status"
    KEY_TAKEN = "key_taken"
    BLOCKER_GONE = "blocker_gone"
    BLOCKER_CYCLE = "blocker_cycle"
    BLOCKER_FAILED = "blocker_failed"
    NEEDED = "needed"
    LOCKED = "locked"

    @property
    def is_done(self) -> bool:
        return self not in REFUSALS


REFUSALS: Final = frozenset(
    {
        ControlOutcome.NOT_FOUND,
        ControlOutcome.WRONG_STATUS,
        ControlOutcome.KEY_TAKEN,
        ControlOutcome.BLOCKER_GONE,
        ControlOutcome.BLOCKER_CYCLE,
        ControlOutcome.BLOCKER_FAILED,
        ControlOutcome.NEEDED,
        ControlOutcome.LOCKED,
    }
)

#: verb -> states of jobs on which it does something
ACTS_ON: Final[dict[str, frozenset[Status]]] = {
    "cancel": frozenset({Status.BLOCKED, Status.PENDING, Status.RUNNING}),
    "retry": frozenset({Status.DEAD_LETTER, Status.CANCELLED}),
    "reschedule": frozenset({Status.BLOCKED, Status.PENDING}),
}


class ControlResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a verb did for one id.

    - `id`: as it was asked for; of `remove`, the holder's chain, or the key where nobody holds it.
    - `outcome`, and for refusals `why` in a sentence.
    - `chain_id`, `job_id`: what it was done to; None if there is no such job. `job_id` is None where the verb is about
      whole chains.
    """

    id: str
    outcome: ControlOutcome
    chain_id: str | None = None
    job_id: str | None = None
    why: str | None = None

    @property
    def is_done(self) -> bool:
        """Whether something was done."""
        return self.outcome.is_done


class Progress(NamedTuple):
    """How far a verb on a filter has come: jobs looked at, and the share of the way."""

    done: int
    share: float
