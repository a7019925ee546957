"""The one fetcher of a process: claims in batches and keeps the slots fed."""

from __future__ import annotations

import logging
import math
import random
import time
from collections.abc import Sequence

from holdfast.errors import DatabaseUnavailable, SerializationConflict
from holdfast.model.scan_position import ScanPosition
from holdfast.notify import Waker
from holdfast.operations.claim_jobs import ClaimedJob, claim_jobs, claim_suspect, find_lanes
from holdfast.operations.release_jobs import release_orphans
from holdfast.worker.backoff import Backoff
from holdfast.worker.buffer import Buffer
from holdfast.worker.config import WorkerConfig
from holdfast.worker.demand import Demand
from holdfast.worker.patient_store import PatientStore
from holdfast.worker.slots import Slots

_log = logging.getLogger("holdfast.worker")

#: how long a suspect waits for the process to be otherwise empty, and others for the suspect
_SUSPECT_PATIENCE = 5.0
#: how long claimed jobs may wait behind others that take all slots before somebody else gets them
_STALL_SECONDS = 0.5


class Fetcher:
    """Asks for work when there is room, looks back within its budget, and sleeps exactly as long as it may."""

    def __init__(
        self,
        store: PatientStore,
        worker_id: str,
        queues: Sequence[str],
        config: WorkerConfig,
        *,
        buffer: Buffer,
        slots: Slots,
        demand: Demand,
        waker: Waker,
    ) -> None:
        self._store = store
        self._worker_id = worker_id
        self._queues = queues
        self._config = config
        self._buffer = buffer
        self._slots = slots
        self._waker = waker
        self._position = ScanPosition()
        self._demand = demand
        self._next_due = 0.0
        self._suspect_due_at: float | None = None
        self._suspect_turn_from = 0.0
        #: the last claim came back short: there is nothing more until a hint, a due time or a poll says otherwise
        self._is_dry = False
        self._is_stopping = False
        self._has_looked_since_claim = False
        self._next_audit = time.monotonic() + config.renew.total_seconds()

    def stop(self) -> None:
        """Claim no more; `run` ends soon."""
        self._is_stopping = True
        self._demand.room()

    async def run(self) -> None:
        backoff = Backoff()
        while not self._is_stopping:
            try:
                await self._step()
                backoff.reset()
            except (DatabaseUnavailable, SerializationConflict) as error:
                self._demand.is_unsure = True  # a claim may have been committed without our hearing of it
                _log.warning("cannot claim: %s; again in %.1f s", error, backoff.seconds)
                await backoff.wait()

    async def _step(self) -> None:
        self._buffer.measure(self._slots.finished)
        self._let_go_of_stalled()
        if not self._slots.may_claim:
            await self._demand.wait(1.0)
            return
        if self._demand.is_unsure or time.monotonic() >= self._next_audit:
            await self._release_orphans()
        if self._suspect_due_at is not None and time.monotonic() >= max(self._suspect_due_at, self._suspect_turn_from):
            await self._suspect_turn()
        if self._is_dry and not self._buffer.reserve:
            await self._sleep()
        limit, is_prefetch = self._wanted()
        if limit == 0:
            await self._demand.wait(_STALL_SECONDS)
            return
        claimed = await self._claim(limit, is_prefetch=is_prefetch)
        self._is_dry = len(claimed) < limit
        if self._position.may_look_back(time.monotonic()):
            await self._look_back()

    def _wanted(self) -> tuple[int, bool]:
        """How many to claim now, and whether they would have to wait in reserve."""
        buffer = self._buffer
        missing = self._slots.free - len(buffer.ready)
        appetite = buffer.appetite
        if buffer.reserve:
            return (max(appetite, 1), True) if len(buffer.ready) <= buffer.low_water or missing > 0 else (0, True)
        if missing > 0:
            return missing, False
        return (appetite, True) if len(buffer.ready) <= appetite else (0, True)

    async def _claim(self, limit: int, *, is_prefetch: bool) -> list[ClaimedJob]:
        lanes = self._position.lanes
        start = self._buffer.reserved_at
        if not lanes and start is None:
            return []
        drops = self._buffer.take_idle_marks()
        limit = min(limit, self._config.batch)
        claimed = await self._store.run(
            lambda: claim_jobs(
                self._worker_id, lanes, limit, self._config.lease, prefetch=is_prefetch, start=start, drops=drops
            )
        )
        self._has_looked_since_claim = False
        self._position.advance(claimed)
        if is_prefetch:
            self._buffer.promote(claimed)
        else:
            self._buffer.ready.extend(claimed)
        self._slots.fill()
        return claimed

    async def _look_back(self) -> None:
        """See where claimable jobs are, from the beginning: what came in behind the position, and new lanes."""
        began = time.monotonic()
        found = await self._store.run(lambda: find_lanes(self._queues), read_only=True)
        ended = time.monotonic()
        # A lane whose first job is due later keeps its place: what comes in before that job must not lie behind it.
        self._position.look_back((lane for lane in found if not lane.is_suspect and lane.due_in_ms == 0), began, ended)
        suspects = [lane.due_in_ms for lane in found if lane.is_suspect]
        self._suspect_due_at = ended + min(suspects) / 1000 if suspects else None
        due = [lane.due_in_ms for lane in found if not lane.is_suspect]
        self._next_due = ended + min(due) / 1000 if due else math.inf
        self._has_looked_since_claim = True
        if self._next_due <= ended:
            self._is_dry = False

    async def _sleep(self) -> None:
        """Nothing claimable: until something is due, a hint comes, or it is time to look anyway."""
        self._is_dry = False
        now = time.monotonic()
        poll = now + self._config.poll.total_seconds() * random.uniform(0.8, 1.2)  # noqa: S311 - jitter
        until = [poll, self._next_due]
        if self._suspect_due_at is not None:
            until.append(max(self._suspect_due_at, self._suspect_turn_from))
        if not self._has_looked_since_claim:
            until.append(now + self._position.seconds_until_look_back(now))
        if len(self._buffer):
            until.append(now + _STALL_SECONDS)
        await self._waker.wait(max(0.0, min(until) - now))
        # Whatever woke us may have come after the last look, and stand in a lane that we do not know.
        self._has_looked_since_claim = False

    def _let_go_of_stalled(self) -> None:
        """Long jobs have taken all slots: what waits behind them goes back, for whoever has room."""
        if len(self._buffer) and time.monotonic() - self._slots.last_start >= _STALL_SECONDS:
            self._slots.give_back(self._buffer.clear())
            self._buffer.rest()

    async def _suspect_turn(self) -> None:
        """Run one suspect with nothing else in the process, so that a crash points at the culprit.

        Long jobs are not waited for without end: they may share a process with a suspect, but no two suspects do, so an
        innocent is in a crash at most once.
        """
        if self._slots.has_suspect:
            self._suspect_turn_from = time.monotonic() + _SUSPECT_PATIENCE
            return
        began = time.monotonic()
        self._slots.give_back(self._buffer.clear())
        await self._slots.wait_empty(_SUSPECT_PATIENCE)
        await self._slots.wait_written(_SUSPECT_PATIENCE)
        for suspect in await self._store.run(lambda: claim_suspect(self._worker_id, self._queues, self._config.lease)):
            self._slots.start_alone(suspect)
            await self._slots.wait_empty(_SUSPECT_PATIENCE)
        self._suspect_due_at = None
        # Ordinary work gets at least as much time as the suspect took.
        self._suspect_turn_from = time.monotonic() + (time.monotonic() - began)
        await self._look_back()

    async def _release_orphans(self) -> None:
        """Give back what the database says we hold and we do not know of; our heartbeat keeps it from others."""
        known = [lease.id for lease in self._slots.leases()]
        released = await self._store.run(lambda: release_orphans(self._worker_id, known))
        if released:
            _log.warning("gave back %d jobs whose claim was never answered", len(released))
        self._demand.is_unsure = False
        self._next_audit = time.monotonic() + self._config.renew.total_seconds()
