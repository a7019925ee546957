"""SIGKILL at a chosen moment of a chosen statement, whoever in the process sends it, on whatever connection."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NoReturn

from psycopg import BaseConnection
from psycopg._cursor_base import BaseCursor

from holdfast.operations import drive as runners
from holdfast.operations.statement import Operation, Rows, Statement, Verb
from holdfast.stores.postgres import PostgresAsyncStore, PostgresSyncStore
from holdfast.stores.sqlite import SqliteAsyncStore, SqliteSyncStore


class When(StrEnum):
    """Seen from the process that dies."""

    BEFORE = "before the statement is sent"
    SENT = "when PostgreSQL has it and the answer is not read"
    ANSWERED = "when its answer is read; a transaction is still open, if there is one"
    COMMITTED = "when the verb is over, committed or refused"


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable: SIGKILL cannot be survived")


#: set between the order to execute the doomed statement and its end
_is_doomed: ContextVar[bool] = ContextVar("is_doomed", default=False)


@dataclass(frozen=True)
class Death:
    """Of the process that sends `statement` for the first time."""

    statement: str
    when: When

    def arm(self) -> None:
        if self.when is When.COMMITTED:
            self._arm_stores()
            return
        if self.when is When.SENT:
            _arm_cursors()
        self._arm_runners()

    def _arm_runners(self) -> None:
        """Everything that is sent goes through one of the two; whoever has imported one gets ours instead."""
        plain, asynchronous = runners.drive, runners.adrive

        def drive(operation: Operation[Any], execute: Callable[[Statement], Rows], begin: Any = None) -> Any:
            def deadly(statement: Statement) -> Rows:
                self._before(statement)
                try:
                    return execute(statement)
                finally:
                    self._after(statement)

            return plain(operation, deadly, begin)

        async def adrive(
            operation: Operation[Any], execute: Callable[[Statement], Awaitable[Rows]], begin: Any = None
        ) -> Any:
            async def deadly(statement: Statement) -> Rows:
                self._before(statement)
                try:
                    return await execute(statement)
                finally:
                    self._after(statement)

            return await asynchronous(operation, deadly, begin)

        for name, module in list(sys.modules.items()):
            if name.startswith("holdfast"):
                for attribute, old, new in (("drive", plain, drive), ("adrive", asynchronous, adrive)):
                    if getattr(module, attribute, None) is old:
                        setattr(module, attribute, new)

    def _before(self, statement: Statement) -> None:
        if statement.name == self.statement:
            if self.when is When.BEFORE:
                die()
            _is_doomed.set(True)

    def _after(self, statement: Statement) -> None:
        """An error is an answer, too."""
        if statement.name == self.statement:
            die()

    def _arm_stores(self) -> None:
        for asynchronous in (PostgresAsyncStore, SqliteAsyncStore):
            _wrap_async(asynchronous, self.statement)
        for sync in (PostgresSyncStore, SqliteSyncStore):
            _wrap_sync(sync, self.statement)


def _arm_cursors() -> None:
    """Psycopg hands the statement to libpq in these two, and begins to wait for the answer afterwards."""
    for name in ("_execute_send", "_send_query_prepared"):
        _wrap_sending(name)


def _wrap_sending(name: str) -> None:
    original = getattr(BaseCursor, name)

    def send(self: BaseCursor[BaseConnection[Any], Any], *args: Any, **options: Any) -> None:
        original(self, *args, **options)
        if _is_doomed.get():
            while self._pgconn.flush():
                pass
            die()

    setattr(BaseCursor, name, send)


class _Watched:
    """Whether a verb has sent the statement; on SQLite it may be run again, alone, after running in company."""

    def __init__(self, verb: Verb[Any], statement: str) -> None:
        self._verb = verb
        self._statement = statement
        self._has_sent = False

    def end(self) -> None:
        if self._has_sent:
            die()

    def __call__(self) -> Operation[Any]:
        operation = self._verb()
        try:
            statement = next(operation)
            while True:
                self._has_sent |= statement.name == self._statement
                statement = operation.send((yield statement))
        except StopIteration as end:
            return end.value
        finally:
            operation.close()


def _wrap_async(store: Any, statement: str) -> None:
    original = store.run

    async def run(self: Any, verb: Verb[Any], **options: Any) -> Any:
        watched = _Watched(verb, statement)
        try:
            return await original(self, watched, **options)
        finally:
            watched.end()

    store.run = run


def _wrap_sync(store: Any, statement: str) -> None:
    original = store.run

    def run(self: Any, verb: Verb[Any], **options: Any) -> Any:
        watched = _Watched(verb, statement)
        try:
            return original(self, watched, **options)
        finally:
            watched.end()

    store.run = run
