"""LISTEN/NOTIFY: one sending thread and one listening connection per process, both expendable."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import threading
import time
from collections.abc import Iterable

import psycopg

from holdfast.model.fork import forget_after_fork
from holdfast.notify.polling import PollingWaker
from holdfast.operations.drive import drive
from holdfast.operations.notify_work import notify_work
from holdfast.operations.statement import Rows, Statement
from holdfast.sql import SqlLibrary, Style

_log = logging.getLogger("holdfast.notify")
_library = SqlLibrary("postgres", "holdfast", "", Style.PYFORMAT)

_PING_SECONDS = 15.0
#: hints of one process are at least this far apart: the first leaves at once, the rest gather
_DEBOUNCE_SECONDS = 0.005
#: a hint inside the commit saves a round trip, but all of the server's notifying commits wait for each other: rarely
_RIDE_SECONDS = 0.02
_LONGEST_BACKOFF = 5.0


class PostgresHinter:
    """Sends hints from its own thread and connection, after the commit they tell of.

    Whatever gathers while one NOTIFY is under way goes out with the next: an idle system adds no delay, and a thousand
    enqueues do not make a thousand notifications.
    """

    def __init__(self, conninfo: str, channel: str) -> None:
        self._conninfo = conninfo
        self._channel = channel
        self._queues: set[str] = set()
        self._wake = threading.Condition()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._last_ride = 0.0
        forget_after_fork(self)

    def after_fork(self) -> None:
        self._queues, self._wake, self._thread = set(), threading.Condition(), None

    def may_ride_along(self) -> bool:
        now = time.monotonic()
        with self._wake:
            if now - self._last_ride < _RIDE_SECONDS:
                return False
            self._last_ride = now
            return True

    def hint(self, queues: Iterable[str]) -> None:
        with self._wake:
            self._queues.update(queues)
            if self._thread is None and not self._closing.is_set():
                self._thread = threading.Thread(target=self._serve, name="holdfast-hinter", daemon=True)
                self._thread.start()
            self._wake.notify()

    def close(self) -> None:
        with self._wake:
            self._closing.set()
            self._wake.notify()
        if self._thread is not None:
            self._thread.join(timeout=5)
            self._thread = None

    def _serve(self) -> None:
        connection: psycopg.Connection | None = None
        while True:
            with self._wake:
                while not self._queues and not self._closing.is_set():
                    self._wake.wait()
                queues, self._queues = self._queues, set()
            if not queues:
                break
            try:
                connection = connection or psycopg.connect(
                    self._conninfo, autocommit=True, prepare_threshold=None, connect_timeout=5
                )
                _send(connection, self._channel, queues)
            except psycopg.Error as error:
                # A lost hint costs a poll interval, so it is not worth a retry.
                _log.debug("hint not sent: %s", error)
                if connection is not None:
                    connection.close()
                    connection = None
            self._closing.wait(_DEBOUNCE_SECONDS)
        if connection is not None:
            connection.close()


def _send(connection: psycopg.Connection, channel: str, queues: Iterable[str]) -> None:
    def execute(statement: Statement) -> Rows:
        part = _library.script(statement.name).parts[0]
        return connection.execute(part.encoded, statement.parameters).fetchall()

    drive(notify_work(channel, queues, is_alone=True), execute)


class PostgresWaker(PollingWaker):
    """Listens on a connection of its own; reconnects for ever, and polling goes on meanwhile."""

    def __init__(self, conninfo: str, channel: str, queues: frozenset[str], lease_channel: str | None = None) -> None:
        super().__init__()
        self._conninfo = conninfo
        self._channel = channel
        self._queues = queues
        self.lease_channel = lease_channel
        #: the workers whose jobs were touched; None = perhaps any
        self._touched: set[str] | None = set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._listen(), name="holdfast-listener")

    async def wait(self, timeout: float) -> None:
        self.start()
        await super().wait(timeout)

    def has_lease_news(self, worker_id: str) -> bool:
        touched, self._touched = self._touched, set()
        return touched is None or worker_id in touched

    def be_connected(self) -> None:
        """Hints sent while nobody listened are lost; look once."""
        self._touched = None
        self.poke()

    def hear(self, payload: str) -> None:
        """Hints for other queues are ignored."""
        if payload in self._queues:
            self.poke()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _listen(self) -> None:
        backoff = 0.1
        while True:
            try:
                async with await psycopg.AsyncConnection.connect(
                    self._conninfo, autocommit=True, prepare_threshold=None, connect_timeout=5
                ) as connection:
                    for channel in filter(None, (self._channel, self.lease_channel)):
                        await connection.execute(f'LISTEN "{channel}"'.encode())  # a checked identifier
                    backoff = 0.1
                    self.be_connected()
                    await self._receive(connection)
            except (psycopg.Error, OSError, TimeoutError) as error:
                _log.debug("listener: %s; again in %.1f s", error, backoff)
            await asyncio.sleep(backoff * random.uniform(0.5, 1.5))  # noqa: S311 - no secret
            backoff = min(backoff * 2, _LONGEST_BACKOFF)

    async def _receive(self, connection: psycopg.AsyncConnection) -> None:
        """Pass hints on; a silent connection is pinged, because a half-open one stays silent for ever."""
        while True:
            async for notification in connection.notifies(timeout=_PING_SECONDS):
                if notification.channel == self.lease_channel:
                    if self._touched is not None:
                        self._touched.add(notification.payload)
                else:
                    self.hear(notification.payload)
            async with asyncio.timeout(_PING_SECONDS):
                await connection.execute("SELECT 1")


class PostgresChainListener(PostgresWaker):
    """Hears of the ends of chains, on a channel of its own."""

    def __init__(self, conninfo: str, channel: str) -> None:
        super().__init__(conninfo, channel, frozenset())
        self._told: set[str] | None = set()

    def be_connected(self) -> None:
        self._told = None
        self.poke()

    def hear(self, payload: str) -> None:
        if self._told is not None:
            self._told.add(payload)
        self.poke()

    def news(self) -> set[str] | None:
        told, self._told = self._told, set()
        return told
