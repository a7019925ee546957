"""Prepared statements on connections of our own, past the cursors of psycopg.

A cursor makes itself, looks at the text, picks a dumper for each value and keeps the result: 40 calls in Python for
each statement, a fifth of what a statement costs in a process that was idle just before.  Our statements say all types
themselves, so the values go out as text, and the server finds out the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from psycopg.abc import PQGen
from psycopg.adapt import AdaptersMap, Transformer
from psycopg.errors import InvalidSqlStatementName, error_from_result
from psycopg.generators import execute
from psycopg.pq import ExecStatus, Format, TransactionStatus
from psycopg.pq.abc import PGresult

from holdfast.operations.statement import Rows

Connection = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]

#: as many as psycopg would keep; each has a plan of its own in the server's memory
_MOST = 100
#: the tables have changed since it was prepared, or somebody has discarded it: it has not run, and may be made anew
_STALE = {"0A000", "26000"}


@dataclass(frozen=True)
class _Context:
    """How a connection loads values, without holding on to it."""

    adapters: AdaptersMap
    connection: None = None


class PreparedStatements:
    """Those of one connection, by their texts; it speaks UTF-8."""

    def __init__(self, connection: Connection) -> None:
        self._pgconn = connection.pgconn
        self._transformer = Transformer(_Context(connection.adapters))
        #: the one that was used last comes last
        self._names: dict[bytes, bytes] = {}
        #: those that are known no more, until the server has forgotten them too
        self._unwanted: list[bytes] = []
        self._made = 0

    def run(self, text: bytes, values: Sequence[object]) -> PQGen[Rows]:
        """For `connection.wait`; texts have numbered parameters."""
        encoded = [None if value is None else _encoded(value) for value in values]
        is_alone = self._pgconn.transaction_status == TransactionStatus.IDLE
        try:
            result = yield from self._execute(text, encoded)
        except psycopg.Error as error:
            if error.sqlstate not in _STALE:
                raise
            if (stale := self._names.pop(text, None)) is None:  # it could not even be prepared
                raise
            self._unwanted.append(stale)
            if not is_alone:
                raise
            result = yield from self._execute(text, encoded)
        return self._rows(result)

    def _execute(self, text: bytes, encoded: Sequence[bytes | None]) -> PQGen[PGresult]:
        if (name := self._names.pop(text, None)) is None:
            name = yield from self._prepare(text)
        self._names[text] = name
        self._pgconn.send_query_prepared(name, encoded, result_format=Format.BINARY)
        return (yield from self._answered())

    def _prepare(self, text: bytes) -> PQGen[bytes]:
        if len(self._names) >= _MOST:
            self._unwanted.append(self._names.pop(next(iter(self._names))))
        while self._unwanted:
            self._pgconn.send_query(b"DEALLOCATE " + self._unwanted[-1])
            with suppress(InvalidSqlStatementName):  # somebody has discarded it
                yield from self._answered()
            self._unwanted.pop()
        self._made += 1
        name = b"holdfast_%d" % self._made
        self._pgconn.send_prepare(name, text)
        yield from self._answered()
        return name

    def _answered(self) -> PQGen[PGresult]:
        """A statement on its own may still fail when its rows are there, with its commit: any of its results counts."""
        results = yield from execute(self._pgconn)
        for result in results:
            if result.status == ExecStatus.FATAL_ERROR:
                raise error_from_result(result)
        if not results:
            raise psycopg.OperationalError("the server has not answered")
        first: PGresult = results[0]
        return first

    def _rows(self, result: PGresult) -> Rows:
        if not result.ntuples:
            return ()
        transformer = self._transformer
        transformer.set_pgresult(result)
        try:
            return transformer.load_rows(0, result.ntuples, tuple)
        finally:
            transformer.set_pgresult(None)


def _encoded(value: object) -> bytes:
    """Subclasses too: the names of queues and types may be members of an enum."""
    match value:
        case bool():
            data = b"t" if value else b"f"
        case int():
            data = b"%d" % value
        case str():
            data = str.encode(value)
        case _:
            raise psycopg.ProgrammingError(f"a prepared statement takes str, int, bool and None, not {value!r}")
    if b"\0" in data:  # which ends a text for libpq
        raise psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
    return data


_on: WeakKeyDictionary[Connection, PreparedStatements] = WeakKeyDictionary()


def allow_on(connection: Connection) -> None:
    """One that always reaches the same server process; its loaders are as they will be."""
    _on[connection] = PreparedStatements(connection)


def prepared_on(connection: Connection) -> PreparedStatements | None:
    """None if its statements may reach any server process."""
    return _on.get(connection)
