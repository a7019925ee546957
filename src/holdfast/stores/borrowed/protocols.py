"""Types for tx=, so that a type checker knows what each client takes without the libraries being installed.

They are told apart by what a commit returns: nothing, or something to await.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Protocol, TypeAlias

from holdfast.stores.borrowed.own_transaction import AsyncOwnTransaction, OwnTransaction


class SyncConnection(Protocol):
    """psycopg, sqlite3 and SQLAlchemy connections; Session and scoped_session."""

    def commit(self) -> None: ...
    def rollback(self) -> None: ...
    def execute(self, *args: Any, **kwargs: Any) -> Any: ...


class SyncCursor(Protocol):
    """psycopg and sqlite3 cursors."""

    @property
    def connection(self) -> SyncConnection: ...
    def close(self) -> None: ...
    def fetchone(self) -> Any: ...


class DjangoConnection(Protocol):
    """What Django's `connections` hold: it commits by leaving a block, and executes through cursors only."""

    def commit(self) -> None: ...
    def rollback(self) -> None: ...
    def on_commit(self, func: Any, robust: bool = ...) -> None: ...  # noqa: FBT001 - Django's signature


class DjangoProxy(Protocol):
    """`django.db.connection`: all it has by itself is a way to what it stands for."""

    def __getattr__(self, item: str, /) -> Any: ...
    def __contains__(self, key: Any, /) -> bool: ...


class DjangoCursor(Protocol):
    """What `connection.cursor()` of Django returns."""

    @property
    def db(self) -> DjangoConnection: ...


class AsyncConnection(Protocol):
    """psycopg, aiosqlite and SQLAlchemy async connections; AsyncSession and async_scoped_session."""

    def commit(self) -> Awaitable[None]: ...
    def rollback(self) -> Awaitable[None]: ...
    def execute(self, *args: Any, **kwargs: Any) -> Any: ...


class AsyncCursor(Protocol):
    """psycopg's async cursors."""

    @property
    def connection(self) -> AsyncConnection: ...
    def close(self) -> Awaitable[None]: ...
    def fetchone(self) -> Awaitable[Any]: ...


class AsyncpgConnection(Protocol):
    """asyncpg connections, which commit through their transactions only."""

    def is_in_transaction(self) -> bool: ...
    def transaction(self, *args: Any, **kwargs: Any) -> Any: ...
    def fetch(self, *args: Any, **kwargs: Any) -> Awaitable[Any]: ...


class AsyncpgPoolProxy(Protocol):
    """What asyncpg's pools hand out: its methods are made at run time, this one a type checker can see."""

    def _detach(self) -> Any: ...


#: what `tx=` of the sync client takes; a str is an alias of Django's DATABASES
SyncTransaction: TypeAlias = (
    SyncConnection | SyncCursor | DjangoConnection | DjangoProxy | DjangoCursor | OwnTransaction | str
)
#: what `tx=` of the async client takes
AsyncTransaction: TypeAlias = AsyncConnection | AsyncCursor | AsyncpgConnection | AsyncpgPoolProxy | AsyncOwnTransaction
