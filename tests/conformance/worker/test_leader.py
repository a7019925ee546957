"""One worker leads: elected when nobody does, out of office before another can be in it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any, TypeVar

import pytest

from holdfast import App, WorkerConfig
from holdfast.operations.leadership import acquire_leadership, resign_leadership
from holdfast.operations.statement import Operation, Verb
from holdfast.operations.worker_life import WorkerIdentity, heartbeat
from holdfast.stores import Store, StoreConfig, open_store
from holdfast.worker.cancel_tasks import cancel_tasks
from holdfast.worker.maintenance.leader import Leader
from holdfast.worker.maintenance.service import ServiceLoop
from holdfast.worker.patient_store import PatientStore
from tests.conformance.worker.conftest import BRISK

T = TypeVar("T")

HEARTBEAT = timedelta(seconds=0.4)
TERM_SECONDS = 1.2
PATIENCE = 20


def visit() -> Operation[bool]:
    """What the service of these tests does; it changes nothing, because nobody of that name leads."""
    return resign_leadership("nobody", None)


class WatchedStore(PatientStore):
    """Keeps a diary of visits, written when they begin: one that is cut short has been there all the same."""

    def __init__(self, store: Store) -> None:
        super().__init__(store.asynchronous(), timedelta(seconds=10))
        self.diary: list[float] = []

    async def run(self, verb: Verb[T], *, read_only: bool = False) -> T:
        if verb is visit:
            self.diary.append(time.monotonic())
        return await super().run(verb, read_only=read_only)


class Visitor:
    """A service that comes often."""

    name = "visitor"
    interval = timedelta(seconds=0.02)
    timeout = timedelta(seconds=10)

    def __init__(self, leader: Leader) -> None:
        self._leader = leader

    async def run_once(self) -> Mapping[str, int]:
        await self._leader.store.run(visit)
        return {}


class Candidate:
    """A leader with a visitor, on a store of its own, and heartbeats as a worker has them."""

    def __init__(self, store: Store, name: str) -> None:
        self.store = WatchedStore(store)
        self.leader = Leader(self.store, name, HEARTBEAT)
        self.leader.services = [ServiceLoop(Visitor(self.leader))]

    async def run(self) -> None:
        tasks = [asyncio.create_task(self.leader.run()), asyncio.create_task(self._heartbeats())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel_tasks(tasks)

    async def _heartbeats(self) -> None:
        identity = WorkerIdentity(id="listener", version="1", queues=[])
        while True:
            pulse = await self.store.run(lambda: heartbeat(identity, HEARTBEAT * 4, is_draining=False))
            if not pulse.has_leader:
                self.leader.notice_vacancy()
            await asyncio.sleep(0.05)


@asynccontextmanager
async def running(*candidates: Candidate) -> AsyncIterator[list[asyncio.Task[None]]]:
    tasks = [asyncio.create_task(candidate.run()) for candidate in candidates]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for candidate in candidates:
            await candidate.store.close()


async def until(condition: Any, what: str, patience: float = PATIENCE) -> None:
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.01)


@pytest.fixture
def store(place: tuple[str, Any]) -> Store:
    return open_store(place[0], StoreConfig())


async def test_leads_and_goes_on_leading(store: Store) -> None:
    """For several terms' time its services run, in one and the same term."""
    candidate = Candidate(store, "a")
    async with running(candidate):
        await until(lambda: candidate.leader.is_leading, "elected")
        await asyncio.sleep(2.5 * TERM_SECONDS)
        assert (candidate.leader.is_leading, candidate.leader.term) == (True, 1)
        assert time.monotonic() - candidate.store.diary[-1] < TERM_SECONDS


class SlowToGo:
    """A service that takes longer to stop than a resignation may take."""

    name = "slow to go"
    interval = timedelta(0)
    timeout = timedelta(seconds=10)

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.has_gone = False

    async def run_once(self) -> Mapping[str, int]:
        self.began.set()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(1.5)
            self.has_gone = True
        return {}


async def test_resigns_at_once_and_leaves_nothing_running(store: Store) -> None:
    """Another may lead before the last service has stopped; the worker ends after it."""
    watched, slow = WatchedStore(store), SlowToGo()
    leader = Leader(watched, "a", HEARTBEAT)
    leader.services = [ServiceLoop(slow)]
    leading = asyncio.create_task(leader.run())
    await slow.began.wait()

    leading.cancel()
    await asyncio.wait([leading])
    await leader.resign()

    assert slow.has_gone
    assert await watched.run(lambda: acquire_leadership("b", timedelta(seconds=60))) == 2
    await watched.close()


