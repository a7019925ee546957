"""Jobs of types that a worker does not know: when they come back to it, and what is said of them.

Perhaps a million of them, because producers were deployed before workers.  They must not crowd out the jobs that the
worker knows, each time that they are due again, nor fill the log.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Final

from holdfast.operations.claim_jobs import ClaimedJob

_log = logging.getLogger("holdfast.worker")

#: of one type no more than so many a second come back to a worker, as long as that does not keep them away too long
_BACK_PER_SECOND: Final = 1_000
_COMPLAIN_SECONDS: Final = 60.0
#: names that are remembered; whoever makes up more is served worse
_MOST_NAMES: Final = 1_000


@dataclass(slots=True)
class _Type:
    """When the next one has its turn to come back; how many were met since somebody was told, and when that was."""

    next_turn: float
    unsaid: int = 0
    said_at: float = -_COMPLAIN_SECONDS


class Strangers:
    """By type, for one worker."""

    def __init__(self) -> None:
        self._types: dict[str, _Type] = {}

    def meet(self, job: ClaimedJob) -> int:
        """In how many milliseconds the job should be back at the earliest."""
        now = time.monotonic()
        if len(self._types) > _MOST_NAMES:
            self._types.clear()
        known = self._types.setdefault(job.type_name, _Type(now))
        known.next_turn = max(known.next_turn, now) + 1 / _BACK_PER_SECOND
        known.unsaid += 1
        if now - known.said_at >= _COMPLAIN_SECONDS:
            self._complain(job, known.unsaid)
            known.said_at, known.unsaid = now, 0
        return int((known.next_turn - now) * 1000)

    @staticmethod
    def _complain(job: ClaimedJob, count: int) -> None:
        which = f"job {job.id}" if count == 1 else f"{count:,} times in the last while, job {job.id} the last of them"
        _log.warning("type %r is unknown here: put back for a worker that knows it, %s", job.type_name, which)
