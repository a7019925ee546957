"""Questions to a database, past the library that is measured."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from typing import Any

import psycopg

_NAMES = {
    "postgres": {
        **{f"{{{table}}}": f"holdfast.{table}" for table in ("job", "job_blocker", "worker")},
        "{no}": "false",
        "{yes}": "true",
    },
    "sqlite": {
        **{f"{{{table}}}": f"holdfast_{table}" for table in ("job", "job_blocker", "worker")},
        "{no}": "0",
        "{yes}": "1",
    },
}


class Asking:
    """One connection; `{job}` and the like in a statement become what the dialect calls them."""

    def __init__(self, connection: Any, dialect: str) -> None:
        self._connection = connection
        self._dialect = dialect

    def rows(self, text: str) -> list[Any]:
        for name, word in _NAMES[self._dialect].items():
            text = text.replace(name, word)
        cursor = self._connection.execute(text)
        return list(cursor.fetchall()) if cursor.description else []

    def value(self, text: str) -> Any:
        """The first column of the first row."""
        return self.rows(text)[0][0]

    def moments(self, text: str) -> list[datetime]:
        """The first row, which holds times only."""
        return [datetime.fromisoformat(told) if isinstance(told, str) else told for told in self.rows(text)[0]]


@contextmanager
def asking(dialect: str, url: str) -> Iterator[Asking]:
    connection: Any = (
        psycopg.connect(url, autocommit=True, prepare_threshold=None)
        if dialect == "postgres"
        else sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None, timeout=60)
    )
    with closing(connection):
        yield Asking(connection, dialect)
