"""Transactions for handlers on PostgreSQL: a connection each, in the driver's own manners."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.rows import TupleRow

from holdfast.operations.statement import Rows
from holdfast.stores.borrowed.own_transaction import AsyncOwnTransaction, OwnTransaction, Parameters
from holdfast.stores.borrowed.psycopg_connection import PsycopgAsyncConnection, PsycopgConnection

if TYPE_CHECKING:
    from holdfast.stores.postgres import PostgresStore


def _options(store: PostgresStore) -> dict[str, Any]:
    # Not from the pool: its connections load instants as numbers and JSON as text, which is nobody's business but ours.
    return {**store.connection_options, "autocommit": False}


#: the same for as long as a transaction lasts, and for no other one
_BEGAN = b"SELECT extract(epoch FROM transaction_timestamp())"


@contextlib.contextmanager
def open_transaction(store: PostgresStore) -> Iterator[OwnTransaction]:
    """Committed at the end of the block, rolled back if it raises."""
    with psycopg.connect(store.conninfo, **_options(store)) as connection:

        def execute(text: str, parameters: Parameters | None) -> Rows:
            cursor: psycopg.Cursor[TupleRow] = connection.execute(text.encode(), parameters)
            return cursor.fetchall() if cursor.description is not None else []

        began = connection.execute(_BEGAN).fetchone()

        def is_open() -> bool:
            return connection.execute(_BEGAN).fetchone() == began

        tx = OwnTransaction(connection, PsycopgConnection(connection, store), execute, is_open)
        yield tx
    tx.committed()


@contextlib.asynccontextmanager
async def open_async_transaction(store: PostgresStore) -> AsyncIterator[AsyncOwnTransaction]:
    """The same, awaited."""
    async with await psycopg.AsyncConnection.connect(store.conninfo, **_options(store)) as connection:

        async def execute(text: str, parameters: Parameters | None) -> Rows:
            cursor: psycopg.AsyncCursor[TupleRow] = await connection.execute(text.encode(), parameters)
            return await cursor.fetchall() if cursor.description is not None else []

        began = await (await connection.execute(_BEGAN)).fetchone()

        async def is_open() -> bool:
            return await (await connection.execute(_BEGAN)).fetchone() == began

        tx = AsyncOwnTransaction(connection, PsycopgAsyncConnection(connection, store), execute, is_open)
        yield tx
    tx.committed()
