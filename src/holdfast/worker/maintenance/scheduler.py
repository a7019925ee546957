"""Fires schedules when their ticks come."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta

from holdfast.errors import HoldfastError, LeadershipLost
from holdfast.operations.fire_schedule import Fired, MakeIds, Upcoming, find_due_schedules, fire_schedule
from holdfast.telemetry import Listeners
from holdfast.telemetry.verbs import enqueued
from holdfast.worker.maintenance.service import VerbRunner

_log = logging.getLogger("holdfast.maintenance")

#: the loop may sleep so much longer than it is told to
_LONGEST_JITTER = 1.2
_SHORTEST_PAUSE = timedelta(milliseconds=50)


class Scheduler:
    """Deals with the ticks of all apps that use the database, and sleeps until the next one.

    Two at a time do no harm: which ticks are due is decided under the lock of the schedule's row. One schedule that
    cannot be read here, for want of its time zone say, does not keep the others waiting.

    - `poll`: how often to look for schedules that somebody has created or changed.
    - `woken` is called with the queues that got work.
    """

    name = "scheduler"
    timeout = timedelta(seconds=30)

    def __init__(
        self,
        store: VerbRunner,
        make_ids: MakeIds,
        poll: timedelta,
        woken: Callable[[Iterable[str]], None],
        listeners: Listeners | None = None,
    ) -> None:
        #: the first look is at once: ticks may have come while nobody led
        self.interval = _SHORTEST_PAUSE
        self._store = store
        self._make_ids = make_ids
        self._poll = poll
        self._woken = woken
        self._listeners = listeners or Listeners()

    async def run_once(self) -> Mapping[str, int]:
        self.interval = self._poll
        counts = {"enqueued": 0, "overlapped": 0, "failed": 0}
        failed: set[tuple[str, str]] = set()
        while True:
            upcoming = await self._store.run(lambda: find_due_schedules(self._poll), read_only=True)
            due = [each for each in upcoming if each.wait_ms <= 0 and (each.app, each.name) not in failed]
            if not due:
                self.interval = self._pause(upcoming)
                return counts
            for each in due:
                fired = await self._fire(each)
                if fired is None:
                    failed.add((each.app, each.name))
                    counts["failed"] += 1
                else:
                    counts["enqueued"] += fired.enqueued
                    counts["overlapped"] += fired.overlapped

    async def _fire(self, due: Upcoming) -> Fired | None:
        try:
            fired = await self._store.run(lambda: fire_schedule(due.app, due.name, self._make_ids))
        except LeadershipLost:
            raise
        except HoldfastError as error:
            _log.warning("schedule %s of %s: %s: %s", due.name, due.app, type(error).__name__, error)
            return None
        if fired.queues:
            self._woken(fired.queues)
        if self._listeners.heard:
            self._listeners.tell(enqueued(fired.jobs))
        return fired

    def _pause(self, upcoming: Iterable[Upcoming]) -> timedelta:
        """Until the next tick, and never longer than `poll`; waking too early costs a look, too late is late."""
        waits = [each.wait_ms for each in upcoming if each.wait_ms > 0]
        if not waits:
            return self._poll
        until_next = timedelta(milliseconds=min(waits)) / _LONGEST_JITTER
        return max(_SHORTEST_PAUSE, min(self._poll, until_next))
