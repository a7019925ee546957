"""Transactions that we open for a handler on its job's database, to be written in and passed as tx=."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from holdfast.operations.statement import Rows
from holdfast.stores.borrowed.base import AsyncBorrowed, Borrowed

#: what the driver takes: by position or by name
Parameters: TypeAlias = Sequence[Any] | Mapping[str, Any]


class OwnTransaction:
    """For threads; ends with the block that opened it.

    `connection` is the driver's own (psycopg or sqlite3), for what `execute` cannot do; leave its commit to the block.
    """

    def __init__(self, connection: Any, borrowed: Borrowed, execute: Callable[[str, Parameters | None], Rows]) -> None:
        self.connection = connection
        self.borrowed = borrowed
        self._execute = execute
        self._savepoints = itertools.count(1)

    def execute(self, text: str, parameters: Parameters | None = None) -> Rows:
        """Run a statement in the driver's style of parameters; its rows, if it has any."""
        return self._execute(text, parameters)

    @contextlib.contextmanager
    def savepoint(self) -> Iterator[None]:
        """What the block wrote is undone if it raises, and the transaction can go on."""
        name = f"holdfast_{next(self._savepoints)}"
        self._execute(f"SAVEPOINT {name}", None)
        try:
            yield
        except BaseException:
            self._execute(f"ROLLBACK TO SAVEPOINT {name}", None)
            raise
        self._execute(f"RELEASE SAVEPOINT {name}", None)


class AsyncOwnTransaction:
    """The same for an event loop; `connection` is psycopg's, or sqlite3's, which lives in a thread of its own."""

    def __init__(
        self,
        connection: Any,
        borrowed: AsyncBorrowed,
        execute: Callable[[str, Parameters | None], Awaitable[Rows]],
    ) -> None:
        self.connection = connection
        self.borrowed = borrowed
        self._execute = execute
        self._savepoints = itertools.count(1)

    async def execute(self, text: str, parameters: Parameters | None = None) -> Rows:
        """Run a statement in the driver's style of parameters; its rows, if it has any."""
        return await self._execute(text, parameters)

    @contextlib.asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """What the block wrote is undone if it raises, and the transaction can go on."""
        name = f"holdfast_{next(self._savepoints)}"
        await self._execute(f"SAVEPOINT {name}", None)
        try:
            yield
        except BaseException:
            await self._execute(f"ROLLBACK TO SAVEPOINT {name}", None)
            raise
        await self._execute(f"RELEASE SAVEPOINT {name}", None)
