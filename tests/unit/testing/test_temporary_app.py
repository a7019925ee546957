"""Apps on throw-away databases, draining, and assertions about what was enqueued."""

from __future__ import annotations

import asyncio
import dataclasses
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast import App, Context, Retry
from holdfast.model.job_type import JobType
from holdfast.model.status import Status
from holdfast.testing import Drained, FakeClock, adrain, assert_enqueued, drain, temporary_app


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def app(clock: FakeClock) -> Iterator[App]:
    with temporary_app(clock=clock) as app:
        yield app


def _directory(app: App) -> Path:
    return Path(app.store.url.removeprefix("sqlite:///")).parent


def test_removed_afterwards() -> None:
    """File, write-ahead log and directory are gone, also after an error."""
    used: list[Path] = []

    def use() -> None:
        with temporary_app() as app:

            @app.job()
            def work() -> None: ...

            work.enqueue()
            drain(app)
            used.append(_directory(app))
            assert used[0].exists()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        use()
    assert not used[0].exists()


def test_private() -> None:
    """Two of them share nothing."""
    with temporary_app() as one, temporary_app() as other, one.client() as first, other.client() as second:

        @one.job()
        def work() -> None: ...

        first.enqueue(work.call())
        assert len(first.list_jobs().items) == 1
        assert second.list_jobs().items == []


def test_no_threads_are_left() -> None:
    """What it started ends with it."""
    before = set(threading.enumerate())
    with temporary_app() as app, app.client() as client:

        @app.job()
        def work() -> None: ...

        work.enqueue()
        client.enqueue(work.call())
        drain(app)
    left = {thread for thread in threading.enumerate() if thread not in before and "asyncio" not in thread.name}
    for thread in left:
        thread.join(timeout=5)
    assert not {thread.name for thread in left if thread.is_alive()}


def test_job_types_of_another_app(tmp_path: Path) -> None:
    """`like=` takes over name, queue and policy; the other app's database is not touched."""
    production = App(f"sqlite:///{tmp_path / 'production.db'}", name="shop")

    @production.job(name="mail.send", queue="mail", priority=3, retry=Retry(max_attempts=2), timeout=9)
    def send(n: int) -> int:
        return n

    with temporary_app(production) as app, app.client() as client:
        assert app.name == "shop"
        kind = app.job_types["mail.send"].job_type
        assert (kind.queue, kind.priority, kind.retry.max_attempts) == ("mail", 3, 2)
        chain = client.enqueue(send.call(n=4))
        assert drain(app) == Drained(completed=1)
        assert client.get_job(chain.id).output == 4
    assert list(tmp_path.iterdir()) == []


def test_drain_counts(app: App, clock: FakeClock) -> None:
    """Completed, failed with a retry to come, and dead; what is not due is left."""

    @app.job(retry=Retry(max_attempts=2, jitter=0))
    async def work(outcome: str) -> str:
        if outcome == "fail":
            raise ValueError(outcome)
        return outcome

    with app.client() as client:
        client.enqueue_many([work.call("ok"), work.call("ok"), work.call("fail")])
        client.enqueue(work.call("later"), delay=60)
        assert drain(app) == Drained(completed=2, retried=1)
        assert drain(app) == Drained()
        clock.advance(1)
        counts = drain(app)
        assert (counts, counts.failed) == (Drained(dead=1), 1)
        clock.advance(59)
        assert drain(app) == Drained(completed=1)
        assert {job.status for job in client.list_jobs().items} == {Status.COMPLETED, Status.DEAD_LETTER}


def test_drain_runs_what_jobs_enqueue(app: App) -> None:
    """Jobs that start others, from threads and from the loop, until nothing is due."""

    @app.job()
    def countdown(n: int) -> None:
        if n:
            countdown.enqueue(n=n - 1)

    @app.job()
    async def fan_out(ctx: Context, n: int) -> None:
        await ctx.client.enqueue_many([countdown.call(n=1) for _ in range(n)])

    countdown.enqueue(n=3)
    fan_out.enqueue(n=5)
    assert drain(app) == Drained(completed=4 + 1 + 10)


def test_drain_takes_more_than_it_has_slots(app: App) -> None:
    """Hundreds of jobs through one slot."""

    @app.job()
    async def work() -> None: ...

    with app.client() as client:
        client.enqueue_many([work.call() for _ in range(300)])
    assert drain(app, concurrency=1) == Drained(completed=300)


def test_drain_counts_what_the_database_took(app: App) -> None:
    """A job that was deleted while it ran completes nothing."""

    @app.job()
    def vanish() -> None:
        with closing(sqlite3.connect(app.store.url.removeprefix("sqlite:///"))) as connection:
            connection.execute("DELETE FROM holdfast_job")
            connection.commit()

    vanish.enqueue()
    assert drain(app) == Drained()


def test_drain_without_jobs(app: App) -> None:
    """Nothing to do, on a database that nobody has used yet."""
    assert drain(app) == Drained()


def test_drain_serves_the_queues_of_the_job_types(app: App) -> None:
    """As a worker would; others on request."""

    @app.job()
    async def work() -> None: ...

    work.using(queue="elsewhere").enqueue()
    assert drain(app) == Drained()
    assert drain(app, queues=["elsewhere"]) == Drained(completed=1)


async def test_adrain(app: App) -> None:
    """The same inside an event loop, where the sync one says what to use."""

    @app.job()
    async def work(n: int) -> int:
        return n

    async with app.async_client() as client:
        await client.enqueue(work.call(n=1))
        with pytest.raises(RuntimeError, match=r"await app\.adrain"):
            drain(app)
        assert await adrain(app) == Drained(completed=1)


