"""Whether a PostgreSQL connection leads to the store's own database: looked at once per connection.

Names and addresses do not tell: through a pooler, a socket or another name of the host one database has several, and
two may have the same.  Without the look the job would land where no worker is, or the statement would fail for want of
our tables, and the caller's transaction with it.
"""

from __future__ import annotations

import weakref
from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.errors import WrongDatabase
from holdfast.operations.drive import adrive, drive
from holdfast.operations.identify_database import DatabaseIdentity, identify_database
from holdfast.operations.statement import Rows, Statement
from holdfast.stores.borrowed.base import BorrowingStore

#: the identity that was found behind a driver's connection, for as long as the connection lives
_found: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()


def refuse_other_database(
    tx: object, connection: Any, store: BorrowingStore, execute: Callable[[Statement], Rows]
) -> None:
    """`connection` is the driver's, whatever `tx` the caller passed; `execute` runs a statement on it."""
    if not _is_known(connection, store):
        _judge(tx, connection, store, drive(identify_database(), execute))


async def refuse_other_database_async(
    tx: object, connection: Any, store: BorrowingStore, execute: Callable[[Statement], Awaitable[Rows]]
) -> None:
    """The same, awaited."""
    if not _is_known(connection, store):
        _judge(tx, connection, store, await adrive(identify_database(), execute))


def _is_known(connection: Any, store: BorrowingStore) -> bool:
    return store.identity is None or _found.get(connection) == store.identity


def _judge(tx: object, connection: Any, store: BorrowingStore, found: DatabaseIdentity) -> None:
    if found.identity is None or found.identity != store.identity:
        what = "has no Holdfast tables" if found.identity is None else "has other Holdfast tables"
        raise WrongDatabase(
            tx,
            found.name,
            f"it leads to the database {found.name!r}, which {what}, but this app keeps its jobs in {store.url}; "
            f"use one database for both",
        )
    _found[connection] = found.identity
