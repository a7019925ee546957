"""How we open a SQLite file and run a script on it."""

from __future__ import annotations

import logging
import random
import sqlite3
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.errors import DatabaseBusy, DatabaseUnavailable, HoldfastError, NotMigrated, RowReferenced, StoreError
from holdfast.model.payload import from_json
from holdfast.operations.statement import Rows, Statement
from holdfast.stores.driver_errors import Meaning, meaning_of_result_code
from holdfast.stores.open import StoreConfig

if TYPE_CHECKING:
    from holdfast.stores.sqlite import SqliteStore

T = TypeVar("T")

_log = logging.getLogger("holdfast.stores.sqlite")
_OLDEST = (3, 37, 0)
#: a process that comes while another switches the journal, or that many others come with, waits this long
_OPENING_SECONDS = 30.0
#: own-transaction verbs give up after this
BUSY_SECONDS = 5.0
_WAL_RESET_FIXED = (3, 51, 3)
_warned: set[str] = set()


def connect(path: str, config: StoreConfig) -> sqlite3.Connection:
    """A connection of our own: no transactions behind our back, no waiting inside SQLite, foreign keys on."""
    if sqlite3.sqlite_version_info < _OLDEST:
        raise StoreError(f"SQLite {sqlite3.sqlite_version} is too old; Holdfast needs 3.37 or newer")
    _warn_of_wal_reset(config)
    try:
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)
        try:
            patiently(lambda: _set_journal(connection, config.journal), time.monotonic() + _OPENING_SECONDS)
            connection.execute(f"PRAGMA synchronous = {config.synchronous}")
            connection.execute("PRAGMA foreign_keys = ON")
        except BaseException:
            connection.close()
            raise
    except sqlite3.OperationalError as error:
        raise DatabaseUnavailable(f"cannot open {path}: {error}") from error
    except sqlite3.DatabaseError as error:
        raise StoreError(f"cannot use {path}: {error}") from error
    return connection


def _set_journal(connection: sqlite3.Connection, journal: str) -> None:
    """Only the first process to come changes it: the change needs the file for itself, and looking does not."""
    if connection.execute("PRAGMA journal_mode").fetchone()[0] != journal:
        if connection.execute("PRAGMA page_count").fetchone()[0] == 0:
            # Only a file that is still empty can be told to become smaller bit by bit.
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute(f"PRAGMA journal_mode = {journal}")


_NO_ROWS = "[]"
_NOTHING = (None, False, 0, _NO_ROWS)


def execute(connection: sqlite3.Connection, store: SqliteStore, statement: Statement) -> Rows:
    """Run every part in order.

    The first value of a part is a parameter of the parts after it, by the part's name; the result is that of the last
    part that has one.
    """
    script = store.script(statement)
    parameters: dict[str, Any] = store.parameters(statement)
    rows: Rows = []
    for part in script.parts:
        if part.needs and not any(parameters[name] not in _NOTHING for name in part.needs):
            value = _NO_ROWS if part.otherwise is None else parameters[part.otherwise]
            parameters[part.name] = value
            rows = [(value,)]
            continue
        if statement.rows is not None:
            first = [parameters[name] for name in part.parameters]
            for size, pieces in statement.rows():
                text = store.library.script(statement.name, {"rows": size}, statement.slots).parts[0].text
                connection.executemany(text, ([*first, *values] for values in pieces))
            continue
        cursor = connection.execute(part.text, parameters)  # which may have more than it names
        if cursor.description is not None:
            rows = cursor.fetchall()
            if rows:
                parameters[part.name] = rows[0][0]
        elif part.is_pragma:
            cursor.fetchall()  # it works for as long as it is read, and has no columns
    if script.returns_json_rows:
        decoded: Rows = from_json(rows[0][0])
        return decoded
    return rows


class _Translated:
    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, sqlite3.Error):
            raise _ours(error) from error


_translated = _Translated()


def translated() -> AbstractContextManager[None]:
    """sqlite3's errors on our own connections, as ours."""
    return _translated


def _ours(error: sqlite3.Error) -> HoldfastError:
    if isinstance(error, sqlite3.OperationalError):
        meaning = meaning_of_result_code(error.sqlite_errorcode, str(error))
        if meaning in (Meaning.BUSY, Meaning.STALE):
            return DatabaseBusy(0)
        if meaning is Meaning.NOT_MIGRATED:
            return NotMigrated(0, 1)
        kind = StoreError if error.sqlite_errorcode == sqlite3.SQLITE_ERROR else DatabaseUnavailable
        return kind(str(error))
    if isinstance(error, sqlite3.IntegrityError) and (
        meaning_of_result_code(error.sqlite_errorcode, str(error)) is Meaning.REFERENCED
    ):
        return RowReferenced(str(error))
    return StoreError(f"{type(error).__name__}: {error}")


def patiently(step: Callable[[], T], deadline: float) -> T:
    """Do it again, in short random steps, while somebody else has the lock.

    SQLite's own busy handler lets old waiters starve: of four writers one got 82 % of the writes and one none.
    """
    began = time.monotonic()
    while True:
        try:
            return step()
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
            if time.monotonic() >= deadline:
                raise DatabaseBusy(time.monotonic() - began) from None
            time.sleep(random.uniform(0.0002, 0.001))  # noqa: S311 - no secret


def is_busy(error: sqlite3.Error) -> bool:
    """Somebody else holds the lock."""
    return meaning_of_result_code(error.sqlite_errorcode, str(error)) in (Meaning.BUSY, Meaning.STALE)


def _warn_of_wal_reset(config: StoreConfig) -> None:
    if config.journal == "wal" and sqlite3.sqlite_version_info < _WAL_RESET_FIXED and "wal" not in _warned:
        _warned.add("wal")
        _log.info(
            "SQLite %s has the WAL-reset bug (3.7.0 to 3.51.2): two processes that checkpoint and write at the same "
            "instant can damage the file. Upgrade SQLite, or use App(…, journal='delete').",
            sqlite3.sqlite_version,
        )
