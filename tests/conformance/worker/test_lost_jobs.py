"""Handlers that have lost their jobs and go on: whatever they swallow, nothing of it is committed."""

# ruff: noqa: PT012 - what happens at the end of a block depends on what happened in it
from __future__ import annotations

from collections.abc import Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import orm
from sqlalchemy.ext import asyncio as sqlalchemy_asyncio

from holdfast import Cancellation, Retry, Status
from holdfast.errors import AbortedTransaction, JobLocked, LeaseLost, TransactionEnded
from holdfast.testing import Drained, adrain
from tests.conformance.worker.conftest import Ground, Hand, settled

ONE = Retry(max_attempts=1)

#: what is refused to whoever has lost the job
VERBS = ("complete", "continue_with", "step_tx", "once", "progress")


def lose(ground: Ground) -> None:
    ground.sql("UPDATE {job} SET lease_generation = lease_generation + 1, leased_by = 'another'")


async def act(hand: Hand, verb: str, tx: Any) -> Any:
    match verb:
        case "complete":
            return await hand.complete(tx=tx)
        case "continue_with":
            return await hand.continue_with(hand.ground.app.job_types["next"].call(), tx=tx)
        case "step_tx":
            return await hand.step_tx(tx, "late", lambda: 1)
        case "once":
            return await hand.once("key", tx=tx)
        case _:
            return await hand.progress(1, tx=tx)


@pytest.fixture(autouse=True)
def next_job(ground: Ground) -> None:
    async def next(hand: Hand) -> None: ...  # noqa: A001 - the name of the type

    ground.job(next)


async def run_lost(ground: Ground, body: Any) -> None:
    """Run the body after its job was given to somebody else; nothing may come of it."""

    async def work(hand: Hand) -> None:
        if hand.lease_generation > 1:
            return
        lose(ground)
        await body(hand)
        ground.seen.append("ran")

    await ground.put(ground.job(work))
    await adrain(ground.app)
    assert ground.seen[-1:] == ["ran"]
    assert ground.orders() == []
    for table in ("job_step", "processed"):
        assert ground.sql(f"SELECT count(*) FROM {{{table}}}") == [(0,)]
    assert ground.sql("SELECT status, leased_by FROM {job}") == [("running", "another")]


@pytest.mark.parametrize("verb", VERBS)
async def test_a_swallowed_loss_inside_a_transaction_of_the_contexts_own(ground: Ground, verb: str) -> None:
    """Its statements are refused from there on, and the block does not end as if all were well."""

    async def body(hand: Hand) -> None:
        with pytest.raises(LeaseLost):
            async with hand.transaction() as own:
                await own.write(1)
                with pytest.raises(LeaseLost):
                    await act(hand, verb, own.tx)
                with pytest.raises(AbortedTransaction):
                    await own.write(2)
        assert hand.cancelled is Cancellation.LEASE_LOST

    await run_lost(ground, body)


@pytest.mark.parametrize("verb", VERBS)
async def test_a_swallowed_loss_inside_a_savepoint(ground: Ground, verb: str) -> None:
    """The savepoint lets the error through as it is, and does not make the transaction whole again."""

    async def body(hand: Hand) -> None:
        with pytest.raises(LeaseLost):
            async with hand.transaction() as own:
                await own.write(1)
                with pytest.raises(LeaseLost):
                    async with savepoint(own.tx):
                        await own.write(2)
                        await act(hand, verb, own.tx)
                with pytest.raises(AbortedTransaction):
                    await own.write(3)

    await run_lost(ground, body)


@pytest.mark.parametrize("verb", VERBS)
async def test_transactions_after_a_swallowed_loss(ground: Ground, verb: str) -> None:
    """Each is asked for itself whether the job is still the handler's."""

    async def body(hand: Hand) -> None:
        with suppress(LeaseLost):
            async with hand.transaction() as own:
                await act(hand, verb, own.tx)
        for number in (1, 2):
            with pytest.raises(LeaseLost):
                async with hand.transaction() as own:
                    await own.write(number)

    await run_lost(ground, body)


