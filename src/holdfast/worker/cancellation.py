"""Why a handler should stop."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Cancellation(StrEnum):
    """Why a handler should stop."""

    LEASE_LOST = "lease_lost"
    CANCELLED = "cancelled"
    COMPLETED_ELSEWHERE = "completed_elsewhere"
    DELETED = "deleted"
    STOPPING = "stopping"
    TIMEOUT = "timeout"

    @property
    def is_loss(self) -> bool:
        """Whether the job is not this attempt's any more; a request to cancel leaves it so."""
        return self in LOSSES


#: nothing that the handler still does will count
LOSSES: Final = frozenset({Cancellation.LEASE_LOST, Cancellation.COMPLETED_ELSEWHERE, Cancellation.DELETED})
