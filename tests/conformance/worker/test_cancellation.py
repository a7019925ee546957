"""Handlers that should stop: told why, in time, and their jobs end as they should."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from datetime import timedelta

import pytest

from holdfast import Cancellation, Job, Retry, Snooze, Status
from tests.conformance.worker.conftest import BRISK, Ground, Hand

#: renewals come too late to tell anybody anything
HINTED = replace(BRISK, lease=timedelta(seconds=120), renew=timedelta(seconds=60))
#: how long it may take until a handler is told; a busy machine is given some more than the second that is promised
SOON_SECONDS = 2.0


async def errors_of(ground: Ground, job: Job) -> tuple[str, list[str]]:
    """Why the job ended, and what each of its attempts raised."""
    assert job.last_attempt_error is not None
    attempts = await ground.client.list_attempts(job)
    return job.last_attempt_error.type, [attempt.error.type for attempt in attempts if attempt.error]


async def test_running_jobs_are_told_within_a_second(live_ground: Ground) -> None:
    """By notification, or by watching the file; a handler that stops leaves a cancelled job."""
    ground = live_ground

    async def work(hand: Hand) -> None:
        ground.seen.append("started")
        while hand.cancelled is None:
            await hand.pause()
        ground.seen.append(hand.cancelled)
        raise RuntimeError("stopped in the middle")

    job_id = await ground.put(ground.job(work))
    async with ground.app.worker(config=HINTED):
        await ground.until(lambda: ground.seen)
        await asyncio.sleep(1)  # until the worker listens
        began = time.monotonic()
        await ground.client.cancel(job_id)
        job = await ground.until_status(job_id, "cancelled")
        took = time.monotonic() - began
    assert ground.seen == ["started", Cancellation.CANCELLED]
    assert took < SOON_SECONDS
    assert await errors_of(ground, job) == ("Cancelled", ["RuntimeError"])


async def test_success_wins(live_ground: Ground) -> None:
    """A handler that finishes all the same has completed its job."""
    ground = live_ground

    async def work(hand: Hand) -> str:
        while hand.cancelled is None:
            await hand.pause()
        return "finished"

    job_id = await ground.put(ground.job(work))
    async with ground.app.worker(config=BRISK):
        await ground.until_status(job_id, "running")
        await ground.client.cancel(job_id)
        job = await ground.until_status(job_id, "completed")
    assert job.output == "finished"


async def test_a_snooze_after_a_request_cancels(live_ground: Ground) -> None:
    """Anything but success: cancelled, never pending."""
    ground = live_ground

    async def work(hand: Hand) -> None:
        while hand.cancelled is None:
            await hand.pause()
        raise Snooze(3600)

    job_id = await ground.put(ground.job(work))
    async with ground.app.worker(config=BRISK):
        await ground.until_status(job_id, "running")
        await ground.client.cancel(job_id)
        await ground.until_status(job_id, "cancelled")


async def test_deaf_tasks_are_cancelled_after_a_grace(
    live_ground: Ground, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An async handler that does not look is cancelled; a thread is waited for."""
    monkeypatch.setattr("holdfast.worker.slots._CANCEL_GRACE", 0.5)
    ground = live_ground

    async def work(hand: Hand) -> None:
        ground.seen.append("started")
        await hand.pause(3 if kind == "thread" else 60)
        raise RuntimeError("not asked to stop")

    job_id = await ground.put(ground.job(work, retry=Retry(max_attempts=1)))
    async with ground.app.worker(config=BRISK):
        await ground.until(lambda: ground.seen)
        await ground.client.cancel(job_id)
        job = await ground.until_status(job_id, "cancelled")
    assert await errors_of(ground, job) == ("Cancelled", ["RuntimeError" if kind == "thread" else "Cancel"])
    assert job.attempt == 1


async def test_deleted_jobs_are_told(live_ground: Ground) -> None:
    """There is nothing left to do, and nothing is written."""
    ground = live_ground

    async def work(hand: Hand) -> None:
        ground.seen.append("started")
        try:
            while hand.cancelled is None:
                await hand.pause()
        finally:
            ground.seen.append(hand.cancelled)

    await ground.put(ground.job(work))
    async with ground.app.worker(config=replace(BRISK, renew=timedelta(seconds=0.3))):
        await ground.until(lambda: ground.seen)
        ground.sql("DELETE FROM {job}")
        await ground.until(lambda: len(ground.seen) == 2)
    assert ground.seen == ["started", Cancellation.DELETED]
    assert ground.sql("SELECT count(*) FROM {job}") == [(0,)]


async def test_completed_by_somebody_else(live_ground: Ground) -> None:
    """Told why; the output from outside stays."""
    ground = live_ground

    async def work(hand: Hand) -> str:
        ground.seen.append("started")
        try:
            while hand.cancelled is None:
                await hand.pause()
        finally:
            ground.seen.append(hand.cancelled)
        return "inside"

    job_id = await ground.put(ground.job(work))
    async with ground.app.worker(config=HINTED):
        await ground.until(lambda: ground.seen)
        await asyncio.sleep(1)  # until the worker listens
        await ground.client.complete_job(job_id, "outside")
        await ground.until(lambda: len(ground.seen) == 2)
    assert ground.seen == ["started", Cancellation.COMPLETED_ELSEWHERE]
    assert (await ground.get(job_id)).output == "outside"


async def test_waiting_in_the_buffer_is_cancelled_without_a_start(live_ground: Ground) -> None:
    """Claimed and not yet started: it never runs."""
    ground = live_ground

    async def work(hand: Hand, number: int) -> None:
        ground.seen.append(number)
        while hand.cancelled is None:
            await hand.pause()

    job = ground.job(work)
    first = await ground.put(job, number=1)
    config = replace(BRISK, concurrency=1)
    async with ground.app.worker(config=config):
        await ground.until(lambda: ground.seen)
        second = await ground.put(job, number=2)
        await ground.client.cancel([first, second])
        for job_id, status in ((first, Status.COMPLETED), (second, Status.CANCELLED)):
            await ground.until_status(job_id, status)
    assert ground.seen == [1]


async def test_a_handler_that_blocks_the_loop_past_its_timeout_has_failed(live_ground: Ground) -> None:
    """Its clock could not strike while it ran; its time was up all the same."""
    ground = live_ground

    async def work(_: Hand) -> str:
        time.sleep(0.6)  # noqa: ASYNC251 - that is the point
        return "too late"

    job_id = await ground.put(ground.job(work, timeout=0.2, retry=Retry(max_attempts=1)))
    async with ground.app.worker(config=BRISK):
        job = await ground.until_status(job_id, "dead_letter")
    assert job.last_attempt_error is not None
    assert job.last_attempt_error.type == "JobTimeout"
