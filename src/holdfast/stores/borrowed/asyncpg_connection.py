"""asyncpg connections, from a pool or not."""

from __future__ import annotations

import asyncio
import functools
import re
import sys
from collections.abc import Callable
from typing import Any

from holdfast.errors import NoTransaction, WrongConnection
from holdfast.operations.statement import Rows, Statement
from holdfast.stores.borrowed.base import BorrowingStore
from holdfast.stores.borrowed.same_database import refuse_other_database_async
from holdfast.stores.borrowed.script_run import Values, run_script_async

_NUMBERED = re.compile(r"\$\d+")


class AsyncpgConnection:
    """A Connection, or the proxy of one that a pool hands out."""

    def __init__(self, connection: Any, store: BorrowingStore) -> None:
        _refuse_closed(connection)
        self._connection = connection
        self._store = store

    async def begin(self, *, read_only: bool = False) -> None:  # noqa: ARG002 - nobody waits for a reader here
        refuse_other_loop(self._connection, self._connection)
        if not self._connection.is_in_transaction():
            raise NoTransaction("asyncpg connection", "enqueue inside `async with connection.transaction():`")
        # asyncpg knows whether the transaction failed, but does not tell; the server refuses and nothing gets worse.
        # A pool's proxy is another object each time.
        driver = getattr(self._connection, "_con", self._connection)
        await refuse_other_database_async(self._connection, driver, self._store, self.execute)

    async def execute(self, statement: Statement) -> Rows:
        script = self._store.numbered.script(statement.name, statement.literals, statement.slots)
        return await run_script_async(script, self._store.parameters(statement), self._fetch)

    def on_commit(self, callback: Callable[[], None]) -> bool:  # noqa: ARG002 - asyncpg has no such hook
        return False

    async def refuse_commit(self) -> None:
        """The server does."""

    async def _fetch(self, text: str, values: Values) -> Rows:
        # The plain record: the user's record_class may make anything of a row.
        record_class = sys.modules["asyncpg"].Record
        rows: Rows = await self._connection.fetch(as_text(text), *text_values(values), record_class=record_class)
        return rows


@functools.lru_cache(maxsize=512)
def as_text(text: str) -> str:
    """Every parameter as text, which the SQL casts.

    Otherwise asyncpg asks the server for the types and wants a datetime, or whatever the user's set_type_codec wants.
    """
    return _NUMBERED.sub(r"\g<0>::text", text)


def text_values(values: Values) -> tuple[str | None, ...]:
    return tuple(None if value is None else str(value) for value in values.values())


def refuse_other_loop(tx: object, connection: Any) -> None:
    # asyncpg does not look: seen were "attached to a different loop", waiting for ever, and a crash of the process.
    if getattr(connection, "_loop", None) not in (None, asyncio.get_running_loop()):
        raise WrongConnection(tx, "it belongs to another event loop; enqueue on the one that opened it")


def _refuse_closed(connection: Any) -> None:
    try:
        is_closed = connection.is_closed()
    except sys.modules["asyncpg"].InterfaceError as error:
        raise WrongConnection(connection, f"{error}; enqueue before it is released") from None
    if is_closed:
        raise WrongConnection(connection, "the connection is closed; open a new one")
