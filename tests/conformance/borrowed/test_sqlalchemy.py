"""SQLAlchemy connections and sessions as users really set them up."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pysqlite3  # type: ignore[import-untyped]  # it ships no types
import pytest
import sqlalchemy
from sqlalchemy import event, orm
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.pool import StaticPool

from holdfast.errors import AbortedTransaction, DatabaseBusy, NoTransaction, WrongConnection
from tests.conformance.borrowed.kinds import engine_url
from tests.conformance.borrowed.shop import Shop


class Base(orm.DeclarativeBase):
    pass


class Note(Base):
    __tablename__ = "note"
    body: orm.Mapped[str] = orm.mapped_column(primary_key=True)


class OwnSession(orm.Session):
    """A user's subclass."""


class OwnAsyncSession(AsyncSession):
    """A user's subclass."""


@contextlib.contextmanager
def engine_of(shop: Shop, **options: Any) -> Iterator[sqlalchemy.Engine]:
    driver = "psycopg" if shop.dialect == "postgres" else "pysqlite"
    engine = sqlalchemy.create_engine(engine_url(shop, driver), **options)
    yield engine
    engine.dispose()


@contextlib.asynccontextmanager
async def async_engine_of(shop: Shop, driver: str, **options: Any) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(engine_url(shop, driver), **options)
    yield engine
    await engine.dispose()


