"""When a worker asks for work, and how often."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from holdfast.errors import DatabaseUnavailable
from holdfast.operations.claim_jobs import claim_jobs, find_lanes
from holdfast.operations.statement import Verb
from holdfast.worker import fetcher
from holdfast.worker.patient_store import PatientStore
from tests.conformance.worker.conftest import BRISK, Ground, Hand
from tests.crew.fixtures import EVERY_POSTGRES

_JOBS = 40
#: a hint, and now and then a look that finds the job first, or a poll; on SQLite everybody's commits as well
_MOST_PER_JOB = {"postgres": 3, "sqlite": 6}


@pytest.fixture
def kind() -> str:
    return "async"


@pytest.fixture
def claims(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many claims were sent."""
    sent = 0

    def counted(*arguments: Any, **options: Any) -> Any:
        nonlocal sent
        sent += 1
        return claim_jobs(*arguments, **options)

    monkeypatch.setattr(fetcher, "claim_jobs", counted)
    return lambda: sent


async def test_a_job_that_was_due_is_no_reason_to_ask_for_another(
    live_ground: Ground, claims: Callable[[], int]
) -> None:
    """What a look saw, and a claim has taken since, does not make the worker claim until it may look again."""
    done: list[int] = []

    async def work(_: Hand, number: int) -> None:
        done.append(number)

    job = live_ground.job(work)
    async with live_ground.app.worker(config=BRISK):
        for number in range(_JOBS):
            await live_ground.put(job, number=number)
            await live_ground.until(lambda: len(done) > number)  # noqa: B023 - it is over before the next
            await asyncio.sleep(0.03)  # the pace of the jobs, not a wait for something
    assert claims() <= _JOBS * _MOST_PER_JOB[live_ground.app.store.dialect]


def _slow_down(monkeypatch: pytest.MonkeyPatch, **seconds: float) -> None:
    """Verbs of the worker take so much longer, as with a database that is far away."""
    run = PatientStore.run

    async def slow(self: PatientStore, verb: Verb[Any], *, read_only: bool = False) -> Any:
        operation = verb()
        name = next(operation).name
        operation.close()
        await asyncio.sleep(seconds.get(name, 0))
        return await run(self, verb, read_only=read_only)

    monkeypatch.setattr(PatientStore, "run", slow)


