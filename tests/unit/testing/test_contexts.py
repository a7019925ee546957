"""Contexts for handlers under test."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import pytest

from holdfast import App, Blocker, Cancellation, Context, JobError, SyncContext
from holdfast.errors import ChildFailed, DuplicateStep, SignalTimeout
from holdfast.testing import LoggedLine, context, sync_context


async def test_handlers_can_be_called() -> None:
    """The example of the design: a handler runs without a database."""
    app = App("sqlite:////nowhere/at/all.db")

    @app.job()
    async def send(ctx: Context, order_id: int) -> str:
        return f"{order_id}, attempt {ctx.attempt} of {ctx.job.type_name}"

    @app.job()
    def count(ctx: SyncContext, n: int) -> int:
        return n + ctx.lease_generation

    assert await send.fn(context(type_name="send"), order_id=7) == "7, attempt 1 of send"
    assert count.fn(sync_context(attempt=3), n=1) == 4


def test_sensible_values() -> None:
    """Without being told anything, a first attempt at a fresh job."""
    ctx = context()
    assert isinstance(ctx, Context)
    assert (ctx.attempt, ctx.lease_generation, ctx.cancelled) == (1, 1, None)
    job = ctx.job
    assert (job.chain_id, job.chain_index, job.status, job.queue, job.input) == (job.id, 0, "running", "default", {})
    assert job.created_at.utcoffset() is not None
    assert context().job.id != job.id


def test_told_values() -> None:
    """Everything that a handler may look at can be set."""
    when = datetime(2026, 3, 4, tzinfo=UTC)
    error = JobError("ValueError", "before")
    ctx = sync_context(
        attempt=4, lease_generation=9, type_name="t", queue="q", priority=2, input={"a": 1}, tenant="acme",
        headers={"h": "v"}, max_attempts=5, timeout_ms=100, crash_count=1, last_attempt_error=error, created_at=when,
        job_id="0198C5A0-5B1E-7C3A-9D1B-3F2A6C0E4D11",
    )  # fmt: skip
    assert isinstance(ctx, SyncContext)
    job = ctx.job
    assert (ctx.attempt, ctx.lease_generation) == (job.attempt, job.lease_generation) == (4, 9)
    assert (job.type_name, job.queue, job.priority, job.input, job.tenant) == ("t", "q", 2, {"a": 1}, "acme")
    assert (job.headers, job.max_attempts, job.timeout_ms, job.crash_count) == ({"h": "v"}, 5, 100, 1)
    assert (job.last_attempt_error, job.created_at) == (error, when)
    assert job.id == "0198c5a0-5b1e-7c3a-9d1b-3f2a6c0e4d11"


def test_cancelled_can_be_set() -> None:
    """From the start, or while the handler runs."""
    assert context(cancelled=Cancellation.STOPPING).cancelled is Cancellation.STOPPING
    for ctx in (context(), sync_context()):
        ctx.cancelled = Cancellation.LEASE_LOST
        assert ctx.cancelled is Cancellation.LEASE_LOST


def test_client_must_be_given() -> None:
    """Using a client that nobody gave says how to give one."""
    with pytest.raises(AttributeError, match=r"context\(client=…\)"):
        context().client.enqueue()
    with pytest.raises(AttributeError, match=r"sync_context\(client=…\)"):
        sync_context().client.enqueue()


def test_named_from_the_front_door() -> None:
    """`holdfast.testing` is what the documentation imports."""
    import holdfast.testing

    assert holdfast.testing.context is context


async def test_what_a_handler_leaves_behind() -> None:
    """Steps, progress, logs and keys are noted; results come back as in production."""
    ctx = context(steps={"early": (1, 2)}, processed=["seen"], blockers=[Blocker(chain_id="c", output=3)])

    def never() -> Any:
        raise AssertionError("it was saved")

    assert await ctx.step("early", never) == [1, 2]

    async def late() -> tuple[int, ...]:
        return (3,)

    assert await ctx.step("late", late) == (3,)
    with pytest.raises(DuplicateStep):
        await ctx.step("late", late)
    assert await ctx.step_tx(cast("Any", object()), "tied", lambda: {"a": 1}) == {"a": 1}
    await ctx.progress(0.5)
    ctx.log("hello", level="warning", n=1)
    tx: Any = object()
    assert [await ctx.once(key, tx=tx) for key in ("seen", "new", "new")] == [False, True, False]
    assert ctx.blockers[0].output == 3
    assert ctx.notes.steps == {"early": (1, 2), "late": [3], "tied": {"a": 1}}
    assert ctx.notes.progress == [0.5]
    assert ctx.notes.logged == [LoggedLine("warning", "hello", {"n": 1})]
    assert ctx.notes.processed == {"seen", "new"}


def test_the_same_in_threads() -> None:
    """And how it ended."""
    app = App("sqlite:////nowhere/at/all.db")

    @app.job()
    def second(n: int) -> str:
        return str(n)

    @app.job()
    def first(ctx: SyncContext, n: int) -> str:
        value = ctx.step("one", lambda: n)
        if n > 5:
            ctx.complete("done", tx=cast("Any", None))
            return ""
        return ctx.continue_with(second.call(value))

    ctx = sync_context()
    first.fn(ctx, n=1)
    assert ctx.notes.continued_with is not None
    assert ctx.notes.continued_with.payload == b'{"n":1}'
    ctx = sync_context()
    first.fn(ctx, n=6)
    assert (ctx.notes.completed_with, ctx.notes.steps) == ("done", {"one": 6})
    with pytest.raises(RuntimeError, match="drain"):
        ctx.transaction()


async def test_waits_of_a_handler() -> None:
    """A test says what comes of them; what the handler asked for is noted."""
    app = App("sqlite:////nowhere/at/all.db")

    @app.job()
    def half(n: int) -> int:
        return n

    async def handler(ctx: Context) -> list[Any]:
        await ctx.sleep("nap", 60)
        heard = await ctx.wait_signal("go", payload=int)
        silence = await ctx.wait_signal("stop", 5, default=None)
        left = await ctx.enqueue("left", half.call(1))
        rest = await ctx.enqueue_many("rest", [half.call(2), half.call(3)])
        return [heard, silence, await ctx.gather(left), *await ctx.gather(rest)]

    ctx = context(signals={"go": 7}, children={"left": 10, "rest": [20, 30]})
    assert await handler(ctx) == [7, None, (10,), 20, 30]
    assert ctx.notes.slept == {"nap": 60}
    assert [call.payload for call in ctx.notes.enqueued["rest"]] == [b'{"n":2}', b'{"n":3}']
    with pytest.raises(SignalTimeout):
        await context().wait_signal("go", 5)
    failed = ChildFailed("left", "c", "dead_letter", None, None)
    for on_failure in ("raise", "return"):
        ctx = context(children={"left": failed})
        left = await ctx.enqueue("left", half.call(1))
        if on_failure == "raise":
            with pytest.raises(ChildFailed):
                await ctx.gather(left)
        else:
            assert await ctx.gather(left, on_failure="return") == (failed,)


def test_waits_in_threads() -> None:
    """The same."""
    app = App("sqlite:////nowhere/at/all.db")

    @app.job()
    def half(n: int) -> int:
        return n

    ctx = sync_context(signals={"go": [1]}, children={"left": 10})
    until = datetime(2030, 1, 1, tzinfo=UTC)
    ctx.sleep("nap", until=until)
    assert ctx.wait_signal("go") == [1]
    assert ctx.gather(ctx.enqueue("left", half.call(1))) == (10,)
    assert ctx.gather(ctx.enqueue_many("none", [])) == ()
    assert ctx.notes.slept == {"nap": until}
    with pytest.raises(DuplicateStep):
        ctx.sleep("nap", 1)
    with pytest.raises(KeyError, match="'right'"):
        ctx.gather(ctx.enqueue("right", half.call(1)))
