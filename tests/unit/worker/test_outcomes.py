"""What a worker counts as run, and when what it ran is written: at once, or together with what is about to come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from holdfast.model.scan_position import Lane
from holdfast.operations.claim_jobs import claim_jobs
from holdfast.operations.complete_jobs import Completion, complete_jobs
from holdfast.operations.lease import Lease, Settlement
from holdfast.operations.statement import Operation
from holdfast.testing import temporary_app
from holdfast.worker.attempt import Attempt
from holdfast.worker.cancel_tasks import cancel_tasks
from holdfast.worker.outcomes import Outcomes
from holdfast.worker.patient_store import PatientStore


async def test_what_goes_back_unstarted_is_no_job_that_was_run() -> None:
    """It neither brings `max_jobs` nearer nor makes the worker think itself faster than it is."""
    with temporary_app() as app:

        @app.job()
        async def work() -> None: ...

        async with app.async_client() as client:
            await client.enqueue_many([work.call() for _ in range(5)])
        store = PatientStore(app.store.asynchronous(), timedelta(seconds=60))
        lanes = [Lane("default", 0, "", 0)]
        jobs = await store.run(lambda: claim_jobs("w", lanes, 5, timedelta(seconds=30)))
        outcomes = Outcomes(store, "w", 100)
        writing = asyncio.create_task(outcomes.run())
        for job in jobs[:3]:
            outcomes.add(Lease(job.id, job.lease_generation), never_started=job)
        await outcomes.drained()
        assert outcomes.finished == 0
        for job in jobs[3:]:
            attempt = Attempt(job, app._registry.handlers["work"], "w")
            outcomes.add(attempt.completion(None), attempt)
        await outcomes.drained()
        assert outcomes.finished == 2
        await cancel_tasks([writing])
        await store.close()


class _Busy:
    """Outcomes of a worker that may gather for a minute after its first statement; its last job has a partition key."""

    def __init__(self, outcomes: Outcomes, attempts: list[Attempt], sent: list[int]) -> None:
        self.outcomes = outcomes
        self.attempts = attempts
        #: how many completions went in each statement
        self.sent = sent

    def complete(self, count: int = 1) -> None:
        for _ in range(count):
            attempt = self.attempts.pop(0)
            self.outcomes.add(attempt.completion(None), attempt)

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not is_so():  # noqa: ASYNC110 - what is written or gathered gives no signal
                await asyncio.sleep(0.001)

    async def gathers(self) -> None:
        """One has gone out at once, and those after it wait."""
        self.complete()
        await self.until(lambda: self.sent == [1] and self.outcomes.finished == 1)
        self.complete(3)
        await self.until(lambda: self.outcomes._is_gathering)


@asynccontextmanager
async def _busy(monkeypatch: pytest.MonkeyPatch, batch: int = 100) -> AsyncIterator[_Busy]:
    monkeypatch.setattr("holdfast.worker.outcomes._LONGEST_GATHERING", 60.0)
    monkeypatch.setattr("holdfast.worker.outcomes._GATHERING_SHARE", 1e9)
    sent: list[int] = []

    def counted(worker_id: str | None, jobs: Sequence[Completion]) -> Operation[Settlement]:
        sent.append(len(jobs))
        return complete_jobs(worker_id, jobs)

    monkeypatch.setattr("holdfast.worker.outcomes.complete_jobs", counted)
    with temporary_app() as app:

        @app.job()
        async def work() -> None: ...

        async with app.async_client() as client:
            await client.enqueue_many([work.call() for _ in range(9)])
            await client.enqueue(work.call(), partition_key="key")
        store = PatientStore(app.store.asynchronous(), timedelta(seconds=60))
        lanes = [Lane("default", 0, "", 0)]
        jobs = await store.run(lambda: claim_jobs("w", lanes, 10, timedelta(seconds=30)))
        outcomes = Outcomes(store, "w", batch)
        outcomes.is_more_coming = lambda: True
        writing = asyncio.create_task(outcomes.run())
        yield _Busy(outcomes, [Attempt(job, app._registry.handlers["work"], "w") for job in jobs], sent)
        await cancel_tasks([writing])
        await store.close()


async def test_completions_of_a_busy_worker_share_a_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    """They wait for each other for a moment, and then all go."""
    async with _busy(monkeypatch) as busy:
        monkeypatch.setattr("holdfast.worker.outcomes._LONGEST_GATHERING", 0.05)
        await busy.gathers()
        await busy.until(lambda: busy.outcomes.finished == 4)
        assert busy.sent == [1, 3]


async def test_where_nothing_runs_nothing_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more will come that it could be written with."""
    async with _busy(monkeypatch) as busy:
        busy.outcomes.is_more_coming = lambda: False
        for count in range(1, 4):
            busy.complete()
            await busy.until(lambda count=count: busy.outcomes.finished == count)  # type: ignore[misc]  # a default is not inferred
        assert busy.sent == [1, 1, 1]


async def test_what_was_gathered_goes_when_the_last_handler_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever starts handlers says when nothing runs any more."""
    async with _busy(monkeypatch) as busy:
        await busy.gathers()
        busy.outcomes.hurry()
        await busy.until(lambda: busy.outcomes.finished == 4)
        assert busy.sent == [1, 3]


async def test_no_more_than_a_batch_is_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fills a statement goes."""
    async with _busy(monkeypatch, batch=5) as busy:
        await busy.gathers()
        busy.complete(2)
        await busy.until(lambda: busy.outcomes.finished == 6)
        assert busy.sent == [1, 5]


@pytest.mark.parametrize("comes", ["before", "meanwhile"])
async def test_who_is_in_the_way_of_others_does_not_wait(monkeypatch: pytest.MonkeyPatch, comes: str) -> None:
    """The next job of a partition key may start when this one is written, and takes those along that are gathered."""
    async with _busy(monkeypatch) as busy:
        keyed = busy.attempts.pop()
        if comes == "meanwhile":
            await busy.gathers()
        else:
            busy.complete()
            await busy.until(lambda: busy.outcomes.finished == 1)
            busy.complete(3)
        busy.outcomes.add(keyed.completion(None), keyed)
        await busy.until(lambda: busy.outcomes.finished == 5)
        assert busy.sent == [1, 4]


@pytest.mark.parametrize("comes", ["before", "meanwhile"])
async def test_only_completions_are_gathered(monkeypatch: pytest.MonkeyPatch, comes: str) -> None:
    """A failure decides when the job is tried again, and a job that goes back is for somebody else to start."""
    async with _busy(monkeypatch) as busy:
        failed = busy.attempts.pop(0)
        if comes == "meanwhile":
            await busy.gathers()
        else:
            busy.complete()
            await busy.until(lambda: busy.outcomes.finished == 1)
            busy.complete(3)
        busy.outcomes.add(failed.failure(ValueError("no")), failed)
        await busy.until(lambda: busy.outcomes.finished == 5)
        assert busy.sent == [1, 3]


async def test_who_waits_until_all_is_written_does_not_wait_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a worker that stops, or one that is about to run a suspect."""
    async with _busy(monkeypatch) as busy:
        await busy.gathers()
        async with asyncio.timeout(10):
            await busy.outcomes.drained()
        assert busy.outcomes.finished == 4
