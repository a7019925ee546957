"""What keeps a worker's parts in step: claims that wait for writes, one renewal for all, slots that stay taken."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import psycopg
import pytest

from holdfast import Cancellation, Retry, Status
from holdfast.errors import DatabaseUnavailable
from holdfast.operations.complete_jobs import Completion, complete_jobs
from holdfast.operations.lease import Lease, Settlement
from holdfast.operations.renew_leases import renew_leases
from holdfast.operations.statement import Operation
from tests.conformance.worker.conftest import BRISK, Ground, Hand
from tests.crew.fixtures import EVERY_POSTGRES


@contextmanager
def completions_refused(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The database takes no completion, and everything else."""

    def refuse(*_: object) -> Any:
        raise DatabaseUnavailable("not now")

    monkeypatch.setattr("holdfast.worker.outcomes.complete_jobs", refuse)
    yield
    monkeypatch.setattr("holdfast.worker.outcomes.complete_jobs", complete_jobs)


@pytest.mark.parametrize("place", EVERY_POSTGRES, indirect=True)  # nobody can have a row locked on SQLite
@pytest.mark.parametrize("kind", ["async"])
async def test_rows_that_a_claim_has_for_a_moment_are_written_together(
    live_ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who claims beside others holds rows of theirs until it commits: their completions go again, in one statement."""
    ground = live_ground
    may_end = asyncio.Event()

    async def work(hand: Hand, number: int) -> None:
        ground.seen.append(number)
        await may_end.wait()

    handle = ground.job(work)
    await ground.client.enqueue_many([handle.call(number=number) for number in range(20)])
    sent: list[int] = []
    with psycopg.connect(ground.url) as other:

        def counted(worker_id: str | None, jobs: Sequence[Completion]) -> Operation[Settlement]:
            sent.append(len(jobs))
            if sum(sent) > 20:  # some come for the second time
                other.rollback()
            return complete_jobs(worker_id, jobs)

        monkeypatch.setattr("holdfast.worker.outcomes.complete_jobs", counted)
        async with ground.app.worker(config=replace(BRISK, concurrency=20)):
            await ground.until(lambda: len(ground.seen) == 20)
            other.execute("SELECT FROM holdfast.job FOR NO KEY UPDATE")
            may_end.set()
            await ground.until(lambda: ground.sql("SELECT count(*) FROM {job} WHERE status = 'completed'") == [(20,)])
    assert len(sent) < 10


async def test_nothing_is_gathered_behind_the_last_handler(
    live_ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was gathered goes when no handler runs any more, however long it was to wait for others."""
    monkeypatch.setattr("holdfast.worker.outcomes._LONGEST_GATHERING", 3600.0)
    monkeypatch.setattr("holdfast.worker.outcomes._GATHERING_SHARE", 1e9)
    ground = live_ground

    async def work(hand: Hand, number: int) -> None:
        await hand.pause(0.001 * (1 + number % 3))

    handle = ground.job(work)
    await ground.client.enqueue_many([handle.call(number=number) for number in range(50)])
    async with ground.app.worker(config=replace(BRISK, concurrency=4)):
        await ground.until(lambda: ground.sql("SELECT count(*) FROM {job} WHERE status = 'completed'") == [(50,)])


async def test_what_cannot_be_written_stops_the_claims(live_ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outcomes wait in a bounded buffer: a worker that cannot write them takes no more jobs than fit."""
    monkeypatch.setattr("holdfast.worker.outcomes._MOST_BATCHES", 2)
    ground = live_ground

    async def work(hand: Hand, number: int) -> None:
        ground.seen.append(number)

    handle = ground.job(work)
    await ground.client.enqueue_many([handle.call(number=number) for number in range(300)])

    def running() -> int:
        return int(ground.sql("SELECT count(*) FROM {job} WHERE status = 'running'")[0][0])

    async with ground.app.worker(config=replace(BRISK, batch=20)):
        with completions_refused(monkeypatch):
            await ground.until(lambda: running() >= 40)
            await asyncio.sleep(1)  # long enough for all of them
            held = running()
        # The last claim before the buffer was full, and what was fetched ahead of it.
        assert 40 <= held <= 40 + 3 * 20
        assert len(ground.seen) <= held
        await ground.until(lambda: len(ground.seen) == 300)
        await ground.until(lambda: running() == 0)
    assert sorted(ground.seen) == list(range(300))


async def test_claims_go_on_as_soon_as_outcomes_are_written(
    live_ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may not claim because too much waits to be written is told when it is, and does not sleep until then."""
    monkeypatch.setattr("holdfast.worker.outcomes._MOST_BATCHES", 1)
    ground = live_ground

    async def work(hand: Hand, number: int) -> None:
        pass

    handle = ground.job(work)
    await ground.client.enqueue_many([handle.call(number=number) for number in range(600)])
    began = time.monotonic()
    async with ground.app.worker(config=replace(BRISK, concurrency=20, batch=10)):
        await ground.until(lambda: ground.sql("SELECT count(*) FROM {job} WHERE status = 'completed'") == [(600,)])
    # Some thirty times there are too many; a second each, if nobody says when they are written.
    assert time.monotonic() - began < 15


async def test_one_renewal_for_all_jobs(live_ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many run, a renewal is one statement per interval."""
    ground = live_ground
    renewals: list[tuple[float, int]] = []

    def counted(leases: list[Lease], lease: timedelta) -> Any:
        renewals.append((time.monotonic(), len(leases)))
        return renew_leases(leases, lease)

    monkeypatch.setattr("holdfast.worker.leases.renew_leases", counted)
    gate = threading.Event()

    async def work(hand: Hand, number: int) -> None:
        ground.seen.append(number)
        while not gate.is_set():
            await hand.pause(0.05)

    handle = ground.job(work)
    await ground.client.enqueue_many([handle.call(number=number) for number in range(30)])
    often = replace(BRISK, concurrency=30, lease=timedelta(seconds=5), renew=timedelta(seconds=0.5))
    async with ground.app.worker(config=often):
        await ground.until(lambda: len(ground.seen) == 30)
        began = time.monotonic()
        await ground.until(lambda: sum(at > began for at, _ in renewals) >= 4)
        sent = [(at, count) for at, count in renewals if at > began]
        gate.set()
    assert {count for _, count in sent} == {30}
    assert all(later - earlier >= 0.4 for (earlier, _), (later, _) in pairwise(sent))


async def test_who_is_told_to_stop_knows_why(live_ground: Ground) -> None:
    """Its job goes back, with its attempt, whatever it raises to come to an end: it would be a dead letter else."""
    ground = live_ground

    async def work(hand: Hand) -> None:
        ground.seen.append("started")
        try:
            while hand.cancelled is None:
                await hand.pause()
        except asyncio.CancelledError:
            pass  # libraries have errors of their own for it
        ground.seen.append(hand.cancelled)
        raise RuntimeError("stopped in the middle")

    job_id = await ground.put(ground.job(work, retry=Retry(max_attempts=1)))
    async with ground.app.worker(config=replace(BRISK, stop_deadline=timedelta(seconds=0.2))):
        await ground.until(lambda: ground.seen)
    await ground.until(lambda: len(ground.seen) == 2)  # a thread is not waited for
    assert ground.seen == ["started", Cancellation.STOPPING]
    job = await ground.get(job_id)
    assert (job.status, job.attempt, job.lease_generation) == (Status.PENDING, 0, 1)


class TestThreads:
    @pytest.fixture
    def kind(self) -> str:
        return "thread"

    async def test_an_abandoned_thread_keeps_its_slot(self, live_ground: Ground) -> None:
        """Its attempt has failed at its timeout; the next job waits until the thread has really ended."""
        ground = live_ground
        gate = threading.Event()

        def stuck() -> None:
            gate.wait(30)
            ground.seen.append("stuck is over")

        def quick() -> None:
            ground.seen.append("quick")

        first = await ground.put(ground.app.job(timeout=0.3, retry=Retry(max_attempts=1))(stuck))
        second = await ground.put(ground.app.job()(quick))
        async with ground.app.worker(config=replace(BRISK, concurrency=1)):
            job = await ground.until_status(first, "dead_letter")
            assert job.last_attempt_error is not None
            assert job.last_attempt_error.type == "JobTimeout"
            await asyncio.sleep(0.5)  # several polls
            assert ground.seen == []
            gate.set()
            await ground.until_status(second, "completed")
        assert ground.seen == ["stuck is over", "quick"]


_note: ContextVar[int | None] = ContextVar("note", default=None)


async def test_a_handler_does_not_see_what_another_set(live_ground: Ground) -> None:
    """The handler that frees a slot is not the one that the next job's belongs to: each begins with a clean context."""
    ground = live_ground

    async def work(hand: Hand, number: int) -> None:
        ground.seen.append(_note.get())
        _note.set(number)

    handle = ground.job(work)
    await ground.client.enqueue_many([handle.call(number=number) for number in range(50)])
    async with ground.app.worker(config=replace(BRISK, concurrency=1)):
        await ground.until(lambda: len(ground.seen) == 50)
    assert set(ground.seen) == {None}


async def test_a_job_that_comes_after_a_burst_is_not_given_back(live_ground: Ground) -> None:
    """Many quick jobs have made the worker greedy; the next, a moment later, is started and not kept for later."""
    ground = live_ground

    async def work(hand: Hand, number: int) -> None:
        ground.seen.append(number)

    handle = ground.job(work)
    async with ground.app.worker(config=replace(BRISK, poll=timedelta(minutes=1))):
        for pause in (0.6, 0.8):
            await ground.client.enqueue_many([handle.call(number=number) for number in range(500)])
            await ground.until(lambda: len(ground.seen) == 500)
            await asyncio.sleep(pause)
            await ground.client.enqueue(handle.call(number=500))
            await ground.until(lambda: ground.seen[-1] == 500)
            ground.seen.clear()
    assert ground.sql("SELECT DISTINCT lease_generation FROM {job}") == [(1,)]