class SqlalchemyCases:
    """What holds on both databases; a subclass says which."""

    def test_autocommit_is_refused(self, shop: Shop) -> None:
        """Set on the engine, or on the connection; the connection is left as it was."""
        with engine_of(shop, isolation_level="AUTOCOMMIT") as engine:
            with engine.connect() as connection:
                with pytest.raises(NoTransaction, match="AUTOCOMMIT"):
                    shop.enqueue(connection)
                assert not connection.in_transaction()
            with orm.Session(engine) as session, pytest.raises(NoTransaction, match="AUTOCOMMIT"):
                shop.enqueue(session)
        with engine_of(shop) as engine:
            with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                with pytest.raises(NoTransaction, match="AUTOCOMMIT"):
                    shop.enqueue(connection)
                assert not connection.in_transaction()
            with engine.begin() as connection:
                job = shop.enqueue(connection)
            assert shop.has(job)

    def test_nested_transactions_of_a_connection(self, shop: Shop) -> None:
        """SQLAlchemy's own savepoints."""
        with engine_of(shop) as engine, engine.begin() as connection:
            outer = shop.enqueue(connection)
            nested = connection.begin_nested()
            inner = shop.enqueue(connection)
            nested.rollback()
            with connection.begin_nested():
                released = shop.enqueue(connection)
        assert [shop.has(job) for job in (outer, inner, released)] == [True, False, True]

    def test_nested_transactions_of_a_session(self, shop: Shop) -> None:
        """The same through the ORM, with a flush between."""
        with engine_of(shop) as engine, OwnSession(engine) as session, session.begin():
            session.add(Note(body="outer"))
            outer = shop.enqueue(session)
            nested = session.begin_nested()
            session.add(Note(body="inner"))
            inner = shop.enqueue(session)
            session.flush()
            nested.rollback()
            with session.begin_nested():
                released = shop.enqueue(session)
        assert [shop.has(job) for job in (outer, inner, released)] == [True, False, True]
        assert shop.notes() == ["outer"]

    def test_a_failed_flush_is_an_aborted_transaction(self, shop: Shop) -> None:
        """SQLAlchemy has rolled back already and wants to be told that the user knows."""
        with engine_of(shop) as engine, orm.Session(engine) as session:
            session.add(Note(body="mine"))
            session.flush()
            with session.begin_nested():
                session.execute(sqlalchemy.insert(Note).values(body="other"))
                session.expunge_all()
                session.add(Note(body="mine"))
                with pytest.raises(sqlalchemy.exc.IntegrityError):
                    session.flush()
                with pytest.raises(AbortedTransaction):
                    shop.enqueue(session)
                session.rollback()
            session.rollback()
            job = shop.enqueue(session)
            session.commit()
        assert shop.has(job)

    def test_a_transaction_block_ended_by_hand_is_sqlalchemys_error(self, shop: Shop) -> None:
        """Inside `with connection.begin()`, once rolled back, SQLAlchemy takes no more statements."""
        with engine_of(shop) as engine, engine.connect() as connection:
            with connection.begin() as transaction:
                shop.enqueue(connection)
                transaction.rollback()
                with pytest.raises(sqlalchemy.exc.InvalidRequestError):
                    shop.enqueue(connection)
            job = shop.enqueue(connection)
            connection.commit()
        assert shop.has(job)

    def test_streaming_connections(self, shop: Shop) -> None:
        """A connection that streams its results would give us a server-side cursor, which cannot insert."""
        with engine_of(shop) as engine:
            with engine.connect().execution_options(stream_results=True, yield_per=2) as connection:
                job = shop.enqueue(connection)
                connection.commit()
            assert shop.has(job)
            with engine.execution_options(yield_per=2).connect() as connection:
                job = shop.enqueue(connection)
                connection.commit()
            assert shop.has(job)

    def test_a_half_read_result_survives(self, shop: Shop) -> None:
        """The user's result goes on where it was."""
        with engine_of(shop) as engine, engine.connect() as connection:
            result = connection.execution_options(stream_results=True).exec_driver_sql("VALUES (1), (2), (3)")
            assert result.fetchone() == (1,)
            shop.enqueue(connection)
            assert result.fetchall() == [(2,), (3,)]
            connection.commit()

    def test_autobegin_off(self, shop: Shop) -> None:
        """Such a session must be told to begin."""
        with engine_of(shop) as engine, orm.Session(engine, autobegin=False) as session:
            with pytest.raises(NoTransaction, match=r"`with session\.begin\(\):`"):
                shop.enqueue(session)
            with session.begin():
                job = shop.enqueue(session)
        assert shop.has(job)

    def test_a_session_without_an_engine(self, shop: Shop) -> None:
        """The error says what to pass instead, and that works."""
        with engine_of(shop) as engine, orm.Session(binds={Note: engine}) as session:
            with pytest.raises(WrongConnection, match=r"session\.connection\(bind_arguments="):
                shop.enqueue(session)
            job = shop.enqueue(session.connection(bind_arguments={"mapper": Note}))
            session.commit()
        assert shop.has(job)

    def test_a_closed_connection_is_refused(self, shop: Shop) -> None:
        """A session may be used again after close, a connection may not."""
        with engine_of(shop) as engine:
            connection = engine.connect()
            connection.close()
            with pytest.raises(WrongConnection, match="closed"):
                shop.enqueue(connection)
            session = orm.Session(engine)
            session.close()
            job = shop.enqueue(session)
            session.commit()
            session.close()
        assert shop.has(job)

    def test_an_invalidated_connection_is_an_aborted_transaction(self, shop: Shop) -> None:
        """The transaction went with the connection; after the rollback a new one is opened."""
        with engine_of(shop) as engine, engine.connect() as connection:
            connection.exec_driver_sql("SELECT 1")
            connection.invalidate()
            with pytest.raises(AbortedTransaction):
                shop.enqueue(connection)
            connection.rollback()
            job = shop.enqueue(connection)
            connection.commit()
        assert shop.has(job)

    def test_the_users_listeners_see_our_statement(self, shop: Shop) -> None:
        """Logging and tracing of the user's engine go on."""
        seen: list[str] = []
        with engine_of(shop) as engine:
            event.listen(engine, "before_cursor_execute", lambda *args: seen.append(args[2]))
            with engine.begin() as connection:
                shop.enqueue(connection)
        assert any("INSERT INTO" in text for text in seen)


