"""A SQLite file and a PostgreSQL database that can be emptied quickly."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from holdfast import App
from tools.postgres_server import PostgresAddress

_TABLES = (
    *("job", "job_attempt", "job_blocker", "job_step", "job_signal", "job_log", "deduplication", "processed", "audit"),
    *("worker", "retired", "prefetch"),
)


@pytest.fixture
def two_databases(
    postgres_server: PostgresAddress, sqlite_path: Path, worker_id: str
) -> Iterator[tuple[list[str], Callable[[], None]]]:
    """Their URLs, and what empties both."""
    name = f"stateful_{worker_id}"
    postgres, sqlite = postgres_server.create_database(name), f"sqlite:///{sqlite_path}"
    for url in (postgres, sqlite):
        with App(url, auto_migrate=True).client() as client:
            client.migrate()

    def reset() -> None:
        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute("; ".join(f"DELETE FROM holdfast.{table}" for table in _TABLES).encode())
        with contextlib.closing(sqlite3.connect(sqlite_path, isolation_level=None)) as file:
            for table in _TABLES:
                file.execute(f"DELETE FROM holdfast_{table}")

    yield [sqlite, postgres], reset
    postgres_server.drop_database(name)
