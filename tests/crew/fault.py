"""Accidents at a chosen point: a worker process that dies, or loses its connection, around one of its statements."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NoReturn, Protocol

from holdfast.errors import DatabaseUnavailable
from holdfast.operations.statement import Rows, Statement, Verb
from holdfast.stores.postgres import PostgresAsyncStore, PostgresSyncStore
from holdfast.stores.sqlite import SqliteAsyncStore, SqliteSyncStore


class Accident(Protocol):
    """What is prepared in a worker process before it begins."""

    def arm(self) -> None: ...


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
        fate = _Fate(self)
        for asynchronous in (PostgresAsyncStore, SqliteAsyncStore):
            _wrap_async(asynchronous, fate)
        for sync in (PostgresSyncStore, SqliteSyncStore):
            _wrap_sync(sync, fate)


class _Fate:
    """Counts the runs, and knows what to do with the one that counts."""

    def __init__(self, fault: Fault) -> None:
        self._fault = fault
        self._left = fault.nth

    def meets(self, verb: Verb[Any]) -> bool:
        operation: Any = verb()
        operation.close()
        if operation.__name__ != self._fault.name:
            return False
        self._left -= 1
        return self._left == 0

    def begin(self, verb: Verb[Any]) -> Verb[Any]:
        """What to run instead."""
        match self._fault.point:
            case Point.BEFORE:
                _die()
            case Point.UNSENT:
                raise DatabaseUnavailable("the test cut the connection")
            case Point.INSIDE:
                return _deadly(verb)
            case _:
                return verb

    def end(self) -> NoReturn:
        if self._fault.point is Point.UNANSWERED:
            raise DatabaseUnavailable("the test cut the connection")
        _die()


def _deadly(verb: Verb[Any]) -> Verb[Any]:
    def operation() -> Generator[Statement, Rows, Any]:
        yield from verb()
        _die()

    return operation


def _wrap_async(store: Any, fate: _Fate) -> None:
    original = store.run

    async def run(self: Any, verb: Verb[Any], **options: Any) -> Any:
        if not fate.meets(verb):
            return await original(self, verb, **options)
        await original(self, fate.begin(verb), **options)
        return fate.end()

    store.run = run


def _wrap_sync(store: Any, fate: _Fate) -> None:
    original = store.run

    def run(self: Any, verb: Verb[Any], **options: Any) -> Any:
        if not fate.meets(verb):
            return original(self, verb, **options)
        original(self, fate.begin(verb), **options)
        return fate.end()

    store.run = run
