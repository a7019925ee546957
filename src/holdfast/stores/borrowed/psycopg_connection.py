"""psycopg 3 connections, sync and async; a cursor stands for its connection."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any

from holdfast.errors import AbortedTransaction, DatabaseUnavailable, NoTransaction, WrongConnection, WrongDatabase
from holdfast.operations.statement import Rows, Statement
from holdfast.stores.borrowed.base import BorrowingStore
from holdfast.stores.borrowed.same_database import refuse_other_database, refuse_other_database_async
from holdfast.stores.borrowed.script_run import Values, run_script, run_script_async

# libpq's numbers; psycopg's enumerations compare equal to them
_IDLE = 0
_IN_ERROR = 3
_PIPELINE_OFF = 0

_AUTOCOMMIT = "psycopg connection in autocommit mode"


class PsycopgConnection:
    """For threads."""

    def __init__(self, connection: Any, store: BorrowingStore, tx: object = None) -> None:
        self._tx = connection if tx is None else tx
        refuse_closed(self._tx, connection)
        self._connection = connection
        self._store = store

    def begin(self, *, read_only: bool = False) -> None:  # noqa: ARG002 - nobody waits for a reader here
        with answered(self._connection):
            pass
        if not is_in_transaction(self._connection):
            raise NoTransaction(_AUTOCOMMIT, "enqueue inside `with connection.transaction():`")
        was_idle = is_idle(self._connection)
        try:
            refuse_other_database(self._tx, self._connection, self._store, self.execute)
        except WrongDatabase:
            if was_idle:
                self._connection.rollback()
            raise

    def execute(self, statement: Statement) -> Rows:
        return run_script(self._store.script(statement), self._store.parameters(statement), self._fetch)

    def on_commit(self, callback: Callable[[], None]) -> bool:  # noqa: ARG002 - psycopg has no such hook
        return is_two_phase(self._connection)

    def refuse_commit(self) -> None:
        """The server does."""

    def _fetch(self, text: str, values: Values) -> Rows | None:
        # Neither connection.cursor() nor connection.execute(): the user's cursor_factory may bind in another style
        # (RawCursor), and the row_factory makes anything of a row.
        psycopg = sys.modules["psycopg"]
        with psycopg.Cursor(self._connection, row_factory=psycopg.rows.tuple_row) as cursor:
            load_plainly(cursor)
            with answered(self._connection):
                cursor.execute(text, values, prepare=False)
            return None if cursor.description is None else cursor.fetchall()


class PsycopgAsyncConnection:
    """For an event loop."""

    def __init__(self, connection: Any, store: BorrowingStore, tx: object = None) -> None:
        self._tx = connection if tx is None else tx
        refuse_closed(self._tx, connection)
        self._connection = connection
        self._store = store

    async def begin(self, *, read_only: bool = False) -> None:  # noqa: ARG002 - nobody waits for a reader here
        async with answered(self._connection):
            pass
        if not is_in_transaction(self._connection):
            raise NoTransaction(_AUTOCOMMIT, "enqueue inside `async with connection.transaction():`")
        was_idle = is_idle(self._connection)
        try:
            await refuse_other_database_async(self._tx, self._connection, self._store, self.execute)
        except WrongDatabase:
            if was_idle:
                await self._connection.rollback()
            raise

    async def execute(self, statement: Statement) -> Rows:
        return await run_script_async(self._store.script(statement), self._store.parameters(statement), self._fetch)

    def on_commit(self, callback: Callable[[], None]) -> bool:  # noqa: ARG002 - as in the sync class
        return is_two_phase(self._connection)

    async def refuse_commit(self) -> None:
        """The server does."""

    async def _fetch(self, text: str, values: Values) -> Rows | None:
        psycopg = sys.modules["psycopg"]
        async with psycopg.AsyncCursor(self._connection, row_factory=psycopg.rows.tuple_row) as cursor:
            load_plainly(cursor)
            async with answered(self._connection):
                await cursor.execute(text, values, prepare=False)
            return None if cursor.description is None else await cursor.fetchall()


def answered(connection: Any) -> Any:
    """A block at whose end the server has answered everything sent, also if the user works in pipeline mode.

    There a statement has no result, and the transaction no known state, until somebody waits; a nested pipeline does.
    """
    return contextlib.nullcontext() if connection.info.pipeline_status == _PIPELINE_OFF else connection.pipeline()


def load_plainly(cursor: Any) -> None:
    """Text, whole numbers and truth values as psycopg loads them by itself, whatever the user registered for them.

    Verbs that run on a borrowed connection return nothing else.
    """
    types = sys.modules["psycopg.types"]
    for name, loader in (
        ("text", types.string.TextLoader),
        ("int2", types.numeric.IntLoader),
        ("int4", types.numeric.IntLoader),
        ("int8", types.numeric.IntLoader),
        ("bool", types.bool.BoolLoader),
    ):
        cursor.adapters.register_loader(name, loader)


def refuse_closed(tx: object, connection: Any) -> None:
    if connection.broken:
        raise DatabaseUnavailable("the connection passed as tx= was lost; repeat the transaction on a new one")
    if connection.closed:
        raise WrongConnection(tx, "the connection is closed; open a new one")


def is_in_transaction(connection: Any) -> bool:
    """Or will be: without autocommit the first statement begins a transaction, so an idle connection will do."""
    if connection.info.transaction_status == _IN_ERROR:
        raise AbortedTransaction
    return not is_idle(connection) or not connection.autocommit


def is_idle(connection: Any) -> bool:
    status: int = connection.info.transaction_status
    return status == _IDLE


def is_two_phase(connection: Any) -> bool:
    """Begun by tpc_begin(): PostgreSQL does not prepare a transaction that has notified, so workers find it by polling.

    psycopg keeps this to itself.
    """
    return connection._tpc is not None  # noqa: SLF001 - see above