class TestPostgres(SqlalchemyCases):
    """On psycopg, and what only PostgreSQL has."""

    @pytest.fixture
    def shop(self, postgres_shop: Shop) -> Shop:
        return postgres_shop

    def test_a_session_inside_a_transaction_of_its_connection(self, shop: Shop) -> None:
        """As test suites do it: the outer transaction decides."""
        with engine_of(shop) as engine, engine.connect() as connection, connection.begin() as outer:
            with orm.Session(connection, join_transaction_mode="create_savepoint") as session:
                job = shop.enqueue(session)
                session.commit()
            assert not shop.has(job)
            outer.rollback()
        assert not shop.has(job)

    @pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
    async def test_async_autocommit_is_refused(self, shop: Shop, driver: str) -> None:
        """Set on the engine, or on the connection."""
        autocommit = async_engine_of(shop, driver, isolation_level="AUTOCOMMIT")
        async with autocommit as engine, engine.connect() as connection:
            with pytest.raises(NoTransaction, match="AUTOCOMMIT"):
                await shop.aenqueue(connection)
            assert not connection.in_transaction()
        async with async_engine_of(shop, driver) as engine:
            async with engine.connect() as connection:
                await connection.execution_options(isolation_level="AUTOCOMMIT")
                with pytest.raises(NoTransaction, match="AUTOCOMMIT"):
                    await shop.aenqueue(connection)
            async with engine.begin() as connection:
                job = await shop.aenqueue(connection)
        assert shop.has(job)

    @pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
    async def test_the_sync_client_inside_run_sync(self, shop: Shop, driver: str) -> None:
        """SQLAlchemy hands out its sync session there."""
        async with async_engine_of(shop, driver) as engine, OwnAsyncSession(engine) as session:
            job = await session.run_sync(shop.enqueue)
            await session.commit()
        assert shop.has(job)

    @pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
    async def test_async_streaming_connections(self, shop: Shop, driver: str) -> None:
        """As in the sync case."""
        async with async_engine_of(shop, driver, execution_options={"yield_per": 2}) as engine, engine.begin() as tx:
            job = await shop.aenqueue(tx)
        assert shop.has(job)

    async def test_the_first_error_is_not_hidden(self, shop: Shop) -> None:
        """An aborted transaction on asyncpg is seen by the server's refusal, which is the cause of ours."""
        async with async_engine_of(shop, "asyncpg") as engine, AsyncSession(engine) as session:
            with pytest.raises(sqlalchemy.exc.DBAPIError, match="division by zero"):
                await session.execute(sqlalchemy.text("SELECT 1 / 0"))
            with pytest.raises(AbortedTransaction) as caught:
                await shop.aenqueue(session)
            assert isinstance(caught.value.__cause__, sqlalchemy.exc.DBAPIError)

    async def test_an_async_connection_that_is_not_open(self, shop: Shop) -> None:
        """Forgotten `await`, or too late."""
        async with async_engine_of(shop, "asyncpg") as engine:
            connection: AsyncConnection = engine.connect()
            with pytest.raises(WrongConnection, match="not open yet"):
                await shop.aenqueue(connection)
            async with connection:
                pass
            with pytest.raises(WrongConnection, match="closed"):
                await shop.aenqueue(connection)

    def test_another_database_or_driver_is_refused(self, shop: Shop) -> None:
        """Before anything is sent: the engines below are never connected."""
        with orm.Session(sqlalchemy.create_engine("sqlite://")) as session:
            with pytest.raises(WrongConnection, match="it leads to sqlite, but this app keeps its jobs in postgresql"):
                shop.enqueue(session)
            assert not session.in_transaction()


