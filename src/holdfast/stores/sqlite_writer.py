"""The process's one writer for a SQLite file: whatever has queued up becomes one transaction.

One fsync serves all: batching gains a factor of 48 where more writers gain nothing.  A thread writes; only who waits
for the result anyway and finds it idle writes for himself, because handing a verb over and its result back takes longer
than its transaction.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.errors import ClientClosed, DatabaseBusy
from holdfast.operations.drive import drive
from holdfast.operations.statement import Rows, Statement, Verb
from holdfast.stores.sqlite_connection import BUSY_SECONDS, execute, patiently, translated

if TYPE_CHECKING:
    from holdfast.stores.sqlite import SqliteStore

T = TypeVar("T")

_MOST = 1000

_writers: dict[tuple[object, ...], SqliteWriter] = {}
_registry = threading.Lock()


def _after_fork() -> None:
    """The parent's writers are its own (the key holds its process id); a lock held in it is held for ever here."""
    global _registry  # noqa: PLW0603 - one registry for the process
    _registry = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class _OwnFuture:
    """Of who writes for himself: nobody else waits for it or cancels it, so it needs no lock."""

    __slots__ = ("_error", "_is_done", "_result")

    def __init__(self) -> None:
        self._is_done = False
        self._error: BaseException | None = None
        self._result: Any = None

    def set_running_or_notify_cancel(self) -> bool:
        return True

    def done(self) -> bool:
        return self._is_done

    def set_result(self, result: Any) -> None:
        self._result, self._is_done = result, True

    def set_exception(self, error: BaseException) -> None:
        self._error, self._is_done = error, True

    def result(self) -> Any:
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # its traceback leads here again
        return self._result


class _Item:
    __slots__ = ("deadline", "future", "verb")

    def __init__(self, verb: Verb[Any], future: Future[Any] | _OwnFuture) -> None:
        self.verb = verb
        self.future = future
        self.deadline = time.monotonic() + BUSY_SECONDS


class SqliteWriter:
    """Runs submitted verbs, coalesced; shared by everything in the process that writes to the file."""

    def __init__(self, store: SqliteStore, forget: Callable[[], None]) -> None:
        self._store = store
        self._forget = forget
        self.users = 0
        self._items: deque[_Item] = deque()
        #: itself, and not the condition, is what is entered: a signal cannot come between its steps
        self._lock = threading.RLock()
        self._wake = threading.Condition(self._lock)
        self._is_closing = False
        #: the thread that writes now, and has the connection
        self._writing: int | None = None
        self._connection: sqlite3.Connection | None = None
        self._thread = threading.Thread(target=self._serve, name="holdfast-writer", daemon=True)
        self._thread.start()

    def submit(self, verb: Verb[T]) -> Future[T]:
        """Queue a verb; the future has its result once the transaction is on disk."""
        future: Future[T] = Future()
        self._queue(_Item(verb, future))
        return future

    def run(self, verb: Verb[T]) -> T:
        """The same for a thread that waits for the result anyway."""
        own = threading.get_ident()
        if self._writing == own:
            # A signal handler or a finalizer, amid a write of its own thread that goes on only when it returns.
            raise DatabaseBusy(0, "this thread is amid another write; do not enqueue in a signal handler")
        future: Future[T] | _OwnFuture = _OwnFuture()
        try:
            if self._take_if_idle():
                self._write([_Item(verb, future)])
            else:
                future = self.submit(verb)
        finally:
            # Without a call before it is done: a Ctrl-C must not leave the connection taken for ever.
            with self._lock:
                if self._writing == own:
                    self._writing = None
                    self._call_thread()
        result: T = future.result()
        return result

    def _queue(self, item: _Item) -> None:
        with self._lock:
            if self._is_closing:
                raise ClientClosed
            self._items.append(item)
            if self._writing is None:
                self._call_thread()

    def _take_if_idle(self) -> bool:
        with self._lock:
            is_idle = self._writing is None and not self._items and not self._is_closing
            if is_idle:
                self._writing = threading.get_ident()
            return is_idle

    def _call_thread(self) -> None:
        if self._items or self._is_closing:
            self._wake.notify()

    def release(self) -> None:
        """One user less; the last one stops the thread after what is queued."""
        with _registry:
            self.users -= 1
            if self.users > 0:
                return
            self._forget()
        with self._lock:
            self._is_closing = True
            self._call_thread()
            is_amid_write = self._writing == threading.get_ident()
        if not is_amid_write:  # as a signal handler may be: what it interrupted is finished first
            self._thread.join()

    def _serve(self) -> None:
        while True:
            with self._lock:
                while self._writing is not None or not (self._items or self._is_closing):
                    self._wake.wait()
                if not self._items:
                    break
                taken = [self._items.popleft() for _ in range(min(len(self._items), _MOST))]
                self._writing = threading.get_ident()
            self._write(taken)
            with self._lock:
                self._writing = None
        if self._connection is not None:
            self._connection.close()

    def _write(self, taken: list[_Item]) -> None:
        # Whoever gave up waiting gets nothing written; from here on it is too late to give up.
        batch = [item for item in taken if item.future.set_running_or_notify_cancel()]
        if not batch:
            return
        try:
            with translated():
                self._connection = self._connection or self._store.connect()
                self._run_batch(self._connection, batch)
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits
            for item in batch:
                if not item.future.done():
                    item.future.set_exception(error)
            # A connection that failed in an unforeseen way (disk full, file gone) is not trusted again.
            if not isinstance(error, DatabaseBusy):
                connection, self._connection = self._connection, None
                if connection is not None:
                    connection.close()

    def _run_batch(self, connection: sqlite3.Connection, batch: list[_Item]) -> None:
        try:
            self._transaction(connection, batch)
        except DatabaseBusy:
            raise
        except Exception:
            if len(batch) == 1:
                raise
            # One of them spoilt the common transaction: each alone, so that the others do not pay for it.
            for item in batch:
                try:
                    with translated():
                        self._transaction(connection, [item])
                except Exception as error:  # noqa: BLE001 - handed to whoever waits
                    item.future.set_exception(error)

    def _transaction(self, connection: sqlite3.Connection, batch: list[_Item]) -> None:
        deadline = min(item.deadline for item in batch)

        def run(statement: Statement) -> Rows:
            if not connection.in_transaction:
                if statement.is_whole:
                    return patiently(lambda: execute(connection, self._store, statement), deadline)
                patiently(lambda: connection.execute("BEGIN IMMEDIATE"), deadline)
            return execute(connection, self._store, statement)

        try:
            if len(batch) > 1:
                patiently(lambda: connection.execute("BEGIN IMMEDIATE"), deadline)
            results = [drive(item.verb(), run) for item in batch]
            if connection.in_transaction:
                patiently(lambda: connection.execute("COMMIT"), deadline)
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        for item, result in zip(batch, results, strict=True):
            item.future.set_result(result)


def shared_writer(store: SqliteStore) -> SqliteWriter:
    """The writer of the file, made when the first user asks."""
    key = (os.getpid(), store.path, store.library.prefix, store.config)
    with _registry:
        writer = _writers.get(key)
        if writer is None:
            writer = _writers[key] = SqliteWriter(store, lambda: _writers.__delitem__(key))
        writer.users += 1
        return writer