async def test_drain_gives_up(app: App) -> None:
    """A handler that does not end is reported, and stopped."""
    stopped = asyncio.Event()

    @app.job()
    async def stuck() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with app.async_client() as client:
        chain = await client.enqueue(stuck.call())
        with pytest.raises(TimeoutError, match=r"within 0\.3 s.*default.*does not end"):
            await adrain(app, timeout=0.3)
        assert stopped.is_set()
        assert (await client.get_job(chain.id)).status is Status.PENDING


def test_assert_enqueued(app: App) -> None:
    """Some or all arguments, defaults included; the newest match is returned."""

    @app.job()
    def send(order_id: int, when: datetime | None = None, copies: int = 1) -> None: ...

    moment = datetime(2026, 1, 1)  # noqa: DTZ001 - a payload may be naive
    send.enqueue(order_id=1)
    last = send.enqueue(order_id=1, when=moment)
    assert assert_enqueued(app, send).id == last.id
    assert assert_enqueued(app, send, order_id=1, when=moment).id == last.id
    assert assert_enqueued(app, send, copies=1, when=None).input == {"order_id": 1}
    with app.client() as client:
        assert assert_enqueued(client, send, order_id=1).id == last.id


def test_assert_enqueued_says_what_there_is(app: App) -> None:
    """The message shows the jobs of the type, or the types that there are."""

    @app.job()
    def send(order_id: int) -> None: ...

    @app.job()
    def other() -> None: ...

    with pytest.raises(AssertionError, match="send was not enqueued; enqueued were: no jobs at all"):
        assert_enqueued(app, send)
    other.enqueue()
    other.enqueue()
    with pytest.raises(AssertionError, match="enqueued were: other × 2"):
        assert_enqueued(app, send, order_id=1)
    for order_id in range(12):
        send.enqueue(order_id=order_id)
    with pytest.raises(AssertionError) as caught:
        assert_enqueued(app, send, order_id=99)
    message = str(caught.value)
    assert message.startswith("send was not enqueued with order_id=99; its jobs, newest first:")
    assert "pending: order_id=11" in message
    assert message.endswith("and 2 more")


def test_assert_enqueued_knows_the_arguments(app: App) -> None:
    """A misspelt argument is an error of the test, not a missing job."""

    @app.job()
    def send(order_id: int) -> None: ...

    arguments: dict[str, Any] = {"ordr_id": 1}
    with pytest.raises(TypeError, match="no argument 'ordr_id'; it takes: order_id"):
        assert_enqueued(app, send, **arguments)


def test_assert_enqueued_looks_beyond_the_first_page(app: App) -> None:
    """However many came later."""

    @app.job()
    def send(n: int) -> None: ...

    with app.client() as client:
        client.enqueue_many([send.call(n=n) for n in range(450)])
    assert assert_enqueued(app, send, n=0).input == {"n": 0}


def test_retries_run_in_fake_time(app: App, clock: FakeClock) -> None:
    """A day of retries takes no time at all."""
    seen = []

    @app.job(retry=Retry(max_attempts=6, initial=3600, factor=2, maximum=timedelta(days=2), jitter=0))
    async def flaky(ctx: Context) -> None:
        seen.append((ctx.attempt, clock()))
        if ctx.attempt < 6:
            raise ValueError("again")

    start = clock()
    flaky.enqueue()
    total = Drained()
    for _ in range(40):
        counts = drain(app)
        total = Drained(completed=total.completed + counts.completed, retried=total.retried + counts.retried)
        clock.advance(3600)
    assert total == Drained(completed=1, retried=5)
    assert [(attempt, (moment - start) // timedelta(hours=1)) for attempt, moment in seen] == [
        (1, 0), (2, 1), (3, 3), (4, 7), (5, 15), (6, 31),
    ]  # fmt: skip


def test_drain_expires(app: App, clock: FakeClock) -> None:
    """What nobody started in time is cancelled, and who waited for it learns of it in the same drain."""

    @app.job(expires=60)
    def work() -> None: ...

    @app.job()
    def after() -> None: ...

    with app.client() as client:
        late = client.enqueue(work.call(), delay=120)
        behind = client.enqueue(after.call(), blockers=[late], on_blocker_failure="run")
        assert drain(app) == Drained()
        clock.advance(61)
        assert drain(app) == Drained(completed=1, expired=1)
        assert client.get_job(late.id).status is Status.CANCELLED
        assert client.get_job(behind.id).status is Status.COMPLETED


def test_like_has_every_option(tmp_path: Path) -> None:
    """Queue, priority, retry, timeout, expiry, key and other names of a job type are those of the original."""
    original = App(f"sqlite:///{tmp_path / 'never-opened.db'}")

    @original.job(
        name="deliver",
        aliases=["send"],
        queue="mail",
        priority=3,
        retry=Retry(max_attempts=2),
        timeout=7,
        expires=60,
        dedup=lambda order: f"order:{order}",
    )
    def deliver(order: int) -> None: ...

    clock = FakeClock()
    with temporary_app(original, clock=clock) as app, app.client() as client:
        for call in (deliver.call(1), app.call("send", 1), app.job_types["deliver"].call(1)):
            chain = client.enqueue(call)
            job = client.get_job(chain.id)
            assert (job.type_name, job.queue, job.priority, job.timeout_ms) == ("deliver", "mail", 3, 7_000)
            assert (job.deduplication_key, job.expires_at) == ("order:1", clock.now + timedelta(seconds=60))
        assert len(list(client.list_jobs().items)) == 1
        for field in dataclasses.fields(JobType):
            copied = getattr(app.job_types["deliver"].job_type, field.name)
            assert copied == getattr(original.job_types["deliver"].job_type, field.name)
        clock.advance(61)
        assert drain(app) == Drained(expired=1)
