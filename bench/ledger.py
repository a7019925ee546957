"""What the database says about a drain: whether it is over, and how long it took by the database's own times."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from typing import Any

import psycopg

from bench.databases import Database

# Cheap while the drain runs: the first asks a partial index, the second a few rows.
_IS_OVER = """
SELECT NOT EXISTS (SELECT 1 FROM {job} WHERE status = 'pending' AND {held} AND crash_count = 0 AND queue = 'default')
   AND NOT EXISTS (SELECT 1 FROM {job} WHERE status = 'running' AND leased_by <> 'holder')
"""
_TIMES = "SELECT min(last_attempt_at), max(finished_at), count(*) FROM {job} WHERE status = 'completed'"


class Ledger:
    """Asks a database directly, past the library that is measured."""

    def __init__(self, connection: Any, dialect: str) -> None:
        self._connection = connection
        self._names = (
            {"job": "holdfast.job", "held": "NOT held AND NOT is_fair"}
            if dialect == "postgres"
            else {"job": "holdfast_job", "held": "held = 0 AND is_fair = 0"}
        )

    def is_over(self) -> bool:
        return bool(self._row(_IS_OVER)[0])

    def seconds(self, jobs: int) -> float:
        """From the first claim to the last completion; all `jobs` must be there."""
        began, ended, completed = self._row(_TIMES)
        if completed != jobs:
            raise RuntimeError(f"{completed} of {jobs} jobs are completed")
        if isinstance(began, str):
            began, ended = datetime.fromisoformat(began), datetime.fromisoformat(ended)
        return float((ended - began).total_seconds())

    def unhold(self) -> None:
        """As if claims had not met them yet."""
        self._connection.execute("UPDATE {job} SET held = false WHERE held".format(**self._names))

    def _row(self, query: str) -> Any:
        return self._connection.execute(query.format(**self._names)).fetchone()


@contextmanager
def open_ledger(database: Database) -> Iterator[Ledger]:
    if database.dialect == "postgres":
        with psycopg.connect(database.url, autocommit=True, prepare_threshold=None) as connection:
            yield Ledger(connection, database.dialect)
    else:
        with closing(sqlite3.connect(database.url.removeprefix("sqlite:///"), isolation_level=None)) as file:
            yield Ledger(file, database.dialect)
