"""The contract of a store: it runs verbs, in transactions of its own or in the caller's."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Protocol, TypeVar

from holdfast.operations.migrate import Migration
from holdfast.operations.statement import Bulk, Verb
from holdfast.stores.borrowed import AsyncBorrowed, AsyncOwnTransaction, Borrowed, OwnTransaction

T = TypeVar("T")


class SyncAccess(Protocol):
    """What a handler needs of a store, for threads."""

    def run(self, verb: Verb[T], *, read_only: bool = False) -> T:
        """Run in a transaction of our own."""
        ...

    def borrow(self, tx: object) -> Borrowed:
        """The caller's connection or session, checked and inside its transaction; drive verbs on it with `drive`."""
        ...

    def transaction(self) -> AbstractContextManager[OwnTransaction]:
        """A transaction for somebody else to write in, on a connection of its own; ends with the block."""
        ...


class SyncStore(SyncAccess, Protocol):
    """For threads."""

    def borrow(self, tx: object, *, read_only: bool = False) -> Borrowed:
        """As above; to read only, nothing is locked that a reader need not lock."""
        ...

    @property
    def migrates_itself(self) -> bool:
        """Whether `ensure_ready` migrates instead of raising NotMigrated."""
        ...

    @property
    def bulk(self) -> Bulk | None:
        """What `run` can send beside documents."""
        ...

    @property
    def place(self) -> str | None:
        """What tells a file from a copy of it; None where the database itself knows."""
        ...

    def ensure_ready(self) -> None:
        """Raise NotMigrated or SchemaTooNew unless this code can work; looks only once."""

    def migrate(self) -> Sequence[Migration]:
        """Apply what is missing."""
        ...

    def enable_incremental_vacuum(self) -> None:
        """Rewrite a SQLite file so that it can become smaller bit by bit; InvalidOption elsewhere."""
        ...

    def close(self) -> None:
        """Give back connections; idempotent."""

    def interrupt(self) -> None:
        """Break every connection, from any thread: nobody answers on them. The next verb opens new ones."""


class AsyncAccess(Protocol):
    """What a handler needs of a store, for one event loop."""

    async def run(self, verb: Verb[T], *, read_only: bool = False) -> T:
        """Run in a transaction of our own."""
        ...

    async def borrow(self, tx: object) -> AsyncBorrowed:
        """The caller's connection or session, checked and inside its transaction; drive verbs on it with `adrive`."""
        ...

    def transaction(self) -> AbstractAsyncContextManager[AsyncOwnTransaction]:
        """A transaction for somebody else to write in, on a connection of its own; ends with the block."""
        ...


class AsyncStore(AsyncAccess, Protocol):
    """For one event loop."""

    async def borrow(self, tx: object, *, read_only: bool = False) -> AsyncBorrowed:
        """As above; to read only, nothing is locked that a reader need not lock."""
        ...

    @property
    def migrates_itself(self) -> bool:
        """Whether `ensure_ready` migrates instead of raising NotMigrated."""
        ...

    @property
    def bulk(self) -> Bulk | None:
        """What `run` can send beside documents."""
        ...

    @property
    def claims_plainly(self) -> bool:
        """Whether there is a shorter claim for jobs without keys and limits."""
        ...

    @property
    def place(self) -> str | None:
        """What tells a file from a copy of it; None where the database itself knows."""
        ...

    async def ensure_ready(self) -> None:
        """Raise NotMigrated or SchemaTooNew unless this code can work; looks only once."""

    async def migrate(self) -> Sequence[Migration]:
        """Apply what is missing."""
        ...

    async def enable_incremental_vacuum(self) -> None:
        """Rewrite a SQLite file so that it can become smaller bit by bit; InvalidOption elsewhere."""
        ...

    async def close(self) -> None:
        """Give back connections; idempotent."""


class Store(Protocol):
    """A database, from which faces for threads and for an event loop are made."""

    @property
    def url(self) -> str:
        """Where it is, without a password."""
        ...

    @property
    def dialect(self) -> str:
        """`postgres` or `sqlite`."""
        ...

    def refusal(self) -> str | None:
        """Why no connection can be made at this moment, in the database's words; None if one can."""

    def sync(self) -> SyncStore: ...

    def asynchronous(self) -> AsyncStore: ...

    def known_migrations(self) -> Sequence[Migration]:
        """Every migration that ships with this code, oldest first."""
        ...

    def pending_sql(self, found: int = 0, stamp: str | None = None) -> str:
        """What `migrate` would run on a database of schema `found` with the functions of `stamp`; empty if nothing.

        As one transaction.
        """
        ...

    def roles_sql(self) -> str:
        """What creates roles that may only enqueue, work or look; empty on SQLite, which knows no roles."""
        ...
