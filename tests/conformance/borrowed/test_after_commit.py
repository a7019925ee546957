"""What a borrowed SQLAlchemy session says after its commit: once, only then, and without a trace."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import event, orm
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine

from tests.conformance.borrowed.kinds import engine_url
from tests.conformance.borrowed.shop import Shop


@pytest.fixture
def shop(sqlite_shop: Shop) -> Shop:
    return sqlite_shop


@pytest.fixture
def engine(shop: Shop) -> Iterator[sqlalchemy.Engine]:
    engine = sqlalchemy.create_engine(shop.url)
    yield engine
    engine.dispose()


@pytest.fixture
def session(engine: sqlalchemy.Engine) -> Iterator[orm.Session]:
    with orm.Session(engine) as session:
        yield session


@pytest.fixture
def calls() -> list[str]:
    return []


@pytest.fixture
def listen(shop: Shop, calls: list[str]) -> Callable[[Any, str], None]:
    """Enqueue, and ask to be called back."""

    def listen(tx: Any, name: str) -> None:
        shop.enqueue(tx)
        assert shop.face.borrow(tx).on_commit(lambda: calls.append(name)) is True

    return listen


def listeners(session: Any) -> int:
    return len(session.dispatch.after_commit)


Listen = Callable[[Any, str], None]


def test_once_after_the_commit(session: orm.Session, listen: Listen, calls: list[str]) -> None:
    """In the order of the enqueues, and not again with the session's next transaction."""
    listen(session, "first")
    listen(session, "second")
    assert calls == []
    session.commit()
    assert calls == ["first", "second"]
    assert listeners(session) == 0
    session.execute(sqlalchemy.text("SELECT 1"))
    session.commit()
    assert calls == ["first", "second"]


def test_the_job_is_visible_to_whoever_is_called(session: orm.Session, shop: Shop) -> None:
    """After the commit, not shortly before it."""
    seen: list[bool] = []
    job = shop.enqueue(session)
    shop.face.borrow(session).on_commit(lambda: seen.append(shop.has(job)))
    session.commit()
    assert seen == [True]


@pytest.mark.parametrize("ending", ["rollback", "close", "reset", "invalidate"])
def test_never_without_a_commit(session: orm.Session, listen: Listen, calls: list[str], ending: str) -> None:
    """And the session's next commit is not mistaken for this one's."""
    listen(session, "lost")
    getattr(session, ending)()
    assert listeners(session) == 0
    listen(session, "kept")
    session.commit()
    assert calls == ["kept"]
    assert listeners(session) == 0


def test_never_for_a_savepoint(session: orm.Session, listen: Listen, calls: list[str]) -> None:
    """A release says nothing yet; the outermost commit says all."""
    with session.begin_nested():
        listen(session, "inner")
        with session.begin_nested():
            listen(session, "innermost")
        assert calls == []
    assert calls == []
    session.commit()
    assert sorted(calls) == ["inner", "innermost"]
    assert listeners(session) == 0


def test_a_savepoint_rolled_back_takes_its_callbacks(session: orm.Session, listen: Listen, calls: list[str]) -> None:
    """Also those of the savepoints released inside it."""
    listen(session, "before")
    savepoint = session.begin_nested()
    listen(session, "lost")
    with session.begin_nested():
        listen(session, "lost too")
    savepoint.rollback()
    listen(session, "after")
    session.commit()
    assert calls == ["before", "after"]
    del savepoint
    assert listeners(session) == 0


def test_transactions_that_the_user_holds_on_to(session: orm.Session, listen: Listen, calls: list[str]) -> None:
    """One listener at most, whatever is kept, and none after that."""
    kept: list[Any] = []
    for number in range(3):
        listen(session, f"{number}")
        kept.append(session.get_transaction())
        session.commit()
        assert listeners(session) <= 1
    assert calls == ["0", "1", "2"]
    kept.clear()
    assert listeners(session) == 0


def test_letting_go_of_an_old_transaction_while_a_commit_is_announced(
    session: orm.Session, listen: Listen, calls: list[str]
) -> None:
    """SQLAlchemy walks its listeners at that moment, so ours stays until the next time."""
    listen(session, "first")
    kept = [session.get_transaction()]
    session.commit()
    event.listen(session, "after_commit", lambda _: kept.clear())
    session.execute(sqlalchemy.text("SELECT 1"))
    session.commit()
    assert kept == []
    listen(session, "second")
    session.commit()
    assert calls == ["first", "second"]
    assert listeners(session) == 1


def test_a_commit_with_open_savepoints(session: orm.Session, listen: Listen, calls: list[str]) -> None:
    """Session.commit() releases them on its way."""
    session.begin_nested()
    session.begin_nested()
    listen(session, "inner")
    session.commit()
    assert calls == ["inner"]
    assert listeners(session) == 0


def test_a_transaction_block(engine: sqlalchemy.Engine, listen: Listen, calls: list[str]) -> None:
    """With the user holding on to the transaction object."""
    with orm.Session(engine) as session:
        with session.begin() as transaction:
            listen(session, "block")
        assert calls == ["block"]
        with session.begin():
            session.execute(sqlalchemy.text("SELECT 1"))
        assert calls == ["block"]
        del transaction
        assert listeners(session) == 0


