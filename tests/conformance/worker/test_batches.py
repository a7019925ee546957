"""Handlers that take many jobs at once: one call, an outcome for each."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from holdfast import App, Batch, DeadLetter, Job, Retry, Snooze, Status, SyncBatch
from holdfast.errors import InvalidJobType, InvalidPayload
from holdfast.worker.executors import tasks
from tests.conformance.worker.conftest import BRISK, Ground

ONE = replace(BRISK, concurrency=1)
ONCE = Retry(max_attempts=1)


@dataclass
class Document:
    number: int


def batch_job(ground: Ground, body: Callable[[Any], Any], most: int = 10, **options: Any) -> Any:
    """The same body for both kinds; `ground.seen` gets the inputs of every call."""

    async def on_loop(batch: Batch[Document]) -> list[int | BaseException] | None:
        ground.seen.append([item.input.number for item in batch])
        outcome = body(batch)
        return await outcome if asyncio.iscoroutine(outcome) else outcome  # type: ignore[no-any-return]  # a body may return anything

    def in_thread(batch: SyncBatch[Document]) -> list[int | BaseException] | None:
        ground.seen.append([item.input.number for item in batch])
        return body(batch)  # type: ignore[no-any-return]  # a body may return anything

    function: Any = on_loop if ground.kind == "async" else in_thread
    return ground.app.job(name="index", batch=most, **options)(function)


async def enqueue(ground: Ground, handle: Any, count: int) -> list[str]:
    chains = await ground.client.enqueue_many([handle.call(Document(number)) for number in range(count)])
    return [chain.id for chain in chains]


async def final_errors(ground: Ground, ids: list[str]) -> set[str]:
    """The types of them, when all of these are dead letters."""
    jobs = [await ground.until_status(job_id, "dead_letter") for job_id in ids]
    return {job.last_attempt_error.type if job.last_attempt_error else "none" for job in jobs}


async def test_one_call_takes_many(ground: Ground) -> None:
    handle = batch_job(ground, lambda batch: [item.input.number * 2 for item in batch])
    ids = await enqueue(ground, handle, 4)
    assert (await ground.get(ids[3])).input == {"number": 3}
    async with ground.app.worker(config=replace(BRISK, concurrency=4)):
        jobs = [await ground.until_status(job_id, "completed") for job_id in ids]
    assert ground.seen == [[0, 1, 2, 3]]
    assert [job.output for job in jobs] == [0, 2, 4, 6]


async def test_none_means_all_done(ground: Ground) -> None:
    handle = batch_job(ground, lambda _: None)
    ids = await enqueue(ground, handle, 3)
    async with ground.app.worker(config=BRISK):
        assert [(await ground.until_status(job_id, "completed")).output for job_id in ids] == [None] * 3


async def test_each_has_an_outcome_of_its_own(ground: Ground) -> None:
    def body(_: Any) -> list[Any]:
        return [1, ValueError("bad"), Snooze(3600), DeadLetter("worse")]

    handle = batch_job(ground, body)
    ids = await enqueue(ground, handle, 4)
    async with ground.app.worker(config=BRISK):
        await ground.until_status(ids[3], "dead_letter")
        await ground.until_status(ids[2], "pending")
    good, bad, put_off, dead = [await ground.get(job_id) for job_id in ids]
    assert (good.status, good.output) == (Status.COMPLETED, 1)
    assert (bad.status, bad.attempt) == (Status.PENDING, 1)
    assert bad.last_attempt_error is not None
    assert bad.last_attempt_error.type == "ValueError"
    assert (put_off.status, put_off.attempt) == (Status.PENDING, 0)
    assert dead.status == Status.DEAD_LETTER


@pytest.mark.parametrize("wrong", [[1], "ab", 7, {1: 2, 3: 4}])
async def test_outcomes_that_do_not_fit_fail_all(ground: Ground, wrong: object) -> None:
    handle = batch_job(ground, lambda _: wrong, retry=ONCE)
    ids = await enqueue(ground, handle, 2)
    async with ground.app.worker(config=BRISK):
        assert await final_errors(ground, ids) == {"UnfitOutcomes"}


async def test_an_exception_fails_all(ground: Ground) -> None:
    def body(_: Any) -> None:
        raise RuntimeError("no connection")

    handle = batch_job(ground, body, retry=ONCE)
    ids = await enqueue(ground, handle, 3)
    async with ground.app.worker(config=BRISK):
        assert await final_errors(ground, ids) == {"RuntimeError"}
    assert len(ground.seen) == 1


async def test_an_output_that_cannot_be_stored_fails_alone(ground: Ground) -> None:
    handle = batch_job(ground, lambda _: [1, object()], retry=ONCE)
    first, second = await enqueue(ground, handle, 2)
    async with ground.app.worker(config=BRISK):
        await ground.until_status(first, "completed")
        await ground.until_status(second, "dead_letter")


async def test_input_that_does_not_validate_is_not_in_the_batch(ground: Ground) -> None:
    handle = batch_job(ground, lambda batch: [item.input.number for item in batch])
    ids = await enqueue(ground, handle, 3)
    cast = "CAST(:input AS jsonb)" if ground.app.store.dialect == "postgres" else ":input"
    ground.sql(f"UPDATE {{job}} SET input = {cast} WHERE id = :id", id=ids[1], input='{"number": "two"}')
    async with ground.app.worker(config=BRISK):
        await ground.until_status(ids[0], "completed")
        await ground.until_status(ids[2], "completed")
        await ground.until_status(ids[1], "pending")
    assert ground.seen == [[0, 2]]


async def test_batches_grow_with_what_waits(live_ground: Ground) -> None:
    """A single slot: claims learn how much a call takes, and no call takes more than it may.

    How much that is depends on how fast the machine is: a busy one has several rounds.
    """
    ground = live_ground
    handle = batch_job(ground, lambda _: None, most=50)
    rounds = 0
    async with ground.app.worker(config=ONE):
        while rounds < 5 and max(map(len, ground.seen), default=0) < 50:
            rounds += 1
            for job_id in await enqueue(ground, handle, 500):
                await ground.until_status(job_id, "completed")
    sizes = [len(call) for call in ground.seen]
    assert max(sizes) == 50
    assert rounds > 1 or len(sizes) < 100
    assert sorted(number for call in ground.seen for number in call) == sorted([*range(500)] * rounds)


async def test_contexts_are_the_items_own(ground: Ground) -> None:
    def body(batch: Any) -> list[int]:
        assert batch.inputs == [item.input for item in batch]
        return [item.ctx.lease_generation if batch[0].ctx.job.id != item.ctx.job.id else 0 for item in batch]

    handle = batch_job(ground, body)
    ids = await enqueue(ground, handle, 2)
    async with ground.app.worker(config=BRISK):
        assert [(await ground.until_status(job_id, "completed")).output for job_id in ids] == [0, 1]


async def test_timeout_of_a_batch(live_ground: Ground) -> None:
    ground = live_ground

    def body(_: Any) -> Any:
        if ground.kind == "async":
            return asyncio.sleep(60)
        time.sleep(1.5)
        return None

    handle = batch_job(ground, body, retry=ONCE, timeout=timedelta(seconds=0.3))
    ids = await enqueue(ground, handle, 2)
    async with ground.app.worker(config=BRISK):
        assert await final_errors(ground, ids) == {"JobTimeout"}


async def test_a_batch_that_blocks_the_loop_past_its_timeout_fails_once(live_ground: Ground) -> None:
    """Whatever it returns; and whoever wants to know of failures is told once of each."""
    ground = live_ground

    @ground.app.on_error
    def on_error(job: Job, error: BaseException) -> None:
        ground.seen.append((job.id, type(error).__name__))

    def body(batch: Any) -> Any:
        time.sleep(0.6)
        return [ValueError("late")] * len(batch)

    handle = batch_job(ground, body, retry=ONCE, timeout=timedelta(seconds=0.2))
    ids = await enqueue(ground, handle, 2)
    async with ground.app.worker(config=BRISK):
        assert await final_errors(ground, ids) == {"JobTimeout"}
    told = [entry for entry in ground.seen if isinstance(entry, tuple)]
    assert sorted(told) == sorted((job_id, "JobTimeout") for job_id in ids)


async def test_a_batch_that_fails_after_its_timeout_fails_once(
    live_ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its jobs were given up, and whoever wants to know of failures was told."""
    ground = live_ground
    monkeypatch.setattr(tasks, "_TIMEOUT_GRACE", 0.1)
    over = threading.Event()

    @ground.app.on_error
    def on_error(job: Job, error: BaseException) -> None:
        ground.seen.append((job.id, type(error).__name__))

    async def later(until: float) -> None:
        while time.monotonic() < until:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.05)
        over.set()
        raise ValueError("late")

    def body(_: Any) -> Any:
        if ground.kind == "async":
            return later(time.monotonic() + 1)
        time.sleep(1)
        over.set()
        raise ValueError("late")

    handle = batch_job(ground, body, retry=ONCE, timeout=timedelta(seconds=0.2))
    ids = await enqueue(ground, handle, 2)
    async with ground.app.worker(config=BRISK):
        assert await final_errors(ground, ids) == {"JobTimeout"}
        await ground.until(over.is_set)
        await asyncio.sleep(0.1)  # for what should not come, and so gives no signal
    told = [entry for entry in ground.seen if isinstance(entry, tuple)]
    assert sorted(told) == sorted((job_id, "JobTimeout") for job_id in ids)


