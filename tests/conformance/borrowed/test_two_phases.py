"""Transactions in two phases: the job comes with the second, and no NOTIFY forbids the first."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
import sqlalchemy
from sqlalchemy import orm

from holdfast.app import App
from tools.postgres_server import PostgresServer, available

_numbers = itertools.count(1)
Enqueue = Callable[[Any], str]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """PostgreSQL prepares nothing by default."""
    with PostgresServer(available()[max(available())], settings={"max_prepared_transactions": "10"}) as server:
        yield server


@pytest.fixture
def url(server: PostgresServer) -> str:
    return server.create_database(f"shop_{next(_numbers)}")


@pytest.fixture
def enqueue(url: str) -> Iterator[Enqueue]:
    app = App(url, auto_migrate=True)

    @app.job()
    def send_receipt() -> None: ...

    with app.client() as client:

        def enqueue(tx: Any) -> str:
            return client.enqueue(send_receipt.call(), tx=tx).id

        yield enqueue
    app.close()


@pytest.fixture
def jobs(url: str) -> Callable[[], list[str]]:
    """What others see."""

    def jobs() -> list[str]:
        with psycopg.connect(url) as connection:
            return [str(row[0]) for row in connection.execute("SELECT id FROM holdfast.job").fetchall()]

    return jobs


@pytest.fixture
def engine(url: str) -> Iterator[sqlalchemy.Engine]:
    engine = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    yield engine
    engine.dispose()


@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_psycopg(url: str, enqueue: Enqueue, jobs: Callable[[], list[str]], ending: str) -> None:
    """Prepared, it is not there yet."""
    with psycopg.connect(url) as connection:
        connection.tpc_begin("shop")
        job = enqueue(connection)
        connection.tpc_prepare()
        assert jobs() == []
        getattr(connection, f"tpc_{ending}")()
    assert jobs() == ([job] if ending == "commit" else [])


async def test_psycopg_async(url: str, jobs: Callable[[], list[str]]) -> None:
    """The same, awaited."""
    app = App(url, auto_migrate=True)

    @app.job()
    def send_receipt() -> None: ...

    async with await psycopg.AsyncConnection.connect(url) as connection, app.async_client() as client:
        await connection.tpc_begin("shop")
        chain = await client.enqueue(send_receipt.call(), tx=connection)
        await connection.tpc_prepare()
        await connection.tpc_commit()
    assert jobs() == [chain.id]


@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_sqlalchemy_connection(
    engine: sqlalchemy.Engine, enqueue: Enqueue, jobs: Callable[[], list[str]], ending: str
) -> None:
    with engine.connect() as connection:
        transaction = connection.begin_twophase()
        job = enqueue(connection)
        transaction.prepare()
        assert jobs() == []
        getattr(transaction, ending)()
    assert jobs() == ([job] if ending == "commit" else [])


@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_sqlalchemy_session(
    engine: sqlalchemy.Engine, enqueue: Enqueue, jobs: Callable[[], list[str]], ending: str
) -> None:
    with orm.Session(engine, twophase=True) as session:
        job = enqueue(session)
        session.prepare()
        assert jobs() == []
        getattr(session, ending)()
        assert jobs() == ([job] if ending == "commit" else [])
