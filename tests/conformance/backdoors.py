"""Plain SQL past the store, for the harness: see `holdfast.testing.conformance.Backdoor`."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

import psycopg
from psycopg.sql import SQL

from tests.crew.leaks import keep_open


class SqliteBackdoor:
    def __init__(self, path: str) -> None:
        self._path = path

    def execute(self, text: str, parameters: Mapping[str, object]) -> Sequence[Sequence[Any]]:
        with closing(self._connect()) as connection:
            return connection.execute(text, parameters).fetchall()

    @contextmanager
    def holding(self, text: str, parameters: Mapping[str, object]) -> Iterator[None]:
        with closing(self._connect()) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(text, parameters)
            yield
            connection.execute("ROLLBACK")

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None, timeout=5)
        connection.execute("PRAGMA synchronous = off")
        return connection


class PostgresBackdoor:
    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: psycopg.Connection[Any] | None = None

    def execute(self, text: str, parameters: Mapping[str, object]) -> Sequence[Sequence[Any]]:
        if self._connection is None:
            self._connection = psycopg.connect(self._url, autocommit=True)
            keep_open(self._connection.fileno())
        cursor = self._connection.execute(_in_psycopgs_style(text), parameters)
        return [] if cursor.description is None else cursor.fetchall()

    @contextmanager
    def holding(self, text: str, parameters: Mapping[str, object]) -> Iterator[None]:
        with psycopg.connect(self._url) as connection:
            connection.execute(_in_psycopgs_style(text), parameters)
            yield
            connection.rollback()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


def _in_psycopgs_style(text: str) -> SQL:
    return SQL(re.sub(r":(\w+)", r"%(\1)s", text.replace("%", "%%")))
