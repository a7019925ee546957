"""Prepared statements on connections of our own, past the cursors of psycopg.

A cursor makes itself, looks at the text, picks a dumper for each value and keeps the result: 40 calls in Python for
each statement, a fifth of what a statement costs in a process that was idle just before.  Our statements say all types
themselves, so the values go out as text, and the server finds out the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from psycopg.abc import PQGen
from psycopg.adapt import AdaptersMap, Transformer
from psycopg.errors import error_from_result
from psycopg.generators import execute
from psycopg.pq import ExecStatus, Format
from psycopg.pq.abc import PGresult

from holdfast.operations.statement import Rows

Connection = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]

#: as many as psycopg would keep; each has a plan of its own in the server's memory
_MOST = 100
#: what a statement is worth no more when the tables have changed, or somebody has discarded it
_STALE = {"0A000", "26000"}

_ENCODERS: Mapping[type, Callable[[Any], bytes]] = {
    str: str.encode,
    int: lambda value: b"%d" % value,
    bool: lambda value: b"t" if value else b"f",
}


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
        self._made = 0

    def run(self, text: bytes, values: Sequence[object]) -> PQGen[Rows]:
        """For `connection.wait`; texts have numbered parameters."""
        encoded = [None if value is None else self._encoded(value) for value in values]
        name = self._names.pop(text, None) or (yield from self._prepare(text))
        self._names[text] = name
        self._pgconn.send_query_prepared(name, encoded, result_format=Format.BINARY)
        (result,) = yield from execute(self._pgconn)
        if result.status == ExecStatus.FATAL_ERROR:
            error = error_from_result(result)
            if error.sqlstate in _STALE:
                del self._names[text]
            raise error
        return self._rows(result)

    def _encoded(self, value: object) -> bytes:
        data = _ENCODERS[type(value)](value)
        if b"\0" in data:  # which ends a text for libpq
            raise psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
        return data

    def _prepare(self, text: bytes) -> PQGen[bytes]:
        while len(self._names) >= _MOST:
            oldest = next(iter(self._names))
            yield from self._do(b"DEALLOCATE " + self._names.pop(oldest))
        self._made += 1
        name = b"holdfast_%d" % self._made
        self._pgconn.send_prepare(name, text)
        yield from self._answered()
        return name

    def _do(self, text: bytes) -> PQGen[None]:
        self._pgconn.send_query(text)
        yield from self._answered()

    def _answered(self) -> PQGen[None]:
        (result,) = yield from execute(self._pgconn)
        if result.status == ExecStatus.FATAL_ERROR:
            raise error_from_result(result)

    def _rows(self, result: PGresult) -> Rows:
        if not result.ntuples:
            return ()
        transformer = self._transformer
        transformer.set_pgresult(result)
        try:
            return transformer.load_rows(0, result.ntuples, tuple)
        finally:
            transformer.set_pgresult(None)


_on: WeakKeyDictionary[Connection, PreparedStatements] = WeakKeyDictionary()


def allow_on(connection: Connection) -> None:
    """One that always reaches the same server process; its loaders are as they will be."""
    _on[connection] = PreparedStatements(connection)


def prepared_on(connection: Connection) -> PreparedStatements | None:
    """None if its statements may reach any server process."""
    return _on.get(connection)