async def test_what_is_due_later_is_not_forgotten_with_what_is_due(
    live_ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looks are slow and therefore rare: what one has seen has to do until the next."""
    _slow_down(monkeypatch, find_lanes=0.15)
    started: dict[str, float] = {}

    async def work(hand: Hand) -> None:
        started[hand.ctx.job.queue] = time.monotonic()

    job = live_ground.job(work)
    await live_ground.client.enqueue(job.call(), queue="now")
    await live_ground.client.enqueue(job.call(), queue="later", delay=timedelta(seconds=1.2))
    began = time.monotonic()
    async with live_ground.app.worker(queues=["now", "later"], config=replace(BRISK, poll=timedelta(seconds=60))):
        await live_ground.until(lambda: "later" in started)
    assert started["now"] - began < 1.0
    assert 1.0 < started["later"] - began < 2.2


async def test_a_hint_does_not_wait_for_a_look(live_ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lanes that are known will do; what the look brings is seen when it comes."""
    run = PatientStore.run
    is_slow, looking = False, asyncio.Event()

    async def slow(self: PatientStore, verb: Verb[Any], *, read_only: bool = False) -> Any:
        operation = verb()
        if next(operation).name == "find_lanes" and is_slow:
            looking.set()
            await asyncio.sleep(4)
        operation.close()
        return await run(self, verb, read_only=read_only)

    monkeypatch.setattr(PatientStore, "run", slow)
    started: dict[int, float] = {}

    async def work(_: Hand, number: int) -> None:
        started[number] = time.monotonic()

    job = live_ground.job(work)
    async with live_ground.app.worker(config=replace(BRISK, poll=timedelta(seconds=60))):
        await live_ground.put(job, number=0)
        await live_ground.until(lambda: 0 in started)
        is_slow = True
        await live_ground.put(job, number=1)
        await looking.wait()
        began = time.monotonic()
        await live_ground.put(job, number=2)
        await live_ground.until(lambda: 2 in started)
    assert started[2] - began < 2


async def test_a_look_that_fails_is_made_again(live_ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else would show a lane that the worker does not know, and the next poll is far away."""
    looks = 0

    def unlucky(*arguments: Any) -> Any:
        nonlocal looks
        looks += 1
        if looks == 1:
            raise DatabaseUnavailable("not now")
        return find_lanes(*arguments)

    monkeypatch.setattr(fetcher, "find_lanes", unlucky)
    done: list[int] = []

    async def work(_: Hand, number: int) -> None:
        done.append(number)

    job = live_ground.job(work)
    await live_ground.put(job, number=0)
    async with live_ground.app.worker(config=replace(BRISK, poll=timedelta(seconds=60))):
        await live_ground.until(lambda: done == [0])
    assert looks > 1


async def test_room_that_comes_during_another_claim_is_not_forgotten(
    live_ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rate of 50 a second beside a queue without limits, claims of which take longer than a token needs to come."""
    _slow_down(monkeypatch, claim_jobs=0.01, claim_plain=0.01, find_lanes=0.01)
    done: list[int] = []

    async def work(_: Hand, number: int) -> None:
        done.append(number)

    job = live_ground.job(work)
    await live_ground.client.queues.limit("limited", rate=50, burst=1)
    await live_ground.client.enqueue(job.call(number=0), queue="open")
    await live_ground.client.enqueue_many([job.call(number=number) for number in range(1, 200)], queue="limited")
    async with live_ground.app.worker(queues=["open", "limited"], config=BRISK):
        await live_ground.until(lambda: len(done) > 5)
        before = len(done)
        await asyncio.sleep(3)  # the time over which it is measured
        after = len(done)
    assert after - before > 35


@pytest.mark.parametrize("place", EVERY_POSTGRES, indirect=True)  # nobody can have a row locked on SQLite
async def test_jobs_that_are_passed_by_hide_nobody(live_ground: Ground) -> None:
    """What stands behind more of them than a claim takes is reached all the same."""
    ground = live_ground
    done: list[int] = []

    async def work(_: Hand, number: int) -> None:
        done.append(number)

    job = ground.job(work)
    keyed = [job.call(number=-1).options(concurrency_key=f"key {number}") for number in range(30)]
    await ground.client.queues.limit("default", key_concurrency=1)
    await ground.client.enqueue_many(keyed)
    assert len(ground.sql("SELECT FROM holdfast.claim('somebody', ARRAY['default'], 100)")) == 30
    await ground.client.enqueue_many(keyed)
    await ground.client.enqueue_many([job.call(number=number) for number in range(100)])
    with psycopg.connect(ground.url) as holding:
        holding.execute("SELECT FROM holdfast.job WHERE status = 'running' FOR UPDATE")
        async with ground.app.worker(config=replace(BRISK, concurrency=5)):
            await ground.until(lambda: len(done) == 100)
        holding.rollback()


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements of claims, in the order in which they were sent."""
    sent: list[str] = []

    def noted(*arguments: Any, **options: Any) -> Any:
        operation = claim_jobs(*arguments, **options)
        statement = next(operation)
        while True:
            sent.append(statement.name)
            try:
                statement = operation.send((yield statement))
            except StopIteration as end:
                return end.value

    monkeypatch.setattr(fetcher, "claim_jobs", noted)
    return sent


@pytest.mark.parametrize("place", ["pg18"], indirect=True)
async def test_plain_jobs_are_claimed_the_short_way(live_ground: Ground, ways: list[str]) -> None:
    """And only they: what has a partition key is claimed by the statement that knows of keys, at once."""
    done: list[int] = []

    async def work(_: Hand, number: int) -> None:
        done.append(number)

    job = live_ground.job(work)
    async with live_ground.app.worker(config=BRISK):
        for number in range(3):
            await live_ground.put(job, number=number)
            await live_ground.until(lambda: len(done) > number)  # noqa: B023 - it is over before the next
        assert set(ways) == {"claim_plain"}
        ways.clear()
        await live_ground.client.enqueue(job.call(number=3), partition_key="a")
        await live_ground.until(lambda: len(done) > 3)
        first = ways.index("claim_jobs")
        assert ways[first - 1] == "claim_plain"
        ways.clear()
        await live_ground.client.enqueue(job.call(number=4), partition_key="a")
        await live_ground.until(lambda: len(done) > 4)
        assert set(ways) == {"claim_jobs"}
    assert done == [0, 1, 2, 3, 4]
