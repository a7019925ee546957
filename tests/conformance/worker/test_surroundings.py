"""What is around attempts: middleware, what handlers share, and hooks for failures and dead letters."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast import App, Cancel, Context, Job, JobError, Retry, Snooze, Status, SyncContext
from holdfast.errors import InvalidJobType, InvalidOption, WorkerCannotWork
from holdfast.worker.executors import tasks
from tests.conformance.worker.conftest import BRISK, Ground, Hand, settled

ONCE = Retry(max_attempts=1)
Next = Callable[[], Any]


def middleware_of(ground: Ground, around: Callable[[Any, Next], Any]) -> Any:
    """The same body for both kinds of handlers."""

    async def on_loop(ctx: Any, call_next: Next) -> Any:
        return await around(ctx, call_next)

    def in_thread(ctx: Any, call_next: Next) -> Any:
        coroutine = around(ctx, call_next)
        try:
            coroutine.send(None)
        except StopIteration as end:
            return end.value
        raise AssertionError("waited")

    return on_loop if ground.kind == "async" else in_thread


async def test_middleware_wraps_in_order(ground: Ground) -> None:
    def named(name: str) -> Any:
        async def around(ctx: Any, call_next: Next) -> Any:
            ground.seen.append(f"{name} before {ctx.attempt}")
            output = await settled(call_next())
            ground.seen.append(f"{name} after {output}")
            return output + 1

        return middleware_of(ground, around)

    async def work(_: Hand) -> int:
        ground.seen.append("work")
        return 1

    job_id = await ground.put(ground.job(work, middleware=[named("outer"), named("inner")]))
    async with ground.app.worker(config=BRISK):
        job = await ground.until_status(job_id, "completed")
    assert ground.seen == ["outer before 1", "inner before 1", "work", "inner after 1", "outer after 2"]
    assert job.output == 3


async def test_middleware_sees_and_makes_exceptions(ground: Ground) -> None:
    async def around(ctx: Any, call_next: Next) -> Any:
        try:
            return await settled(call_next())
        except ZeroDivisionError as error:
            ground.seen.append(type(error).__name__)
            raise Cancel("no use") from error

    async def work(_: Hand) -> None:
        raise ZeroDivisionError

    job_id = await ground.put(ground.job(work, middleware=[middleware_of(ground, around)]))
    async with ground.app.worker(config=BRISK):
        await ground.until_status(job_id, "cancelled")
    assert ground.seen == ["ZeroDivisionError"]


async def test_middleware_may_not_call_the_handler(ground: Ground) -> None:
    async def around(ctx: Any, call_next: Next) -> Any:
        if ctx.job.lease_generation == 1:
            raise Snooze(0)
        return await settled(call_next())

    async def work(_: Hand) -> str:
        return "done"

    job_id = await ground.put(ground.job(work, middleware=[middleware_of(ground, around)]))
    async with ground.app.worker(config=BRISK):
        job = await ground.until_status(job_id, "completed")
    assert (job.attempt, job.lease_generation, job.output) == (1, 2, "done")


async def test_continuations_pass_through_middleware(ground: Ground) -> None:
    async def around(ctx: Any, call_next: Next) -> Any:
        return await settled(call_next())

    async def last(_: Hand) -> str:
        return "end"

    following = ground.job(last)

    async def first(hand: Hand) -> Any:
        return await hand.continue_with(following.call())

    job_id = await ground.put(ground.job(first, middleware=[middleware_of(ground, around)]))
    async with ground.app.worker(config=BRISK):
        await ground.until_status(job_id, "completed")
        chain = await ground.client.get_chain(job_id)
        await ground.until_status(chain.tail.id, "completed")


def test_middleware_of_the_wrong_kind() -> None:
    app = App("sqlite:////nowhere/at/all.db")

    def plain(ctx: Any, call_next: Next) -> Any:
        return call_next()

    async def work() -> None: ...

    with pytest.raises(InvalidJobType, match="middleware"):
        app.job(middleware=[plain])(work)
    with pytest.raises(InvalidOption, match="middleware"):
        app.job(middleware=plain)  # type: ignore[call-overload]  # that is what is wrong
    with pytest.raises(InvalidOption, match="middleware"):
        App("sqlite:////nowhere/at/all.db", middleware=["text"])  # type: ignore[list-item]  # that is what is wrong
    assert app.job_types == {}


async def test_the_apps_middleware_is_for_handlers_of_its_kind(sqlite_file: Path) -> None:
    seen: list[str] = []

    async def on_loop(ctx: Any, call_next: Next) -> Any:
        seen.append(f"loop around {ctx.job.type_name}")
        return await call_next()

    def in_thread(ctx: Any, call_next: Next) -> Any:
        seen.append(f"thread around {ctx.job.type_name}")
        return call_next()

    app = App(f"sqlite:///{sqlite_file}", middleware=[on_loop, in_thread])

    @app.job()
    async def first() -> None: ...

    @app.job()
    def second() -> None: ...

    async with app.async_client() as client, app.worker(config=BRISK):
        for handle in (first, second):
            await client.wait(await client.enqueue(handle.call()), timeout=10)
    await app.aclose()
    assert seen == ["loop around first", "thread around second"]


@pytest.mark.parametrize("flavour", ["async", "sync"])
async def test_lifespan_spans_the_jobs(sqlite_file: Path, flavour: str) -> None:
    seen: list[str] = []

    @asynccontextmanager
    async def alifespan(app: App) -> AsyncIterator[dict[str, str]]:
        seen.append(f"open {app.name}")
        yield {"pool": "shared"}
        seen.append("close")

    @contextmanager
    def lifespan(app: App) -> Iterator[dict[str, str]]:
        seen.append(f"open {app.name}")
        yield {"pool": "shared"}
        seen.append("close")

    app = App(f"sqlite:///{sqlite_file}", name="shop", lifespan=alifespan if flavour == "async" else lifespan)

    @app.job()
    async def first(ctx: Context) -> None:
        seen.append(ctx.state["pool"])

    @app.job()
    def second(ctx: SyncContext) -> None:
        seen.append(ctx.state["pool"])

    async with app.async_client() as client, app.worker(config=BRISK):
        for handle in (first, second):
            await client.wait(await client.enqueue(handle.call()), timeout=10)
    await app.aclose()
    assert seen == ["open shop", "shared", "shared", "close"]


async def test_a_lifespan_that_fails_keeps_the_worker_from_starting(ground: Ground) -> None:
    @asynccontextmanager
    async def lifespan(_: App) -> AsyncIterator[None]:
        if not ground.seen:
            raise ConnectionError("no cache server")
        yield

    async def work(_: Hand) -> None: ...

    job_id = await ground.put(ground.job(work))
    ground.app._lifespan = lifespan
    with pytest.raises(WorkerCannotWork, match="no cache server"):
        async with ground.app.worker(config=BRISK):
            pytest.fail("started")
    job = await ground.get(job_id)
    assert (job.status, job.lease_generation) == (Status.PENDING, 0)
    assert ground.sql("SELECT count(*) FROM {worker} WHERE status <> 'dead'") == [(0,)]


async def test_hooks_are_told(ground: Ground) -> None:
    """Of every failed attempt with its exception; of a dead letter when it is one in the database."""
    app = ground.app

    @app.on_error
    def on_error(job: Job, error: BaseException) -> None:
        ground.seen.append((job.attempt, type(error).__name__, threading.current_thread() is threading.main_thread()))

    @app.on_dead
    async def on_dead(job: Job) -> None:
        ground.seen.append((job.status, job.last_attempt_error))

    async def work(_: Hand) -> None:
        raise LookupError("not there")

    job_id = await ground.put(ground.job(work, retry=Retry(max_attempts=2, initial=0)))
    async with app.worker(config=BRISK):
        await ground.until_status(job_id, "dead_letter")
        await ground.until(lambda: len(ground.seen) == 3)
    assert ground.seen[:2] == [(1, "LookupError", False), (2, "LookupError", False)]
    status, error = ground.seen[2]
    assert status == Status.DEAD_LETTER
    assert isinstance(error, JobError)
    assert error.message == "not there"


@pytest.mark.parametrize("raised", [Snooze(3600), Cancel("enough")])
async def test_hooks_are_not_told_of_what_is_no_failure(ground: Ground, raised: Exception) -> None:
    @ground.app.on_error
    def on_error(job: Job, error: BaseException) -> None:
        ground.seen.append(error)

    async def work(_: Hand) -> None:
        raise raised

    job_id = await ground.put(ground.job(work))

    async def is_over() -> bool:
        job = await ground.get(job_id)
        return job.lease_generation == 1 and job.status != Status.RUNNING

    async with ground.app.worker(config=BRISK):
        await ground.until(is_over)
    assert ground.seen == []


async def test_a_hook_that_fails_harms_nobody(ground: Ground, caplog: pytest.LogCaptureFixture) -> None:
    @ground.app.on_dead
    def broken(job: Job) -> None:
        raise RuntimeError("the pager is down")

    @ground.app.on_dead
    def whole(job: Job) -> None:
        ground.seen.append(job.id)

    async def work(_: Hand) -> None:
        raise ValueError

    ids = [await ground.put(handle) for handle in [ground.job(work, retry=ONCE)] for _ in range(2)]
    async with ground.app.worker(config=BRISK):
        for job_id in ids:
            await ground.until_status(job_id, "dead_letter")
        await ground.until(lambda: len(ground.seen) == 2)
    assert "the pager is down" in caplog.text


async def test_hooks_are_told_of_timeouts(live_ground: Ground) -> None:
    ground = live_ground

    @ground.app.on_error
    def on_error(job: Job, error: BaseException) -> None:
        ground.seen.append(type(error).__name__)

    async def work(hand: Hand) -> None:
        await hand.pause(1.5)

    await ground.put(ground.job(work, retry=ONCE, timeout=0.2))
    async with ground.app.worker(config=replace(BRISK, concurrency=1)):
        await ground.until(lambda: ground.seen)
    await asyncio.sleep(0)
    assert ground.seen == ["JobTimeout"]


@pytest.mark.parametrize("end", ["return", "raise", "be cancelled"])
async def test_hooks_are_told_once_of_who_goes_on_after_its_timeout(
    live_ground: Ground, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """Whatever comes of a handler that was given up."""
    ground = live_ground
    monkeypatch.setattr(tasks, "_TIMEOUT_GRACE", 0.1)

    @ground.app.on_error
    def on_error(job: Job, error: BaseException) -> None:
        ground.seen.append(type(error).__name__)

    async def work(hand: Hand) -> None:
        until = time.monotonic() + 1
        while time.monotonic() < until:
            with suppress(asyncio.CancelledError):
                await hand.pause(0.05)
        ground.seen.append("over")
        if end == "raise":
            raise ValueError
        if end == "be cancelled":
            raise asyncio.CancelledError

    await ground.put(ground.job(work, retry=ONCE, timeout=0.2))
    async with ground.app.worker(config=replace(BRISK, concurrency=1)):
        await ground.until(lambda: "over" in ground.seen)
        # The next one needs its slot, so the call is over for the worker too.
        await ground.until_status(await ground.put(ground.job(_nothing)), "completed")
    assert ground.seen == ["JobTimeout", "over"]


async def _nothing(_: Hand) -> None: ...


async def test_hooks_are_told_of_what_the_reaper_buries(live_ground: Ground) -> None:
    """A job that has killed its third worker is a dead letter, and whoever finds that out says so."""
    ground = live_ground

    @ground.app.on_dead
    def on_dead(job: Job) -> None:
        ground.seen.append((job.id, job.last_attempt_error and job.last_attempt_error.type))

    async def work(_: Hand) -> None: ...

    job_id = await ground.put(ground.job(work))
    now = "now()" if ground.app.store.dialect == "postgres" else "strftime('%Y-%m-%dT%H:%M:%f000Z')"
    ground.sql(
        f"UPDATE {{job}} SET status = 'running', attempt = 1, crash_count = 2, lease_generation = 3, "
        f"leased_by = 'gone', last_attempt_at = {now}, leased_until = {now} WHERE id = :id",
        id=job_id,
    )
    quick = replace(BRISK, heartbeat=timedelta(seconds=0.1), dead_after=timedelta(seconds=0.5))
    async with ground.app.worker(config=quick):
        await ground.until_status(job_id, "dead_letter")
        await ground.until(lambda: ground.seen)
    assert ground.seen == [(job_id, "WorkerDied")]


@pytest.mark.parametrize("raised", [asyncio.CancelledError(), SystemExit(3)], ids=["cancelled", "exit"])
async def test_a_hook_cannot_end_the_worker(ground: Ground, raised: BaseException) -> None:
    @ground.app.on_error
    async def broken(job: Job, error: BaseException) -> None:
        raise raised

    @ground.app.on_error
    async def whole(job: Job, error: BaseException) -> None:
        ground.seen.append(job.id)

    async def work(_: Hand) -> None:
        raise ValueError

    handle = ground.job(work, retry=ONCE)
    first = await ground.put(handle)
    async with ground.app.worker(config=BRISK):
        await ground.until_status(first, "dead_letter")
        second = await ground.put(handle)
        await ground.until_status(second, "dead_letter")
        await ground.until(lambda: ground.seen == [first, second])


async def test_a_start_that_is_given_up_leaves_no_worker(ground: Ground) -> None:
    @asynccontextmanager
    async def lifespan(_: App) -> AsyncIterator[None]:
        await asyncio.sleep(1)
        yield

    async def work(_: Hand) -> None:
        ground.seen.append("ran")

    job_id = await ground.put(ground.job(work))
    ground.app._lifespan = lifespan
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3), ground.app.worker(config=BRISK):
            pytest.fail("started")
    await asyncio.sleep(1.2)
    assert ground.seen == []
    assert (await ground.get(job_id)).status == Status.PENDING


async def test_a_slow_lifespan_is_over_before_anybody_knows_the_worker(live_ground: Ground) -> None:
    """It beats no heart while it opens: a worker that is registered must not be silent."""
    ground = live_ground

    @asynccontextmanager
    async def lifespan(_: App) -> AsyncIterator[None]:
        await asyncio.sleep(0.3)
        ground.seen += ground.sql("SELECT id FROM {worker} WHERE status <> 'dead'")
        yield

    async def work(_: Hand) -> None: ...

    job_id = await ground.put(ground.job(work))
    ground.app._lifespan = lifespan
    async with ground.app.worker(config=BRISK):
        await ground.until_status(job_id, "completed")
    assert ground.seen == []
