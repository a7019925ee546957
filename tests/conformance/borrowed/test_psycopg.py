"""psycopg connections as users really set them up."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg.adapt import Loader
from psycopg.rows import dict_row, namedtuple_row, scalar_row
from psycopg.types.string import StrDumper, TextLoader

from holdfast.errors import AbortedTransaction, NoTransaction, WrongConnection
from holdfast.operations.list_jobs import list_jobs
from tests.conformance.borrowed.shop import Shop


class OwnConnection(psycopg.Connection[Any]):
    """A user's subclass that has its own idea of execute."""

    def execute(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("the user's execute is the user's")

    def cursor(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("the user's cursor is the user's")


class OwnAsyncConnection(psycopg.AsyncConnection[Any]):
    """The same for an event loop."""


def test_autocommit_outside_a_transaction_is_refused(postgres_shop: Shop) -> None:
    """The error names the fix, nothing is sent, and the fix works."""
    with psycopg.connect(postgres_shop.url, autocommit=True) as connection:
        for tx in (connection, connection.cursor()):
            with pytest.raises(NoTransaction, match=r"`with connection\.transaction\(\):`"):
                postgres_shop.enqueue(tx)
        with connection.transaction():
            job = postgres_shop.enqueue(connection)
            assert not postgres_shop.has(job)
        assert postgres_shop.has(job)
        with connection.transaction(force_rollback=True):
            lost = postgres_shop.enqueue(connection)
        assert not postgres_shop.has(lost)


async def test_async_autocommit_outside_a_transaction_is_refused(postgres_shop: Shop) -> None:
    """As above, awaited."""
    async with await psycopg.AsyncConnection.connect(postgres_shop.url, autocommit=True) as connection:
        for tx in (connection, connection.cursor()):
            with pytest.raises(NoTransaction, match=r"`async with connection\.transaction\(\):`"):
                await postgres_shop.aenqueue(tx)
        async with connection.transaction():
            job = await postgres_shop.aenqueue(connection)
        assert postgres_shop.has(job)


def test_a_nested_transaction_block_rolled_back(postgres_shop: Shop) -> None:
    """Psycopg's own savepoints."""
    with psycopg.connect(postgres_shop.url) as connection:
        outer = postgres_shop.enqueue(connection)
        with connection.transaction(force_rollback=True):
            inner = postgres_shop.enqueue(connection)
        with connection.transaction():
            released = postgres_shop.enqueue(connection)
    assert [postgres_shop.has(job) for job in (outer, inner, released)] == [True, False, True]


@pytest.mark.parametrize("row_factory", [dict_row, namedtuple_row, scalar_row])
def test_the_users_row_factory_stays(postgres_shop: Shop, row_factory: Any) -> None:
    """Ours are tuples, the user's remain what they were."""
    with psycopg.connect(postgres_shop.url, row_factory=row_factory) as connection:
        job = postgres_shop.enqueue(connection)
        postgres_shop.enqueue(connection, job)
        assert list(postgres_shop.existing) == [job]
        assert connection.row_factory is row_factory
    assert postgres_shop.has(job)


@pytest.mark.parametrize("factory", [psycopg.ClientCursor, psycopg.RawCursor, psycopg.RawServerCursor])
def test_the_users_cursor_factory_stays(postgres_shop: Shop, factory: Any) -> None:
    """A cursor factory may bind parameters in another style."""
    with psycopg.connect(postgres_shop.url) as connection:
        connection.cursor_factory = factory
        job = postgres_shop.enqueue(connection)
        assert connection.cursor_factory is factory
    assert postgres_shop.has(job)


def test_cursors_of_every_class(postgres_shop: Shop) -> None:
    """A cursor stands for its connection, whatever it binds and wherever it keeps its rows."""
    with psycopg.connect(postgres_shop.url) as connection:
        cursors: list[Any] = [
            connection.cursor("named"),
            psycopg.ClientCursor(connection),
            psycopg.RawCursor(connection),
        ]
        jobs = [postgres_shop.enqueue(cursor) for cursor in cursors]
        for cursor in cursors:
            cursor.close()
    assert all(postgres_shop.has(job) for job in jobs)


def test_half_read_cursors_survive(postgres_shop: Shop) -> None:
    """Both the cursor that is passed and another one go on where they were."""
    with psycopg.connect(postgres_shop.url) as connection:
        mine = connection.execute("SELECT generate_series(1, 5)")
        with connection.cursor("named") as named:
            named.execute("SELECT generate_series(1, 5)")
            assert (mine.fetchone(), named.fetchone()) == ((1,), (1,))
            postgres_shop.enqueue(mine)
            postgres_shop.enqueue(named)
            assert (mine.fetchall(), named.fetchall()) == ([(2,), (3,), (4,), (5,)],) * 2


def test_subclasses_are_recognised_and_their_methods_left_alone(postgres_shop: Shop) -> None:
    """Recognised by what they derive from."""
    with OwnConnection.connect(postgres_shop.url) as connection:
        job = postgres_shop.enqueue(connection)
    assert postgres_shop.has(job)


async def test_async_subclasses_are_recognised(postgres_shop: Shop) -> None:
    """As above."""
    async with await OwnAsyncConnection.connect(postgres_shop.url, row_factory=dict_row) as connection:
        job = await postgres_shop.aenqueue(connection)
        await postgres_shop.aenqueue(connection, job)
        assert list(postgres_shop.existing) == [job]
    assert postgres_shop.has(job)


def test_statements_are_not_prepared_on_the_users_connection(postgres_shop: Shop) -> None:
    """Through a transaction pooler a prepared statement may be unknown; the user's threshold is the user's."""
    with psycopg.connect(postgres_shop.url, prepare_threshold=0) as connection:
        postgres_shop.enqueue(connection)
        names = connection.execute("SELECT statement FROM pg_prepared_statements", prepare=False).fetchall()
        assert names == []
        assert connection.prepare_threshold == 0


def test_pipeline_mode(postgres_shop: Shop) -> None:
    """What was sent before is waited for, so that the state of the transaction is known."""
    with psycopg.connect(postgres_shop.url, autocommit=True) as connection:
        with connection.pipeline():
            connection.execute("SELECT 1")
            with pytest.raises(NoTransaction):
                postgres_shop.enqueue(connection)
            with connection.transaction():
                connection.execute("INSERT INTO note VALUES ('mine')")
                job = postgres_shop.enqueue(connection)
        assert postgres_shop.has(job)
    assert postgres_shop.notes() == ["mine"]


async def test_async_pipeline_mode(postgres_shop: Shop) -> None:
    """As above, awaited."""
    async with await psycopg.AsyncConnection.connect(postgres_shop.url) as connection, connection.pipeline():
        await connection.execute("INSERT INTO note VALUES ('mine')")
        job = await postgres_shop.aenqueue(connection)
    assert postgres_shop.has(job)


def test_the_users_dumpers_and_loaders_of_json_do_not_matter(postgres_shop: Shop) -> None:
    """Parameters and results are text."""
    with psycopg.connect(postgres_shop.url) as connection:
        connection.adapters.register_dumper(str, StrDumper)
        connection.adapters.register_loader("json", TextLoader)
        job = postgres_shop.enqueue(connection)
    assert postgres_shop.has(job)


class Junk(Loader):
    """What a user may want, and nobody else."""

    def load(self, data: Any) -> Any:
        return ("junk", bytes(data))


def test_the_users_loaders_of_plain_types_stay(postgres_shop: Shop) -> None:
    """Ours are text, numbers and truth values whatever the user makes of them."""
    with psycopg.connect(postgres_shop.url) as connection:
        for name in ("text", "int2", "int4", "int8", "bool", "json", "jsonb", "uuid", "timestamptz"):
            connection.adapters.register_loader(name, Junk)
        job = postgres_shop.enqueue(connection)
        postgres_shop.enqueue(connection, job)
        assert list(postgres_shop.existing) == [job]
        found = postgres_shop.run(connection, lambda: list_jobs(limit=1)).items
        assert connection.execute("SELECT 'mine'::text, 1").fetchone() == (("junk", b"mine"), ("junk", b"1"))
    assert found == postgres_shop.face.run(lambda: list_jobs(limit=1), read_only=True).items


def test_a_failure_inside_a_savepoint_needs_only_its_rollback(postgres_shop: Shop) -> None:
    """Aborted inside, usable again outside."""
    with psycopg.connect(postgres_shop.url) as connection:
        connection.execute("SAVEPOINT inner_part")
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute("SELECT 1 / 0")
        with pytest.raises(AbortedTransaction):
            postgres_shop.enqueue(connection)
        connection.execute("ROLLBACK TO SAVEPOINT inner_part")
        job = postgres_shop.enqueue(connection)
    assert postgres_shop.has(job)


def test_the_hint_goes_out_with_the_commit(postgres_shop: Shop) -> None:
    """Psycopg has no hook after the commit, so NOTIFY is part of the transaction."""
    with postgres_shop.connection() as listener, psycopg.connect(postgres_shop.url) as connection:
        listener.execute("LISTEN holdfast")
        postgres_shop.enqueue(connection)
        assert postgres_shop.face.borrow(connection).on_commit(lambda: None) is False
        assert list(listener.notifies(timeout=0)) == []
        connection.commit()
        assert [notice.payload for notice in listener.notifies(timeout=5, stop_after=1)] == ["mail"]


async def test_a_closed_connection_is_refused(postgres_shop: Shop) -> None:
    """Also when only its cursor is passed."""
    connection = psycopg.connect(postgres_shop.url)
    cursor = connection.cursor()
    connection.close()
    for tx in (connection, cursor):
        with pytest.raises(WrongConnection, match="closed"):
            postgres_shop.enqueue(tx)
    async_connection = await psycopg.AsyncConnection.connect(postgres_shop.url)
    await async_connection.close()
    with pytest.raises(WrongConnection, match="closed"):
        await postgres_shop.aenqueue(async_connection)
