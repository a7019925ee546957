"""What the database itself says of a drain, past the library that is measured."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg

from bench.databases import Database

_COSTS = """
SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn,
       (SELECT wal_fpi FROM pg_stat_wal),
       (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database())
"""
_STATEMENTS = """
SELECT sum(calls) FROM pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


#: what a reader wants to know of a server
_SETTINGS = (
    "server_version",
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "shared_buffers",
    "max_wal_size",
    "jit",
)


class Asking:
    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._is_counting = False

    def run(self, statement: str) -> None:
        self._connection.execute(statement)

    def value(self, query: str) -> Any:
        return self._connection.execute(query).fetchone()[0]

    def is_true(self, query: str) -> bool:
        return bool(self.value(query))

    def server_settings(self) -> dict[str, str]:
        return {name: str(self.value(f"SHOW {name}")) for name in _SETTINGS}

    def count_statements(self) -> None:
        """Where the server has what counts them: those of sessions that begin from now on, without this one."""
        with contextlib.suppress(psycopg.Error):
            self.run("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
            self.run("SET pg_stat_statements.track = 'none'")
            database = self.value("SELECT quote_ident(current_database())")
            self.run(f"ALTER DATABASE {database} SET pg_stat_statements.track = 'top'")
            self.value(_STATEMENTS)
            self._is_counting = True

    def costs(self) -> dict[str, float]:
        written, images, transactions = self._connection.execute(_COSTS).fetchone()
        costs = {
            "WAL bytes per job": float(written),
            "full-page images per job": float(images),
            "transactions per job": float(transactions),
        }
        if self._is_counting:
            costs["statements per job"] = float(self.value(_STATEMENTS) or 0)
        return costs


@contextmanager
def asking_of(database: Database) -> Iterator[Asking]:
    if database.dialect == "postgres":
        with psycopg.connect(database.url, autocommit=True, prepare_threshold=None) as connection:
            yield Asking(connection)
    else:
        with closing(sqlite3.connect(database.url.removeprefix("sqlite:///"), isolation_level=None)) as file:
            yield Asking(file)
