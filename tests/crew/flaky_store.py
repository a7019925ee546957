"""A store that cannot be relied on: by a seed, verbs fail before they are run, or after, and the answer is lost."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from holdfast.errors import DatabaseUnavailable, SerializationConflict
from holdfast.operations.statement import Verb
from holdfast.stores.postgres import PostgresAsyncStore, PostgresSyncStore
from holdfast.stores.sqlite import SqliteAsyncStore, SqliteSyncStore


@dataclass(frozen=True)
class FlakyStore:
    """To be armed in the process that is to suffer, like a fault; each share is of all verbs."""

    seed: int
    unsent: float = 0.1
    unanswered: float = 0.1
    conflicting: float = 0.05

    def arm(self) -> None:
        dice = random.Random(self.seed)  # noqa: S311 - repeatable, not secret
        for asynchronous in (PostgresAsyncStore, SqliteAsyncStore):
            self._wrap_async(asynchronous, dice)
        for sync in (PostgresSyncStore, SqliteSyncStore):
            self._wrap_sync(sync, dice)

    def _before(self, dice: random.Random) -> None:
        chance = dice.random()
        if chance < self.unsent:
            raise DatabaseUnavailable("the dice cut the connection before the verb")
        if chance < self.unsent + self.conflicting:
            raise SerializationConflict("the dice made a conflict")

    def _after(self, dice: random.Random) -> None:
        if dice.random() < self.unanswered:
            raise DatabaseUnavailable("the dice cut the connection after the verb")

    def _wrap_async(self, store: Any, dice: random.Random) -> None:
        original = store.run

        async def run(itself: Any, verb: Verb[Any], **options: Any) -> Any:
            self._before(dice)
            answer = await original(itself, verb, **options)
            self._after(dice)
            return answer

        store.run = run

    def _wrap_sync(self, store: Any, dice: random.Random) -> None:
        original = store.run

        def run(itself: Any, verb: Verb[Any], **options: Any) -> Any:
            self._before(dice)
            answer = original(itself, verb, **options)
            self._after(dice)
            return answer

        store.run = run
