"""The sending end of NOTIFY."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

import psycopg

from holdfast.model.fork import forget_after_fork
from holdfast.operations.drive import drive
from holdfast.operations.notify_work import notify_work
from holdfast.operations.statement import Rows, Statement
from holdfast.sql import SqlLibrary, Style

_log = logging.getLogger("holdfast.notify")
_library = SqlLibrary("postgres", "holdfast", "", Style.PYFORMAT)

#: hints of one process are at least this far apart: the first leaves at once, the rest gather
_DEBOUNCE_SECONDS = 0.005


class PostgresSender:
    """Sends hints from its own thread and connection, after the commit they tell of.

    Whatever gathers while one NOTIFY is under way goes out with the next: an idle system adds no delay, and a thousand
    enqueues do not make a thousand notifications.
    """

    def __init__(self, conninfo: str, channel: str) -> None:
        self._conninfo = conninfo
        self._channel = channel
        self._waiting: dict[str, set[str]] = {}
        self._wake = threading.Condition()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        #: by which a listener of the same process knows what it has been told already
        self.backend_pid: int | None = None
        forget_after_fork(self)

    def after_fork(self) -> None:
        self._waiting, self._wake, self._thread, self.backend_pid = {}, threading.Condition(), None, None

    def send(self, payloads: Iterable[str], channel: str | None = None) -> None:
        """From any thread, without waiting; after `close` it says nothing."""
        with self._wake:
            self._waiting.setdefault(channel or self._channel, set()).update(payloads)
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
                while not self._waiting and not self._closing.is_set():
                    self._wake.wait()
                waiting, self._waiting = self._waiting, {}
            if not waiting:
                break
            try:
                connection = connection or self._connect()
                for channel, payloads in waiting.items():
                    drive(notify_work(channel, payloads, is_alone=True), _executor(connection))
            except psycopg.Error as error:
                # A lost hint costs a poll interval, so it is not worth a retry.
                _log.debug("hint not sent: %s", error)
                if connection is not None:
                    connection.close()
                    connection = None
            self._closing.wait(_DEBOUNCE_SECONDS)
        if connection is not None:
            connection.close()

    def _connect(self) -> psycopg.Connection:
        connection = psycopg.connect(self._conninfo, autocommit=True, prepare_threshold=None, connect_timeout=5)
        self.backend_pid = connection.info.backend_pid
        return connection


def _executor(connection: psycopg.Connection) -> Callable[[Statement], Rows]:
    def execute(statement: Statement) -> Rows:
        part = _library.script(statement.name).parts[0]
        return connection.execute(part.encoded, statement.parameters).fetchall()

    return execute
