"""Accidents at a chosen point: a worker process that dies, or loses its connection, around one of its statements."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NoReturn

from holdfast.errors import DatabaseUnavailable
from holdfast.operations.statement import Rows, Statement, Verb
from holdfast.stores.postgres import PostgresAsyncStore, PostgresSyncStore
from holdfast.stores.sqlite import SqliteAsyncStore, SqliteSyncStore


class Point(StrEnum):
    """When, seen from the statement."""

    BEFORE = "before it is sent"
    INSIDE = "when it has run; on SQLite before the commit"
    AFTER = "after the database has answered"
    UNSENT = "the connection is lost before it is sent"
    UNANSWERED = "the connection is lost after it was committed"


DEATHS = (Point.BEFORE, Point.INSIDE, Point.AFTER)


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable: SIGKILL cannot be survived")


@dataclass(frozen=True)
class Fault:
    """Something happens around the `nth` run of the verb `name`."""

    name: str
    point: Point
    nth: int = 1

    def arm(self) -> None:
        """Wrap `run` of every store in this process."""
        left = self.nth

        def is_due(verb: Verb[Any]) -> bool:
            nonlocal left
            operation = verb()
            operation.close()
            if operation.__name__ != self.name:
                return False
            left -= 1
            return left == 0

        def deadly(verb: Verb[Any]) -> Verb[Any]:
            def operation() -> Generator[Statement, Rows, Any]:
                yield from verb()
                _die()

            return operation

        def fated(verb: Verb[Any]) -> tuple[Verb[Any], bool]:
            """What to run instead, and whether to die of it."""
            if not is_due(verb):
                return verb, False
            if self.point is Point.BEFORE:
                _die()
            if self.point is Point.UNSENT:
                raise DatabaseUnavailable("the test cut the connection")
            return (deadly(verb) if self.point is Point.INSIDE else verb), True

        def end() -> NoReturn:
            if self.point is Point.UNANSWERED:
                raise DatabaseUnavailable("the test cut the connection")
            _die()

        def arm_async(store: Any) -> None:
            original = store.run

            async def run(self: Any, verb: Verb[Any], **options: Any) -> Any:
                verb, is_last = fated(verb)
                result = await original(self, verb, **options)
                return end() if is_last else result

            store.run = run

        def arm_sync(store: Any) -> None:
            original = store.run

            def run(self: Any, verb: Verb[Any], **options: Any) -> Any:
                verb, is_last = fated(verb)
                result = original(self, verb, **options)
                return end() if is_last else result

            store.run = run

        for asynchronous in (PostgresAsyncStore, SqliteAsyncStore):
            arm_async(asynchronous)
        for sync in (PostgresSyncStore, SqliteSyncStore):
            arm_sync(sync)
