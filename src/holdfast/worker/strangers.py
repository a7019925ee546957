"""Jobs that a worker cannot run, of unknown types or with inputs that it does not take: when they come back to it.

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
#: and nobody stays away for longer than this, see refuse_jobs.sql
_LONGEST_SECONDS: Final = 300.0
_COMPLAIN_SECONDS: Final = 60.0
#: names that are remembered; whoever makes up more is served worse
_MOST_NAMES: Final = 1_000


@dataclass(slots=True)
class _Type:
    """When the next one has its turn to come back; how many were unknown since somebody was told, and when that was."""

    next_turn: float
    unsaid: int = 0
    said_at: float = -_COMPLAIN_SECONDS


class Strangers:
    """By type, for one worker."""

    def __init__(self) -> None:
        self._types: dict[str, _Type] = {}

    def put_off(self, job: ClaimedJob) -> int:
        """In how many milliseconds the job should be back at the earliest."""
        now = time.monotonic()
        known = self._known(job, now)
        known.next_turn = min(max(known.next_turn, now) + 1 / _BACK_PER_SECOND, now + _LONGEST_SECONDS)
        return int((known.next_turn - now) * 1000)

    def complain(self, job: ClaimedJob) -> None:
        """Its type is unknown here."""
        now = time.monotonic()
        known = self._known(job, now)
        known.unsaid += 1
        if now - known.said_at < _COMPLAIN_SECONDS:
            return
        which = "job" if known.unsaid == 1 else f"{known.unsaid:,} times in the last while, the last of them job"
        _log.warning("type %r is unknown here: put back for one that knows it, %s %s", job.type_name, which, job.id)
        known.said_at, known.unsaid = now, 0

    def _known(self, job: ClaimedJob, now: float) -> _Type:
        if len(self._types) > _MOST_NAMES:
            self._types.clear()
        return self._types.setdefault(job.type_name, _Type(now))
