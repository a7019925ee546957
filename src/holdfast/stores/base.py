"""The contract of a store: it runs verbs, in transactions of its own or in the caller's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from holdfast.operations.migrate import Migration
from holdfast.operations.statement import Verb
from holdfast.stores.borrowed import AsyncBorrowed, Borrowed

T = TypeVar("T")


class SyncStore(Protocol):
    """For threads."""

    @property
    def migrates_itself(self) -> bool:
        """Whether `ensure_ready` migrates instead of raising NotMigrated."""
        ...

    def run(self, verb: Verb[T], *, read_only: bool = False) -> T:
        """Run in a transaction of our own."""
        ...

    def borrow(self, tx: object) -> Borrowed:
        """The caller's connection or session, checked and inside its transaction; drive verbs on it with `drive`."""
        ...

    def ensure_ready(self) -> None:
        """Raise NotMigrated or SchemaTooNew unless this code can work; looks only once."""

    def migrate(self) -> Sequence[Migration]:
        """Apply what is missing."""
        ...

    def close(self) -> None:
        """Give back connections; idempotent."""

    def interrupt(self) -> None:
        """Break every connection, from any thread: nobody answers on them. The next verb opens new ones."""


class AsyncStore(Protocol):
    """For one event loop."""

    @property
    def migrates_itself(self) -> bool:
        """Whether `ensure_ready` migrates instead of raising NotMigrated."""
        ...

    async def run(self, verb: Verb[T], *, read_only: bool = False) -> T:
        """Run in a transaction of our own."""
        ...

    async def borrow(self, tx: object) -> AsyncBorrowed:
        """The caller's connection or session, checked and inside its transaction; drive verbs on it with `adrive`."""
        ...

    async def ensure_ready(self) -> None:
        """Raise NotMigrated or SchemaTooNew unless this code can work; looks only once."""

    async def migrate(self) -> Sequence[Migration]:
        """Apply what is missing."""
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

    def pending_sql(self, found: int = 0) -> str:
        """What `migrate` would run on a database of schema `found`, as one transaction; empty if nothing."""
        ...
