"""What the errors of drivers mean: by SQLSTATE on PostgreSQL, by result code on SQLite."""

from __future__ import annotations

import enum
import sqlite3


class Meaning(enum.Enum):
    """What may be the matter with a database, or with a transaction."""

    CONFLICT = enum.auto()
    READ_ONLY = enum.auto()
    ABORTED = enum.auto()
    UNAVAILABLE = enum.auto()
    NOT_MIGRATED = enum.auto()
    BUSY = enum.auto()
    #: the isolation level may hide whom the statement must see
    HIDDEN = enum.auto()
    #: a row of the application refers to what was to be deleted
    REFERENCED = enum.auto()
    #: SQLite: somebody wrote since the transaction first read, so it can never write
    STALE = enum.auto()


#: whole SQLSTATEs, or their first two characters, which are their class
_BY_SQLSTATE = {
    "08": Meaning.UNAVAILABLE,  # connection exceptions
    "23001": Meaning.REFERENCED,  # ON DELETE RESTRICT, from PostgreSQL 18 on
    "23503": Meaning.REFERENCED,
    "23505": Meaning.CONFLICT,  # two claims met in one partition key; other uniqueness is asked for, not run into
    "25006": Meaning.READ_ONLY,
    "25P02": Meaning.ABORTED,
    "25P03": Meaning.UNAVAILABLE,  # the server closed it: idle in a transaction for too long
    "25P04": Meaning.UNAVAILABLE,  # as above: the transaction lasted too long
    "3F000": Meaning.NOT_MIGRATED,  # no such schema
    "40001": Meaning.CONFLICT,  # serialization failure
    "40P01": Meaning.CONFLICT,  # deadlock
    "42P01": Meaning.NOT_MIGRATED,  # no such table
    "53": Meaning.UNAVAILABLE,  # disk full, out of memory, too many connections
    "57P": Meaning.UNAVAILABLE,  # the server shuts down, starts up or dropped the connection
    "HF008": Meaning.HIDDEN,  # our own: see seen_chains
    "58": Meaning.UNAVAILABLE,  # errors of the server's operating system
}

_BY_RESULT_CODE = {
    sqlite3.SQLITE_BUSY: Meaning.BUSY,
    sqlite3.SQLITE_LOCKED: Meaning.BUSY,
    sqlite3.SQLITE_READONLY: Meaning.READ_ONLY,
    sqlite3.SQLITE_IOERR: Meaning.UNAVAILABLE,
    sqlite3.SQLITE_FULL: Meaning.UNAVAILABLE,
    sqlite3.SQLITE_CANTOPEN: Meaning.UNAVAILABLE,
    sqlite3.SQLITE_AUTH: Meaning.ABORTED,  # of borrowed connections, by ourselves
}


def meaning_of_sqlstate(sqlstate: str) -> Meaning | None:
    """None for what concerns the statement alone."""
    return next((found for size in (5, 3, 2) if (found := _BY_SQLSTATE.get(sqlstate[:size]))), None)


def meaning_of_result_code(code: int, message: str) -> Meaning | None:
    """The same for SQLite, whose extended codes end in the plain one; a missing table has no code of its own."""
    if code == sqlite3.SQLITE_BUSY_SNAPSHOT:
        return Meaning.STALE
    if code == sqlite3.SQLITE_ERROR and "no such table" in message:
        return Meaning.NOT_MIGRATED
    # ON DELETE RESTRICT is a trigger to SQLite, and only its words tell it from others.
    if code in (sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY, sqlite3.SQLITE_CONSTRAINT_TRIGGER) and "FOREIGN KEY" in message:
        return Meaning.REFERENCED
    return _BY_RESULT_CODE.get(code & 0xFF)