async def test_cancelling_one_leaves_the_others_alone(live_ground: Ground) -> None:
    ground = live_ground

    def outcomes(batch: Any) -> list[int] | None:
        told = [item.ctx.cancelled is not None for item in batch]
        return list(map(int, told)) if any(told) else None

    async def later(batch: Any) -> list[int]:
        while (found := outcomes(batch)) is None:  # noqa: ASYNC110 - what is waited for gives no signal
            await asyncio.sleep(0.01)
        return found

    def body(batch: Any) -> Any:
        if ground.kind == "async":
            return later(batch)
        while (found := outcomes(batch)) is None:
            time.sleep(0.01)
        return found

    handle = batch_job(ground, body)
    ids = await enqueue(ground, handle, 2)
    async with ground.app.worker(config=BRISK):
        await ground.until(lambda: ground.seen)
        await ground.client.cancel(ids[0])
        assert [(await ground.until_status(job_id, "completed")).output for job_id in ids] == [1, 0]


async def test_a_batchs_own_middleware_gets_the_batch(ground: Ground) -> None:
    async def around(batch: Any, call_next: Callable[[], Any]) -> Any:
        ground.seen.append(len(batch))
        return await call_next()

    def plain_around(batch: Any, call_next: Callable[[], Any]) -> Any:
        ground.seen.append(len(batch))
        return call_next()

    own: Any = around if ground.kind == "async" else plain_around
    handle = batch_job(ground, lambda _: None, middleware=[own])
    ids = await enqueue(ground, handle, 2)
    async with ground.app.worker(config=BRISK):
        for job_id in ids:
            await ground.until_status(job_id, "completed")
    assert ground.seen == [2, [0, 1]]