def test_a_failed_commit_says_nothing(session: orm.Session, listen: Listen, calls: list[str]) -> None:
    """A deferred constraint fails at the commit itself."""
    session.execute(sqlalchemy.text("PRAGMA foreign_keys = ON"))
    session.commit()
    session.execute(
        sqlalchemy.text("CREATE TABLE line (note text REFERENCES note (body) DEFERRABLE INITIALLY DEFERRED)")
    )
    session.execute(sqlalchemy.text("INSERT INTO line VALUES ('nothing')"))
    listen(session, "lost")
    with pytest.raises(sqlalchemy.exc.IntegrityError):
        session.commit()
    session.rollback()
    gc.collect()
    assert calls == []
    assert listeners(session) == 0


def test_an_error_in_the_callback_does_not_break_the_commit(
    session: orm.Session, shop: Shop, listen: Listen, calls: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged, and the others are called."""
    job = shop.enqueue(session)

    def fail() -> None:
        raise ValueError("no route to the workers")

    shop.face.borrow(session).on_commit(fail)
    listen(session, "next")
    with caplog.at_level(logging.ERROR, "holdfast.stores.borrowed"):
        session.commit()
    assert shop.has(job)
    assert calls == ["next"]
    assert "no route to the workers" in caplog.text


def test_the_users_own_listeners_stay(session: orm.Session, listen: Listen, calls: list[str]) -> None:
    """Before and after ours in the list."""

    def first(_: Any) -> None:
        calls.append("user's first")

    def last(_: Any) -> None:
        calls.append("user's last")

    event.listen(session, "after_commit", first)
    listen(session, "ours")
    event.listen(session, "after_commit", last)
    session.commit()
    assert calls == ["user's first", "ours", "user's last"]
    session.execute(sqlalchemy.text("SELECT 1"))
    session.commit()
    assert calls[3:] == ["user's first", "user's last"]


def test_scoped_sessions(engine: sqlalchemy.Engine, listen: Listen, calls: list[str]) -> None:
    """The session of the scope is the one that listens."""
    scoped = orm.scoped_session(orm.sessionmaker(engine))
    listen(scoped, "kept")
    scoped.commit()
    listen(scoped, "lost")
    scoped.remove()
    assert calls == ["kept"]


def test_a_forgotten_session_is_not_kept_alive(engine: sqlalchemy.Engine, listen: Listen, calls: list[str]) -> None:
    """Nothing of ours holds on to it."""
    session = orm.Session(engine)
    listen(session, "lost")
    session.close()
    seen: list[str] = []
    weakref.finalize(session, seen.append, "gone")
    del session
    gc.collect()
    assert seen == ["gone"]
    assert calls == []


def test_a_guest_in_a_transaction_has_no_hook(engine: sqlalchemy.Engine, shop: Shop) -> None:
    """Its commit is not the commit, so the hint must travel inside the transaction."""
    with engine.connect() as connection, connection.begin(), orm.Session(connection) as session:
        shop.enqueue(session)
        assert shop.face.borrow(session).on_commit(lambda: None) is False


def test_a_connection_has_no_hook(engine: sqlalchemy.Engine, shop: Shop) -> None:
    """SQLAlchemy announces a connection's commit before it happens."""
    with engine.connect() as connection:
        assert shop.face.borrow(connection).on_commit(lambda: None) is False


@pytest.fixture
async def async_session(shop: Shop) -> AsyncIterator[AsyncSession]:
    engine = create_async_engine(engine_url(shop, "aiosqlite"))
    async with AsyncSession(engine) as session:
        yield session
    await engine.dispose()


async def test_async_sessions(shop: Shop, async_session: AsyncSession, calls: list[str]) -> None:
    """Commit, savepoint and rollback as in the sync case."""
    face = shop.store.asynchronous()

    async def listen(name: str) -> None:
        await shop.aenqueue(async_session)
        assert (await face.borrow(async_session)).on_commit(lambda: calls.append(name)) is True

    await listen("first")
    savepoint = await async_session.begin_nested()
    await listen("lost")
    await savepoint.rollback()
    async with async_session.begin_nested():
        await listen("released")
        assert calls == []
    await async_session.commit()
    assert sorted(calls) == ["first", "released"]
    await listen("rolled back")
    await async_session.rollback()
    await async_session.execute(sqlalchemy.text("SELECT 1"))
    await async_session.commit()
    assert sorted(calls) == ["first", "released"]
    del savepoint
    assert listeners(async_session.sync_session) == 0
    await face.close()


async def test_async_scoped_sessions(shop: Shop, async_session: AsyncSession, calls: list[str]) -> None:
    """The session of the running task is the one that listens."""
    face = shop.store.asynchronous()
    scoped = async_scoped_session(async_sessionmaker(async_session.bind), asyncio.current_task)
    await shop.aenqueue(scoped)
    assert (await face.borrow(scoped)).on_commit(lambda: calls.append("kept")) is True
    await scoped.commit()
    assert calls == ["kept"]
    await scoped.remove()
    await face.close()
