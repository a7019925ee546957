"""What SQLSTATEs and result codes mean, and what our own connections make of them."""

from __future__ import annotations

import sqlite3

import psycopg
import pytest

from holdfast.errors import (
    DatabaseBusy,
    DatabaseUnavailable,
    HoldfastError,
    NotMigrated,
    SerializationConflict,
)
from holdfast.stores.driver_errors import Meaning, meaning_of_result_code, meaning_of_sqlstate
from holdfast.stores.postgres import translated


@pytest.mark.parametrize(
    ("sqlstate", "meaning"),
    [
        ("40001", Meaning.CONFLICT),
        ("40P01", Meaning.CONFLICT),
        ("25006", Meaning.READ_ONLY),
        ("25P02", Meaning.ABORTED),
        ("25P03", Meaning.UNAVAILABLE),
        ("08006", Meaning.UNAVAILABLE),
        ("53100", Meaning.UNAVAILABLE),
        ("57P01", Meaning.UNAVAILABLE),
        ("57P03", Meaning.UNAVAILABLE),
        ("42P01", Meaning.NOT_MIGRATED),
        ("3F000", Meaning.NOT_MIGRATED),
        ("40003", None),  # a class of which only two are conflicts
        ("57014", None),  # a timeout that the user set, or his cancel
        ("55P03", None),  # the same for locks
        ("42501", None),
        ("23505", Meaning.CONFLICT),
    ],
)
def test_sqlstates(sqlstate: str, meaning: Meaning | None) -> None:
    """The longest entry counts; what concerns the statement alone has no meaning."""
    assert meaning_of_sqlstate(sqlstate) is meaning


@pytest.mark.parametrize(
    ("code", "message", "meaning"),
    [
        (sqlite3.SQLITE_BUSY, "", Meaning.BUSY),
        (sqlite3.SQLITE_BUSY_RECOVERY, "", Meaning.BUSY),
        (sqlite3.SQLITE_LOCKED_SHAREDCACHE, "", Meaning.BUSY),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, "", Meaning.STALE),
        (sqlite3.SQLITE_READONLY_DBMOVED, "", Meaning.READ_ONLY),
        (sqlite3.SQLITE_IOERR_FSYNC, "", Meaning.UNAVAILABLE),
        (sqlite3.SQLITE_FULL, "", Meaning.UNAVAILABLE),
        (sqlite3.SQLITE_ERROR, "no such table: holdfast_job", Meaning.NOT_MIGRATED),
        (sqlite3.SQLITE_ERROR, "no such column: tenant", None),
        (sqlite3.SQLITE_CONSTRAINT_UNIQUE, "", None),
        (sqlite3.SQLITE_INTERRUPT, "", None),
    ],
)
def test_result_codes(code: int, message: str, meaning: Meaning | None) -> None:
    """Extended codes mean what their plain ones do, but for the snapshot that is too old."""
    assert meaning_of_result_code(code, message) is meaning


@pytest.mark.parametrize(
    ("error", "ours"),
    [
        (psycopg.errors.SerializationFailure, SerializationConflict),
        (psycopg.errors.DeadlockDetected, SerializationConflict),
        (psycopg.errors.UndefinedTable, NotMigrated),
        (psycopg.errors.InvalidSchemaName, NotMigrated),
        (psycopg.errors.AdminShutdown, DatabaseUnavailable),
        (psycopg.errors.ReadOnlySqlTransaction, DatabaseUnavailable),
        (psycopg.errors.QueryCanceled, DatabaseUnavailable),
        (psycopg.OperationalError, DatabaseUnavailable),
        (psycopg.InterfaceError, DatabaseUnavailable),
        (psycopg.errors.UniqueViolation, SerializationConflict),
    ],
)
def test_on_our_own_connections(error: type[psycopg.Error], ours: type[HoldfastError]) -> None:
    """Nothing of the driver's comes through; a server that only reads is a replica, and trying again may help."""
    with pytest.raises(ours) as caught, translated():
        raise error("the driver's words")
    assert type(caught.value) is ours
    assert isinstance(caught.value.__cause__, error)
    assert not isinstance(caught.value, DatabaseBusy)