async def test_one_of_two(store: Store, place: tuple[str, Any]) -> None:
    """The other does nothing."""
    first, second = Candidate(store, "a"), Candidate(open_store(place[0], StoreConfig()), "b")
    async with running(first, second):
        await until(lambda: first.leader.is_leading or second.leader.is_leading, "one is elected")
        await asyncio.sleep(TERM_SECONDS)
        idle = second if first.leader.is_leading else first
        assert idle.store.diary == []


async def test_whoever_was_away_does_not_act(store: Store, place: tuple[str, Any]) -> None:
    """The event loop stands still for longer than the term, as with SIGSTOP, and another is elected.

    Its services are due in the moment in which it wakes, before it can hear of that.
    """
    candidate = Candidate(store, "a")
    other = open_store(place[0], StoreConfig()).sync()
    async with running(candidate):
        await until(lambda: candidate.store.diary, "at work")
        time.sleep(TERM_SECONDS)  # noqa: ASYNC251 - that is the point
        assert other.run(lambda: acquire_leadership("b", timedelta(seconds=60))) == 2
        woke_at = time.monotonic()
        await until(lambda: candidate.leader.term is None, "stepped down")
        await asyncio.sleep(0.3)
        assert [at for at in candidate.store.diary if at >= woke_at] == []
        assert not candidate.leader.is_leading
    other.close()


async def test_stops_before_the_lease_has_run_out(store: Store, place: tuple[str, Any]) -> None:
    """Renewals do not get through: when the lease can be taken, the services have been still for a while."""
    _, backdoor = place
    candidate = Candidate(store, "a")
    async with running(candidate):
        await until(lambda: candidate.store.diary, "at work")
        # As if it had been renewed by nobody: the term is another's from now on, the lease is not touched.
        backdoor.execute(_sql(store, "UPDATE {leader} SET worker_id = 'somebody'"), {})
        began = time.monotonic()
        await until(lambda: not candidate.leader.is_leading, "stepped down")
        assert time.monotonic() - began < TERM_SECONDS
        await asyncio.sleep(0.1)
        still = len(candidate.store.diary)
        await asyncio.sleep(0.5)
        assert len(candidate.store.diary) == still


async def test_resigns_for_another(store: Store, place: tuple[str, Any]) -> None:
    """Once it has resigned, the next one need not wait for the end of the term."""
    first = Candidate(store, "a")
    async with running(first) as (task,):
        await until(lambda: first.leader.is_leading, "elected")
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await first.leader.resign()
        assert not first.leader.is_leading
    second = open_store(place[0], StoreConfig()).sync()
    assert second.run(lambda: acquire_leadership("b", timedelta(seconds=60))) == 2
    second.close()


async def test_a_worker_says_whether_it_leads(place: tuple[str, Any]) -> None:
    """True for one of two, and passed on when that one stops."""
    config = WorkerConfig(queues=["none"], heartbeat=BRISK.heartbeat, dead_after=BRISK.dead_after)
    app = App(place[0], notify=False)
    async with app.worker(config=config) as first:
        await until(lambda: first.is_leader, "the first leads")
        async with app.worker(config=config) as second:
            await asyncio.sleep(0.5)
            assert (first.is_leader, second.is_leader) == (True, False)
            first.stop()
            await until(lambda: second.is_leader, "the second leads")
            assert not first.is_leader
    app.close()


async def test_the_leader_keeps_statistics(place: tuple[str, Any]) -> None:
    """While a worker runs, counts are read from where it keeps them, and the throughput comes by itself."""
    app = App(place[0], notify=False)

    async def work(n: int) -> int:
        return n

    job = app.job()(work)
    config = WorkerConfig(heartbeat=BRISK.heartbeat, dead_after=BRISK.dead_after, poll=BRISK.poll)
    async with app.async_client() as client, app.worker(config=config):
        await client.enqueue_many([job.call(n=n) for n in range(5)])
        await client.enqueue(job.call(n=9), delay=600)
        deadline = time.monotonic() + PATIENCE
        while True:
            stats = await client.stats()
            counts = {(count.state, count.jobs) for count in stats.counts}
            completed = sum(minute.completed for minute in stats.throughput)
            if stats.age_seconds > 0 and counts == {("scheduled", 1)} and completed == 5:
                break
            assert time.monotonic() < deadline, stats
            await asyncio.sleep(0.05)
    app.close()


def _sql(store: Store, text: str) -> str:
    return text.format(leader="holdfast.leader" if store.dialect == "postgres" else "holdfast_leader")