async def test_a_continuation_is_the_items_own(ground: Ground) -> None:
    """An item that returns its neighbour's has made a mistake, and no chain goes on with another's job."""

    async def last(_: Any) -> int:
        return 1

    following = ground.job(last)

    async def swapped(batch: Any) -> Any:
        return [await item.ctx.continue_with(following.call()) for item in batch][::-1]

    def body(batch: Any) -> Any:
        if ground.kind == "async":
            return swapped(batch)
        return [item.ctx.continue_with(following.call()) for item in batch][::-1]

    handle = batch_job(ground, body, retry=ONCE)
    ids = await enqueue(ground, handle, 2)
    async with ground.app.worker(config=BRISK):
        assert await final_errors(ground, ids) == {"ContinuationNotReturned"}


class TestSignatures:
    app = App("sqlite:////nowhere/at/all.db")

    def test_one_parameter_that_is_a_batch(self) -> None:
        def two(batch: SyncBatch[int], more: int) -> None: ...
        def none() -> None: ...
        def other(numbers: list[int]) -> None: ...

        for wrong in (two, none, other):
            with pytest.raises(InvalidJobType, match=r"one parameter.*Batch\["):
                self.app.job(batch=5)(wrong)  # type: ignore[arg-type]  # that is what is wrong

    def test_the_kind_of_batch_must_fit(self) -> None:
        async def mixed(batch: SyncBatch[int]) -> None: ...

        with pytest.raises(InvalidJobType, match="async def handlers take Batch"):
            self.app.job(batch=5)(mixed)  # type: ignore[arg-type]  # that is what is wrong

    def test_calls_are_checked(self) -> None:
        @self.app.job(batch=5, name="checked")
        def checked(batch: SyncBatch[Document]) -> None: ...

        with pytest.raises(InvalidPayload, match="one argument"):
            checked.call()  # type: ignore[call-arg]  # that is what is wrong
        with pytest.raises(InvalidPayload):
            checked.call("five")  # type: ignore[arg-type]  # that is what is wrong