@pytest.mark.parametrize("verb", VERBS)
async def test_writes_after_a_swallowed_loss_on_a_connection(ground: Ground, verb: str) -> None:
    """Neither what came before nor what comes after is committed; after a rollback the connection is as before."""

    async def body(hand: Hand) -> None:
        async with hand.connection() as own:
            await own.write(1)
            with pytest.raises(LeaseLost):
                await act(hand, verb, own.tx)
            with suppress(Exception):
                await own.write(2)
            await own.try_to_commit()
            assert ground.orders() == []
            await own.rollback()
            await own.write(3)
            await own.commit()
        assert ground.orders() == [3]
        ground.sql("DELETE FROM orders")

    await run_lost(ground, body)


class Base(orm.DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("nested", [False, True])
async def test_a_swallowed_loss_in_a_session(ground: Ground, verb: str, nested: bool) -> None:
    """What the session has not flushed yet is part of its transaction as well."""

    async def in_async_session(hand: Hand) -> None:
        engine = sqlalchemy_asyncio.create_async_engine(engine_url(ground))
        with pytest.raises(sqlalchemy.exc.SQLAlchemyError):
            async with sqlalchemy_asyncio.AsyncSession(engine) as session, session.begin():
                await session.execute(sqlalchemy.text("INSERT INTO orders (id) VALUES (1)"))
                session.add(Order(id=2))
                with pytest.raises(LeaseLost):
                    await act(hand, verb, session)
                if nested:
                    async with session.begin_nested():
                        session.add(Order(id=3))
        async with sqlalchemy_asyncio.AsyncSession(engine) as session:
            assert (await session.execute(sqlalchemy.select(Order))).all() == []
        await engine.dispose()

    async def in_session(hand: Hand) -> None:
        engine = sqlalchemy.create_engine(engine_url(ground))
        with pytest.raises(sqlalchemy.exc.SQLAlchemyError), orm.Session(engine) as session, session.begin():
            session.execute(sqlalchemy.text("INSERT INTO orders (id) VALUES (1)"))
            session.add(Order(id=2))
            with pytest.raises(LeaseLost):
                await act(hand, verb, session)
            if nested:
                with session.begin_nested():
                    session.add(Order(id=3))
        with orm.Session(engine) as session:
            assert session.execute(sqlalchemy.select(Order)).all() == []
        engine.dispose()

    await run_lost(ground, in_async_session if ground.kind == "async" else in_session)


async def test_a_transaction_after_the_completion(ground: Ground) -> None:
    """The job is done: what a later transaction writes is not part of it, and is refused."""

    async def work(hand: Hand) -> Any:
        async with hand.transaction() as own:
            await own.write(1)
            await hand.complete("done", tx=own.tx)
        with pytest.raises(LeaseLost) as caught:
            async with hand.transaction() as own:
                await own.write(2)
        assert caught.value.reason == "completed_here"
        assert hand.cancelled is None
        ground.seen.append("ran")

    job_id = await ground.put(ground.job(work))
    assert await adrain(ground.app) == Drained(completed=1)
    assert ground.seen == ["ran"]
    assert (await ground.get(job_id)).output == "done"
    assert ground.orders() == [1]


@pytest.mark.parametrize("is_lost", [False, True])
async def test_a_completion_that_is_undone_by_a_savepoint(ground: Ground, is_lost: bool) -> None:
    """It never was: the transaction commits as long as the job is held, and the handler still has to complete it."""

    async def work(hand: Hand) -> str:
        if hand.lease_generation > 1:
            return "by another"
        with suppress(LeaseLost):
            async with hand.transaction() as own:
                await own.write(1)
                with suppress(ZeroDivisionError):
                    async with savepoint(own.tx):
                        await own.write(2)
                        await hand.complete("undone", tx=own.tx)
                        raise ZeroDivisionError
        if is_lost:
            lose(ground)
            with pytest.raises(LeaseLost):
                async with hand.transaction() as own:
                    await own.write(3)
        return "returned"

    job_id = await ground.put(ground.job(work, retry=ONE))
    await adrain(ground.app)
    assert ground.orders() == [1]
    job = await ground.get(job_id)
    if is_lost:
        assert (job.status, job.leased_by) == (Status.RUNNING, "another")
    else:
        assert job.last_attempt_error is not None
        assert (job.status, job.last_attempt_error.type) == (Status.DEAD_LETTER, "CompletionNotCommitted")


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
@pytest.mark.parametrize("goes_on", [False, True])
async def test_a_transaction_that_is_ended_inside_its_block(ground: Ground, end: str, goes_on: bool) -> None:
    """It cannot be committed as a whole any more, and says so."""

    async def work(hand: Hand) -> None:
        with pytest.raises(TransactionEnded, match="leave its end to the block"):
            async with hand.transaction() as own:
                await own.write(1)
                await settled(own.tx.execute(end))
                if goes_on:
                    if ground.app.store.dialect == "sqlite":
                        await settled(own.tx.execute("PRAGMA busy_timeout = 5000"))
                        await settled(own.tx.execute("BEGIN"))
                    await own.write(2)
        ground.seen.append("ran")

    await ground.put(ground.job(work))
    assert await adrain(ground.app) == Drained(completed=1)
    assert ground.seen == ["ran"]
    assert ground.orders() == ([1] if end == "COMMIT" else [])


async def test_a_savepoint_in_a_transaction_that_is_ended_inside_it(ground: Ground) -> None:
    """The error of the block is the one to be seen."""

    async def work(hand: Hand) -> None:
        with pytest.raises(TransactionEnded):
            async with hand.transaction() as own:
                with pytest.raises(ZeroDivisionError):
                    async with savepoint(own.tx):
                        await own.write(1)
                        await settled(own.tx.execute("ROLLBACK"))
                        raise ZeroDivisionError
                with suppress(AbortedTransaction):
                    await own.write(2)
        ground.seen.append("ran")

    await ground.put(ground.job(work))
    assert await adrain(ground.app) == Drained(completed=1)
    assert ground.seen == ["ran"]
    assert ground.orders() == []


async def test_an_error_that_is_swallowed_inside_a_block(ground: Ground) -> None:
    """Whatever the database makes of the transaction, the block says that it is not committed."""

    async def work(hand: Hand) -> None:
        is_sqlite = ground.app.store.dialect == "sqlite"
        with pytest.raises(TransactionEnded if is_sqlite else AbortedTransaction):
            async with hand.transaction() as own:
                await own.write(1)
                with suppress(Exception):
                    if is_sqlite:
                        await settled(own.tx.execute("INSERT OR ROLLBACK INTO holdfast_job (id) VALUES (NULL)"))
                    else:
                        await settled(own.tx.execute("SELECT 1 / 0"))
        ground.seen.append("ran")

    await ground.put(ground.job(work))
    assert await adrain(ground.app) == Drained(completed=1)
    assert ground.seen == ["ran"]
    assert ground.orders() == []


@pytest.mark.parametrize("place", ["pg18"], indirect=True)
async def test_a_swallowed_lock(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """The completion was refused for a while only, but what was to be committed with it is lost: no success."""
    monkeypatch.setattr("holdfast.worker.waits._PATIENCE_SECONDS", 0.1)

    async def work(hand: Hand) -> None:
        async with hand.connection() as other:
            await hand.step_tx(other.tx, "lock", lambda: 1)
            with pytest.raises(JobLocked):
                async with hand.transaction() as own:
                    await own.write(1)
                    with pytest.raises(JobLocked):
                        await hand.complete(tx=own.tx)

    job_id = await ground.put(ground.job(work, retry=ONE))
    await adrain(ground.app)
    job = await ground.get(job_id)
    assert job.last_attempt_error is not None
    assert job.last_attempt_error.type == "CompletionNotCommitted"
    assert ground.orders() == []


@asynccontextmanager
async def savepoint(tx: Any) -> Any:
    """Of a transaction of either kind."""
    block = tx.savepoint()
    if hasattr(block, "__aenter__"):
        async with block:
            yield
    else:
        with block:
            yield


def engine_url(ground: Ground) -> str:
    drivers: Iterable[str] = ("aiosqlite", "psycopg") if ground.kind == "async" else ("pysqlite", "psycopg")
    for_sqlite, for_postgres = drivers
    scheme, _, rest = ground.url.partition("://")
    return f"{scheme}+{for_sqlite if ground.app.store.dialect == 'sqlite' else for_postgres}://{rest}"
