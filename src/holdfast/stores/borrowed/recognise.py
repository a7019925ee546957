"""Which adapter serves a tx=: decided by the names of its class and base classes, so that no library is imported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from holdfast.errors import WrongConnection
from holdfast.stores.borrowed import django_connection, sqlalchemy_connection, sqlalchemy_session
from holdfast.stores.borrowed.aiosqlite_connection import AiosqliteConnection
from holdfast.stores.borrowed.asyncpg_connection import AsyncpgConnection
from holdfast.stores.borrowed.base import AsyncBorrowed, Borrowed, BorrowingStore
from holdfast.stores.borrowed.django_connection import DjangoConnection
from holdfast.stores.borrowed.own_transaction import AsyncOwnTransaction, OwnTransaction
from holdfast.stores.borrowed.psycopg_connection import PsycopgAsyncConnection, PsycopgConnection
from holdfast.stores.borrowed.sqlalchemy_connection import SqlalchemyConnection
from holdfast.stores.borrowed.sqlalchemy_session import SqlalchemySession
from holdfast.stores.borrowed.sqlite_connection import SqliteConnection
from holdfast.stores.borrowed.translated import AsyncTranslated, Translated

B = TypeVar("B", Borrowed, AsyncBorrowed)

_POSTGRES = ("postgres",)
_SQLITE = ("sqlite",)
_BOTH = ("postgres", "sqlite")


@dataclass(frozen=True, slots=True)
class _Kind(Generic[B]):
    """What an adapter is for; SQLAlchemy's and Django's look for the database themselves."""

    dialects: tuple[str, ...]
    adapt: Callable[[Any, BorrowingStore], B]


_SYNC: dict[tuple[str, str], _Kind[Borrowed]] = {
    ("psycopg", "Connection"): _Kind(_POSTGRES, PsycopgConnection),
    ("psycopg", "Cursor"): _Kind(_POSTGRES, lambda cursor, store: PsycopgConnection(cursor.connection, store)),
    ("sqlite3", "Connection"): _Kind(_SQLITE, SqliteConnection),
    ("sqlite3", "Cursor"): _Kind(_SQLITE, lambda cursor, store: SqliteConnection(cursor.connection, store)),
    ("pysqlite3", "Connection"): _Kind(_SQLITE, SqliteConnection),
    ("pysqlite3", "Cursor"): _Kind(_SQLITE, lambda cursor, store: SqliteConnection(cursor.connection, store)),
    ("sqlalchemy", "Connection"): _Kind(_BOTH, SqlalchemyConnection),
    ("sqlalchemy", "Session"): _Kind(_BOTH, SqlalchemySession),
    ("sqlalchemy", "scoped_session"): _Kind(_BOTH, sqlalchemy_session.scoped_session),
    ("django", "ConnectionProxy"): _Kind(_BOTH, django_connection.proxy),
    ("django", "BaseDatabaseWrapper"): _Kind(_BOTH, DjangoConnection),
    ("django", "CursorWrapper"): _Kind(_BOTH, django_connection.cursor),
}

_ASYNC: dict[tuple[str, str], _Kind[AsyncBorrowed]] = {
    ("psycopg", "AsyncConnection"): _Kind(_POSTGRES, PsycopgAsyncConnection),
    ("psycopg", "AsyncCursor"): _Kind(
        _POSTGRES, lambda cursor, store: PsycopgAsyncConnection(cursor.connection, store)
    ),
    ("asyncpg", "Connection"): _Kind(_POSTGRES, AsyncpgConnection),
    ("asyncpg", "PoolConnectionProxy"): _Kind(_POSTGRES, AsyncpgConnection),
    ("aiosqlite", "Connection"): _Kind(_SQLITE, AiosqliteConnection),
    ("sqlalchemy", "AsyncConnection"): _Kind(_BOTH, sqlalchemy_connection.async_connection),
    ("sqlalchemy", "AsyncSession"): _Kind(_BOTH, sqlalchemy_session.async_session),
    ("sqlalchemy", "async_scoped_session"): _Kind(_BOTH, sqlalchemy_session.async_scoped_session),
}

_POOL = "a pool is not a connection; take one from it and pass that"
_TRANSACTION = "pass the connection or session itself, not its transaction"

_DJANGO_IS_SYNC = (
    "Django has no asynchronous transactions; put atomic() and app.client()'s enqueue into one function and "
    "`await sync_to_async(function)()`"
)

#: what people pass by mistake
_MISTAKES = {
    ("builtins", "str"): "a URL or a name is not a connection; open it and pass what you got",
    ("builtins", "coroutine"): "it has not been awaited",
    ("sqlalchemy", "Engine"): "an engine is not a connection; use `with engine.begin() as connection:` and pass that",
    (
        "sqlalchemy",
        "AsyncEngine",
    ): "an engine is not a connection; use `async with engine.begin() as connection:` and pass that",
    ("sqlalchemy", "sessionmaker"): "call it, and pass the session",
    ("sqlalchemy", "async_sessionmaker"): "call it, and pass the session",
    ("sqlalchemy", "SessionTransaction"): _TRANSACTION,
    ("sqlalchemy", "AsyncSessionTransaction"): _TRANSACTION,
    ("sqlalchemy", "Transaction"): _TRANSACTION,
    ("sqlalchemy", "AsyncTransaction"): _TRANSACTION,
    ("psycopg", "BaseTransaction"): _TRANSACTION,
    ("asyncpg", "Transaction"): _TRANSACTION,
    ("django", "Atomic"): "pass django.db.connection or its alias, not the atomic block",
    ("django", "BaseConnectionHandler"): "pass one of its connections, such as connections['default']",
    ("psycopg_pool", "BasePool"): _POOL,
    ("asyncpg", "Pool"): _POOL,
    ("asyncpg", "PoolAcquireContext"): "use `async with pool.acquire() as connection:` and pass the connection",
    ("psycopg2", "connection"): "psycopg2 is not supported; connect with psycopg (version 3)",
    ("psycopg2", "cursor"): "psycopg2 is not supported; connect with psycopg (version 3)",
    ("apsw", "Connection"): "two SQLite libraries on one file in one process drop each other's locks; use sqlite3",
}


def recognise(tx: object, store: BorrowingStore) -> Borrowed:
    """The adapter for a sync client, or WrongConnection before anything is sent."""
    if isinstance(tx, OwnTransaction):
        return tx.borrowed
    if isinstance(tx, str) and "://" not in tx and django_connection.aliases():
        return Translated(django_connection.alias(tx, store))
    names = _names(tx)
    for name in names:
        if kind := _SYNC.get(name):
            _refuse_dialect(tx, kind, store)
            return Translated(kind.adapt(tx, store))
    if any(name in _ASYNC for name in names):
        raise WrongConnection(tx, "it is asynchronous; use app.async_client() and await enqueue there")
    raise WrongConnection(tx, f"{_mistake(names)}a sync client takes {_listing(_SYNC, store)}")


def recognise_async(tx: object, store: BorrowingStore) -> AsyncBorrowed:
    """The adapter for an async client, or WrongConnection before anything is sent."""
    if isinstance(tx, AsyncOwnTransaction):
        return tx.borrowed
    names = _names(tx)
    for name in names:
        if kind := _ASYNC.get(name):
            _refuse_dialect(tx, kind, store)
            return AsyncTranslated(kind.adapt(tx, store))
    if any(name[0] == "django" and name in _SYNC for name in names) or _is_alias(tx):
        raise WrongConnection(tx, _DJANGO_IS_SYNC)
    if any(name in _SYNC for name in names):
        raise WrongConnection(tx, "it is synchronous; use app.client() and call enqueue there")
    raise WrongConnection(tx, f"{_mistake(names)}an async client takes {_listing(_ASYNC, store)}")


def _names(tx: object) -> list[tuple[str, str]]:
    """(library, class) of the object's class and of everything it derives from."""
    return [(kind.__module__.partition(".")[0], kind.__name__) for kind in type(tx).__mro__]


def _is_alias(tx: object) -> bool:
    return isinstance(tx, str) and tx in django_connection.aliases()


def _refuse_dialect(tx: object, kind: _Kind[Any], store: BorrowingStore) -> None:
    if store.dialect not in kind.dialects:
        theirs, ours = ("SQLite", "PostgreSQL") if store.dialect == "postgres" else ("PostgreSQL", "SQLite")
        raise WrongConnection(tx, f"it leads to {theirs}, but this app keeps its jobs in {ours}")


def _mistake(names: list[tuple[str, str]]) -> str:
    return next((f"{_MISTAKES[name]}; " for name in names if name in _MISTAKES), "")


def _listing(kinds: dict[tuple[str, str], _Kind[Any]], store: BorrowingStore) -> str:
    """What the client takes for its database, a library's classes together."""
    classes: dict[str, list[str]] = {}
    for (library, name), kind in kinds.items():
        if store.dialect in kind.dialects and library not in ("pysqlite3", "django"):
            classes.setdefault(library, []).append(name)
    if any(library == "django" for library, _ in kinds):
        classes["django"] = ["connection", "cursor or alias"]
    return "; ".join(f"{library} {', '.join(names)}" for library, names in classes.items())
