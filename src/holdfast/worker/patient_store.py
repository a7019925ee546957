"""The worker's way to the database: an answer that does not come is a failure, never a reason to wait for ever."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import TypeVar

from holdfast.errors import DatabaseUnavailable
from holdfast.operations.statement import Verb
from holdfast.stores import AsyncStore
from holdfast.stores.borrowed import AsyncBorrowed, AsyncOwnTransaction

T = TypeVar("T")


class PatientStore:
    """Gives up on a connection that is half open; the verb may have happened, as after any lost connection."""

    def __init__(self, store: AsyncStore, patience: timedelta) -> None:
        self._store = store
        self._patience = patience.total_seconds()

    @property
    def place(self) -> str | None:
        return self._store.place

    @property
    def claims_plainly(self) -> bool:
        return self._store.claims_plainly

    async def ensure_ready(self) -> None:
        await self._store.ensure_ready()

    async def run(self, verb: Verb[T], *, read_only: bool = False) -> T:
        try:
            async with asyncio.timeout(self._patience):
                return await self._store.run(verb, read_only=read_only)
        except TimeoutError:
            raise DatabaseUnavailable(f"no answer from the database within {self._patience:g} s") from None

    async def borrow(self, tx: object) -> AsyncBorrowed:
        return await self._store.borrow(tx)

    def transaction(self) -> AbstractAsyncContextManager[AsyncOwnTransaction]:
        return self._store.transaction()

    async def close(self) -> None:
        await self._store.close()
