"""A look into the database that owes nothing to the code under test."""

from __future__ import annotations

import contextlib
import sqlite3
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import psycopg
from psycopg.sql import SQL

from tests.crew.waiting import wait_for


class Row(NamedTuple):
    """What the tests ask of a job."""

    id: str
    type_name: str
    status: str
    attempt: int
    crash_count: int
    lease_generation: int
    leased_by: str | None
    seq: int
    error: str | None


@dataclass(frozen=True)
class Database:
    """Where the jobs of one test live."""

    url: str

    @property
    def is_postgres(self) -> bool:
        return self.url.startswith("postgresql")

    @property
    def job(self) -> str:
        return self.table("job")

    def table(self, name: str) -> str:
        return f"holdfast.{name}" if self.is_postgres else f"holdfast_{name}"

    @property
    def path(self) -> str:
        return self.url.removeprefix("sqlite:///")

    def query(self, text: str) -> list[tuple[Any, ...]]:
        if self.is_postgres:
            with psycopg.connect(self.url, autocommit=True) as connection:
                cursor = connection.execute(SQL(cast("Any", text)))
                return cursor.fetchall() if cursor.description is not None else []
        with contextlib.closing(sqlite3.connect(self.path, isolation_level=None, timeout=10)) as connection:
            return connection.execute(text).fetchall()

    def jobs(self) -> list[Row]:
        return [
            Row(str(row[0]), *row[1:])
            for row in self.query(
                "SELECT id, type_name, status, attempt, crash_count, lease_generation, leased_by, seq, "
                f"CAST(last_attempt_error AS text) FROM {self.job} ORDER BY seq"
            )
        ]

    def row(self, job_id: str) -> Row:
        return next(row for row in self.jobs() if row.id == job_id)

    def statuses(self) -> Counter[str]:
        return Counter(dict(self.query(f"SELECT status, count(*) FROM {self.job} GROUP BY 1")))

    def unfinished(self) -> int:
        query = f"SELECT count(*) FROM {self.job} WHERE status NOT IN ('completed', 'dead_letter', 'cancelled')"
        return int(self.query(query)[0][0])

    def wait_finished(self, patience: float = 60.0) -> Counter[str]:
        """Until every job is in a terminal state; says what is stuck if not."""
        try:
            wait_for(lambda: self.unfinished() == 0, "every job finished", patience=patience)
        except AssertionError as error:
            stuck = [row for row in self.jobs() if row.status in {"pending", "running", "blocked"}]
            raise AssertionError(f"{error}; {self.statuses()}, stuck: {stuck[:5]}") from None
        return self.statuses()

    def wait_status(self, job_id: str, status: str, patience: float = 40.0) -> Row:
        wait_for(lambda: self.row(job_id).status == status, f"{job_id} {status}", patience=patience)
        return self.row(job_id)

    def workers(self) -> dict[str, str]:
        return dict(self.query(f"SELECT id, status FROM {self.table('worker')}"))

    def wait_registered(self, pid: int) -> str:
        """The worker's id, once it has one."""
        query = f"SELECT id FROM {self.table('worker')} WHERE id LIKE '%-{pid}-%'"
        return str(wait_for(lambda: self.query(query), f"the worker of process {pid}")[0][0])

    @contextlib.contextmanager
    def write_lock(self) -> Iterator[None]:
        """Nobody writes jobs while the block runs: their statements wait inside the database."""
        if self.is_postgres:
            with psycopg.connect(self.url) as connection:
                connection.execute("LOCK TABLE holdfast.job IN SHARE MODE")
                yield
                connection.rollback()
        else:
            with contextlib.closing(sqlite3.connect(self.path, isolation_level=None, timeout=10)) as connection:
                connection.execute("BEGIN IMMEDIATE")
                yield
                connection.execute("ROLLBACK")

    @contextlib.contextmanager
    def paused_update(self, condition: str) -> Iterator[None]:
        """On PostgreSQL: a job whose update meets the condition stands still in the middle of it while the block runs.

        A lock on the table would stop a statement that is not prepared yet before it has begun, and a lock on the rows
        is skipped by those that skip what is locked.
        """
        with psycopg.connect(self.url, autocommit=True) as gate:
            gate.execute("SELECT pg_advisory_lock(42)")
            gate.execute(
                "CREATE OR REPLACE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS "
                "'BEGIN PERFORM pg_advisory_xact_lock(42); RETURN NEW; END'"
            )
            gate.execute(
                "CREATE TRIGGER pause BEFORE UPDATE ON holdfast.job FOR EACH ROW "
                f"WHEN ({condition}) EXECUTE FUNCTION pause()".encode()
            )
            try:
                yield
            finally:
                gate.execute("SELECT pg_advisory_unlock(42)")
                gate.execute("DROP TRIGGER pause ON holdfast.job")

    @property
    def is_writable(self) -> bool:
        """On SQLite a process that is stopped inside a write transaction keeps everybody from writing."""
        if self.is_postgres:
            return True
        with contextlib.closing(sqlite3.connect(self.path, isolation_level=None, timeout=0.2)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return False
            connection.execute("ROLLBACK")
            return True

    def wait_blocked_statement(self, words: str) -> None:
        """Until a backend waits for a lock in a statement that contains `words`."""
        query = (
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
            f"AND datname = current_database() AND query LIKE '%{words}%'"
        )
        wait_for(lambda: self.query(query)[0][0], f"a statement with {words!r} waits for a lock")
