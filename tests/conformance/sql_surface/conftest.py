"""A database with the SQL surface, an app on it, and people who may do only what their role allows."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row, tuple_row

from holdfast import App, Job, Retry, WorkerConfig
from holdfast.operations.migrate import create_roles
from tools.postgres_server import PostgresAddress, available

#: of a Python worker that has nothing to do but to take jobs from the dead
REAPER = WorkerConfig(
    queues=["elsewhere"],
    heartbeat=timedelta(seconds=0.3),
    dead_after=timedelta(seconds=1.5),
    lease=timedelta(seconds=4),
    renew=timedelta(seconds=1),
    is_notified=False,
)
ROLES = ("producer", "worker", "reader", "operator")
_TABLES = (
    *("job", "job_type", "job_attempt", "job_blocker", "job_step", "job_log", "worker", "prefetch"),
    *("retired", "deduplication", "processed", "audit", "setting", "waiter", "queue", "queue_share", "limited_key"),
    *("schedule", "job_archive"),
)


def psql_program() -> Path:
    """The one of the locked wheel, which every development environment has."""
    newest = max(available().items())[1]
    program = newest / "psql"
    assert program.is_file(), f"{program} is missing; run: python3 dev.py check"
    return program


@dataclass
class Surface:
    """Where a test happens. `{s}` in SQL stands for the schema."""

    url: str
    schema: str
    app: App
    #: what the handlers of the app were called with
    calls: list[dict[str, Any]] = field(default_factory=list)
    _connections: dict[str, psycopg.Connection[Any]] = field(default_factory=dict)

    def url_of(self, role: str) -> str:
        return self.url.replace("//postgres@", f"//{self.schema}_a_{role}@")

    def connect(self, role: str | None = None, *, autocommit: bool = True) -> psycopg.Connection[Any]:
        url = self.url if role is None else self.url_of(role)
        return psycopg.connect(url, autocommit=autocommit, row_factory=tuple_row)

    def sql(self, text: str, *parameters: object, role: str | None = None) -> list[Any]:
        """Rows as tuples, on a connection of the owner or of somebody with a role."""
        key = role or ""
        if key not in self._connections:
            self._connections[key] = self.connect(role)
        cursor = self._connections[key].execute(self.text(text), parameters or None)
        return cursor.fetchall() if cursor.description else []

    def one(self, text: str, *parameters: object, role: str | None = None) -> Any:
        """The only value."""
        ((value,),) = self.sql(text, *parameters, role=role)
        return value

    def is_somebody_waiting(self) -> bool:
        """For a lock, in this database: others of the same server have waits of their own."""
        waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        return bool(self.sql(waiting))

    def text(self, text: str) -> bytes:
        return text.replace("{s}", self.schema).encode()

    def refusal(self, text: str, *parameters: object, role: str | None = None) -> str:
        """The SQLSTATE of what is refused."""
        with pytest.raises(psycopg.Error) as caught:
            self.sql(text, *parameters, role=role)
        assert caught.value.sqlstate is not None
        return caught.value.sqlstate

    def psql(self, text: str, role: str, /, **variables: str) -> str:
        """What psql prints, unaligned; it runs in one transaction and stops at the first error."""
        options = ["-X", "-A", "-t", "-q", "-1", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=sqlstate"]
        settings = [f"--set={name}={value}" for name, value in variables.items()]
        ended = subprocess.run(
            [psql_program(), *options, *settings, "-f", "-", self.url_of(role)],
            input=text.replace("{s}", self.schema), check=False, capture_output=True, text=True, timeout=60,
            env={name: value for name, value in os.environ.items() if not name.startswith("PG")},
        )  # fmt: skip
        if ended.returncode:
            raise PsqlFailed(ended.stderr)
        return ended.stdout.strip()

    def job(self, job_id: object) -> Job:
        with self.app.client() as client:
            return client.get_job(str(job_id))

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """Everything that a call might change, for comparison."""
        with psycopg.connect(self.url, row_factory=dict_row) as connection:
            return {
                table: connection.execute(
                    self.text(f"SELECT to_json(t)::text AS row FROM {{s}}.{table} AS t ORDER BY 1")
                ).fetchall()
                for table in _TABLES
            }

    def enqueue(self, type_name: str = "note", **options: Any) -> str:
        """As the owner, by named arguments."""
        given = "".join(f", {name} => %s" for name in options)
        return str(self.one(f"SELECT {{s}}.enqueue(%s{given})", type_name, *options.values()))

    def claim(self, worker: str = "w1", **options: object) -> list[dict[str, Any]]:
        given = "".join(f", {name} => %s" for name in options)
        with psycopg.connect(self.url, autocommit=True, row_factory=dict_row) as connection:
            text = self.text(f"SELECT * FROM {{s}}.claim(%s{given})")
            return list(connection.execute(text, [worker, *options.values()]).fetchall())

    def claim_one(self, worker: str = "w1") -> tuple[str, int]:
        """Id and generation."""
        (job,) = self.claim(worker)
        return str(job["id"]), job["lease_generation"]

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        self.app.close()


class PsqlFailed(Exception):
    """Carries what psql wrote to stderr, the SQLSTATE among it."""


def make_app(url: str, schema: str, calls: list[dict[str, Any]], **options: Any) -> App:
    app = App(url, schema=schema, notify=False, **options)

    @app.job(queue="default", retry=Retry(max_attempts=3, initial=0))
    def note(number: int = 0, text: str | None = None) -> str:
        calls.append({"number": number, "text": text})
        return f"noted {number}"

    @app.job(queue="bulk", priority=7, timeout=30, expires=3600)
    def bulky() -> None:
        calls.append({"bulky": True})

    @app.job(retry=Retry(max_attempts=1))
    def broken() -> None:
        raise RuntimeError("no")

    return app


@pytest.fixture(scope="session")
def surface_database(postgres_server: PostgresAddress, worker_id: str) -> Iterator[tuple[str, str]]:
    """A migrated database of this test worker. Roles belong to the server, so the schema's name keeps them apart."""
    name = schema = f"surface_{worker_id}"
    url = postgres_server.create_database(name)
    app = make_app(url, schema, [])
    with app.client() as client:
        client.migrate()
    store = app.store.sync()
    store.run(create_roles)
    store.close()
    app.close()
    with psycopg.connect(url, autocommit=True) as connection:
        for role in ROLES:
            connection.execute(f'CREATE ROLE "{schema}_a_{role}" LOGIN IN ROLE "{schema}_{role}"'.encode())
    yield url, schema
    postgres_server.drop_database(name)
    with psycopg.connect(postgres_server.url(), autocommit=True) as connection:
        for role in ROLES:
            connection.execute(f'DROP ROLE "{schema}_a_{role}"'.encode())
            connection.execute(f'DROP ROLE "{schema}_{role}"'.encode())


@pytest.fixture
def surface(surface_database: tuple[str, str]) -> Iterator[Surface]:
    """The database without rows but those of the job types."""
    url, schema = surface_database
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("; ".join(f"DELETE FROM {schema}.{table}" for table in _TABLES).encode())
    calls: list[dict[str, Any]] = []
    surface = Surface(url, schema, make_app(url, schema, calls), calls)
    for name, options in {
        "note": "max_attempts => 3, retry_initial => '0'",
        "bulky": "queue => 'bulk', priority => 7, timeout => '30 s', expires => '1 h'",
        "broken": "max_attempts => 1",
    }.items():
        surface.sql(f"SELECT {{s}}.register_type('{name}', {options})")
    yield surface
    surface.close()
