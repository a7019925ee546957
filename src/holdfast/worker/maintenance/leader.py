"""Leads the maintenance of a database, in one worker at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, TypeVar

from holdfast.errors import HoldfastError, LeadershipLost
from holdfast.operations.leadership import acquire_leadership, renew_leadership, resign_leadership
from holdfast.operations.statement import Verb
from holdfast.worker.cancel_tasks import cancel_tasks
from holdfast.worker.maintenance.service import ServiceLoop, VerbRunner
from holdfast.worker.moment import Moment

_log = logging.getLogger("holdfast.maintenance")

T = TypeVar("T")

#: a lease outlives two renewals that got lost
_BEATS_PER_TERM = 3
#: the last part of a lease is not used: by then the services have stopped
_USED_SHARE = 0.8
#: how long services that are cancelled, and the resignation, may take
_STOP_SECONDS = 1.0
#: a driver that asks the server to cancel a statement may need longer; in the end nothing is left running behind us
_LAST_SECONDS = 10.0


class Leader:
    """Runs `services` for as long as this worker leads, and stands for election whenever nobody does.

    A term is over for this process well before it is over in the database, counted from the moment at which the last
    renewal was sent: the next leader's services do not start before ours have stopped. Should two run at once all the
    same, because a statement was slow on its way, no harm is done: each verb that they use is safe under concurrency.
    """

    def __init__(self, store: VerbRunner, worker_id: str, heartbeat: timedelta) -> None:
        self._store = store
        self._worker_id = worker_id
        self._pause = heartbeat.total_seconds()
        self._lease = heartbeat * _BEATS_PER_TERM
        self._usable = self._lease.total_seconds() * _USED_SHARE
        self._vacancy = asyncio.Event()
        self._vacancy.set()  # the first question is asked at once
        self._has_stood = False
        self._renewed = Moment()
        #: the term in which this worker leads, or thinks so
        self.term: int | None = None
        #: for the services
        self.store = LedStore(store, self)
        self.services: Sequence[ServiceLoop] = ()
        self._tasks: Sequence[asyncio.Task[Any]] = ()

    @property
    def is_leading(self) -> bool:
        """Whether the term goes on, by this process's own clocks."""
        return self.term is not None and self._left > 0

    def notice_vacancy(self) -> None:
        """A heartbeat has seen that nobody leads."""
        self._vacancy.set()

    async def run(self) -> None:
        """For ever; a service that fails is logged by its own loop."""
        while True:
            await self._vacancy.wait()
            self._vacancy.clear()
            try:
                self.term = await self._elected()
            except HoldfastError as error:
                _log.warning("cannot stand for leader: %s", error)  # the next heartbeat asks again
            if self.term is not None:
                await self._lead(self.term)

    async def resign(self) -> None:
        """Once `run` has ended: if it may be that this worker leads, another need not wait for the end of the term."""
        if not self._has_stood:
            return
        term, self.term = self.term, None
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await self._store.run(lambda: resign_leadership(self._worker_id, term))
        except (HoldfastError, TimeoutError) as error:
            _log.warning("could not resign: %s; the lease runs out", str(error) or "no answer in time")
        await cancel_tasks(self._tasks, _LAST_SECONDS, is_asked=True)

    @property
    def _left(self) -> float:
        return self._usable - self._renewed.age

    async def _elected(self) -> int | None:
        # From before it was sent: the database may have granted it at any moment since.
        sent = Moment()
        self._has_stood = True
        term = await self._store.run(lambda: acquire_leadership(self._worker_id, self._lease))
        self._renewed = sent
        if term is not None and self._left <= 0:  # answered after an outage: granted of late, or long ago
            return term if await self._renew(term) else None
        return term

    async def _renew(self, term: int) -> bool:
        sent = Moment()
        is_renewed = await self._store.run(lambda: renew_leadership(self._worker_id, term, self._lease))
        if is_renewed:
            self._renewed = sent
        return is_renewed

    async def _lead(self, term: int) -> None:
        _log.info("this worker leads, term %d", term)
        tasks: list[asyncio.Task[Any]] = [asyncio.create_task(self._stay(term), name="holdfast-leader")]
        tasks += [asyncio.create_task(loop.run(), name=f"holdfast-{loop.service.name}") for loop in self.services]
        self._tasks = tasks
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel_tasks(tasks, _STOP_SECONDS)
        self.term = None
        for task in tasks:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise error

    async def _stay(self, term: int) -> None:
        """Renew until the term is over."""
        pause = self._pause
        while self._left > 0:
            await asyncio.sleep(min(pause, self._left))
            pause = self._pause / 5
            try:
                async with asyncio.timeout(max(0.0, self._left)):
                    is_renewed = await self._renew(term)
            except (HoldfastError, TimeoutError) as error:
                _log.warning("cannot renew the lead: %s", str(error) or "no answer in time")
                continue
            if not is_renewed:
                break
            pause = self._pause
        self.term = None  # here, not when the services have ended: they begin nothing more
        _log.warning("this worker does not lead any more, term %d", term)


class LedStore:
    """The leader's services' way to the database: shut as soon as the term is over."""

    def __init__(self, store: VerbRunner, leader: Leader) -> None:
        self._store = store
        self._leader = leader

    async def run(self, verb: Verb[T], *, read_only: bool = False) -> T:
        if not self._leader.is_leading:
            raise LeadershipLost
        return await self._store.run(verb, read_only=read_only)