class TestSqlite(SqlalchemyCases):
    """On pysqlite, and what only SQLite has."""

    @pytest.fixture
    def shop(self, sqlite_shop: Shop) -> Shop:
        return sqlite_shop

    async def test_async_autocommit_is_refused(self, shop: Shop) -> None:
        """Also in aiosqlite."""
        autocommit = async_engine_of(shop, "aiosqlite", isolation_level="AUTOCOMMIT")
        async with autocommit as engine, engine.connect() as connection:
            with pytest.raises(NoTransaction, match="AUTOCOMMIT"):
                await shop.aenqueue(connection)
            assert not connection.in_transaction()

    @pytest.mark.parametrize("statement", ["BEGIN", "BEGIN IMMEDIATE"])
    def test_the_begin_event(self, shop: Shop, statement: str) -> None:
        """SQLAlchemy's recipe: sqlite3 does not begin, a listener does; the enqueue comes first or second."""
        with engine_of(shop) as engine:
            event.listen(engine, "connect", lambda dbapi, _: setattr(dbapi, "isolation_level", None))
            event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(statement))
            with orm.Session(engine) as session:
                lost = shop.enqueue(session)
                session.add(Note(body="lost"))
                session.flush()
                session.rollback()
                session.add(Note(body="mine"))
                session.flush()
                kept = shop.enqueue(session)
                session.commit()
        assert [shop.has(job) for job in (lost, kept)] == [False, True]
        assert shop.notes() == ["mine"]

    def test_the_users_text_factory_stays(self, shop: Shop) -> None:
        """Bytes are decoded, the connection is left alone."""
        with engine_of(shop, poolclass=StaticPool) as engine:
            event.listen(engine, "connect", lambda dbapi, _: setattr(dbapi, "text_factory", bytes))
            with engine.begin() as connection:
                job = shop.enqueue(connection)
                shop.enqueue(connection, job)
                assert list(shop.existing) == [job]
                assert connection.connection.driver_connection.text_factory is bytes  # type: ignore[union-attr]  # it is open
        assert shop.has(job)

    def test_a_lock_is_waited_for_as_the_user_set_it(self, shop: Shop) -> None:
        """The user's timeout applies."""
        with engine_of(shop, connect_args={"timeout": 0}) as engine, orm.Session(engine) as session:
            with shop.connection() as other:
                other.execute("BEGIN IMMEDIATE")
                with pytest.raises(DatabaseBusy, match="a longer timeout") as caught:
                    shop.enqueue(session)
                assert isinstance(caught.value.__cause__, sqlalchemy.exc.OperationalError)
                other.execute("ROLLBACK")
            session.rollback()
            job = shop.enqueue(session)
            session.commit()
        assert shop.has(job)

    @pytest.mark.parametrize("name", ["other.db", ":memory:"])
    async def test_another_file_is_refused(self, shop: Shop, tmp_path: Path, name: str) -> None:
        """Naming both; the connection is left as it was."""
        path = name if name == ":memory:" else tmp_path / name
        engine = sqlalchemy.create_engine(f"sqlite:///{path}")
        with engine.connect() as connection:
            with pytest.raises(WrongConnection, match=r"(other\.db|in memory) .*holdfast\.db"):
                shop.enqueue(connection)
            assert not connection.in_transaction()
        engine.dispose()
        async_engine = create_async_engine(f"sqlite+aiosqlite:///{path}")
        async with AsyncSession(async_engine) as session:
            with pytest.raises(WrongConnection, match=r"(other\.db|in memory) .*holdfast\.db"):
                await shop.aenqueue(session)
        await async_engine.dispose()

    def test_another_sqlite_library_is_refused(self, shop: Shop) -> None:
        """SQLAlchemy can be given pysqlite3; that must not touch our file."""
        engine = sqlalchemy.create_engine("sqlite://", module=pysqlite3)
        refused = pytest.raises(WrongConnection, match="pysqlite3 but Holdfast uses sqlite3")
        with engine.connect() as connection, refused:
            shop.enqueue(connection)
        engine.dispose()

    def test_another_database_is_refused(self, shop: Shop) -> None:
        """Before anything is sent: the engine below is never connected."""
        session = orm.Session(sqlalchemy.create_engine("postgresql+psycopg://nowhere.invalid/"))
        with pytest.raises(WrongConnection, match="it leads to postgresql, but this app keeps its jobs in sqlite"):
            shop.enqueue(session)

    def test_the_file_is_looked_at_once_per_connection(self, shop: Shop) -> None:
        """SQLAlchemy keeps what we know with its pooled connection."""
        seen: list[str] = []
        with engine_of(shop) as engine:
            event.listen(engine, "before_cursor_execute", lambda *args: seen.append(args[2]))
            for _ in range(3):
                with engine.begin() as connection:
                    shop.enqueue(connection)
        assert sum("database_list" in text for text in seen) == 1
