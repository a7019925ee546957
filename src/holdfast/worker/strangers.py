"""Complaints about jobs of types that a worker does not know: one a minute for each type, however many there are."""

from __future__ import annotations

import logging
import time
from typing import Final

from holdfast.operations.claim_jobs import ClaimedJob

_log = logging.getLogger("holdfast.worker")

_APART_SECONDS: Final = 60.0
#: names that are remembered; whoever makes up more hears more
_MOST_NAMES: Final = 1_000


class Strangers:
    """How many there were of each type since somebody was told."""

    def __init__(self) -> None:
        self._silent_until: dict[str, float] = {}
        self._unsaid: dict[str, int] = {}

    def meet(self, job: ClaimedJob) -> None:
        name, now = job.type_name, time.monotonic()
        self._unsaid[name] = self._unsaid.get(name, 0) + 1
        if now < self._silent_until.get(name, now):
            return
        if len(self._silent_until) >= _MOST_NAMES:
            self._silent_until.clear()
            self._unsaid = {name: self._unsaid[name]}
        self._silent_until[name] = now + _APART_SECONDS
        count = self._unsaid.pop(name)
        _log.warning(
            "type %r is unknown here: put back for a worker that knows it, %s",
            name,
            f"job {job.id}" if count == 1 else f"{count:,} times in the last while, job {job.id} the last of them",
        )
