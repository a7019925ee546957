"""What the database itself can do: a bare table and the shortest statements, without fence, retry or types."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import sqlite3
import statistics
import time
from collections.abc import Iterator

import psycopg

from holdfast.model.ids import new_ids

BATCH = 500
_PAYLOAD = {"order_id": 100_000, "email": "someone.longer@example.com"}

_POSTGRES_TABLE = """
CREATE TABLE raw_job (
    id uuid PRIMARY KEY, seq bigint GENERATED ALWAYS AS IDENTITY, queue text NOT NULL DEFAULT 'default',
    ready_at timestamptz NOT NULL DEFAULT now(), status text NOT NULL DEFAULT 'pending', payload jsonb NOT NULL,
    attempt int NOT NULL DEFAULT 0, leased_until timestamptz, finished_at timestamptz
);
CREATE INDEX ON raw_job (queue, ready_at, seq) WHERE status = 'pending'
"""
_POSTGRES_INSERT = """
INSERT INTO raw_job (id, payload) SELECT id, payload
FROM json_to_recordset(%s::json) AS sent (id uuid, payload jsonb)
"""
_POSTGRES_CLAIM = f"""
WITH picked AS MATERIALIZED (
    SELECT ctid FROM raw_job WHERE status = 'pending' AND queue = 'default' ORDER BY ready_at, seq LIMIT {BATCH}
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE raw_job SET status = 'running', attempt = attempt + 1, leased_until = now() + interval '1 minute'
WHERE ctid = ANY (ARRAY(SELECT ctid FROM picked)) RETURNING id::text, payload::text
"""
_POSTGRES_COMPLETE = """
UPDATE raw_job SET status = 'completed', finished_at = now(), leased_until = NULL
WHERE id = ANY (%s::uuid[]) AND status = 'running'
"""

_SQLITE_TABLE = """
CREATE TABLE raw_job (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, queue TEXT NOT NULL DEFAULT 'default',
    ready_at TEXT NOT NULL DEFAULT '', status TEXT NOT NULL DEFAULT 'pending', payload TEXT NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0, leased_until TEXT, finished_at TEXT
);
CREATE INDEX raw_claim ON raw_job (queue, ready_at, seq) WHERE status = 'pending';
"""
_SQLITE_CLAIM = f"""
UPDATE raw_job SET status = 'running', attempt = attempt + 1, leased_until = 'later' WHERE seq IN (
    SELECT seq FROM raw_job WHERE status = 'pending' AND queue = 'default' ORDER BY ready_at, seq LIMIT {BATCH}
) RETURNING seq, payload
"""


def measure(dialect: str, url: str, jobs: int) -> tuple[float, float]:
    """Batch-inserted rows per second, and claimed and completed jobs per second, by one client."""
    create(dialect, url)
    insert_seconds = insert(dialect, url, jobs, 5000)
    began = time.perf_counter()
    for _ in claims(dialect, url):
        pass
    return jobs / insert_seconds, jobs / (time.perf_counter() - began)


def create(dialect: str, url: str) -> None:
    if dialect == "postgres":
        with psycopg.connect(url, autocommit=True) as connection:
            for statement in _POSTGRES_TABLE.split(";"):
                connection.execute(statement.encode())
        return
    with _open_sqlite(url) as file:
        file.executescript(_SQLITE_TABLE)


def insert(dialect: str, url: str, jobs: int, batch: int) -> float:
    """The seconds that the database takes for so many rows; what makes them is not counted."""
    return _insert_postgres(url, jobs, batch) if dialect == "postgres" else _insert_sqlite(url, jobs, batch)


def claims(dialect: str, url: str) -> Iterator[int]:
    """Claims and completes, batch by batch, until nothing is left to claim; the size of each batch."""
    return _claims_postgres(url) if dialect == "postgres" else _claims_sqlite(url)


def _insert_postgres(url: str, jobs: int, batch: int) -> float:
    seconds = 0.0
    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
        for start in range(0, jobs, batch):
            rows = [{"id": job_id, "payload": _PAYLOAD} for job_id in new_ids(min(batch, jobs - start))]
            document = json.dumps(rows)
            began = time.perf_counter()
            connection.execute(_POSTGRES_INSERT, [document])
            seconds += time.perf_counter() - began
        connection.execute("ANALYZE raw_job")
    return seconds


def _claims_postgres(url: str) -> Iterator[int]:
    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
        while claimed := connection.execute(_POSTGRES_CLAIM.encode()).fetchall():
            connection.execute(_POSTGRES_COMPLETE, [[job_id for job_id, _ in claimed]])
            yield len(claimed)


def singles(dialect: str, url: str, jobs: int) -> float:
    """Rows per second, one insert and one commit each."""
    document = json.dumps(_PAYLOAD)
    if dialect == "postgres":
        with psycopg.connect(url, autocommit=True, prepare_threshold=0) as connection:
            began = time.perf_counter()
            for job_id in new_ids(jobs):
                connection.execute("INSERT INTO raw_job (id, payload) VALUES (%s, %s)", [job_id, document])
            return jobs / (time.perf_counter() - began)
    with _open_sqlite(url) as file:
        began = time.perf_counter()
        for job_id in new_ids(jobs):
            file.execute("INSERT INTO raw_job (id, payload) VALUES (?, ?)", [job_id, document])
        return jobs / (time.perf_counter() - began)


def postgres_latency(url: str, samples: int) -> float:
    """Median milliseconds from before an insert with NOTIFY to the claimed row in another process's hands."""
    with (
        psycopg.connect(url, autocommit=True, prepare_threshold=0) as connection,
        multiprocessing.get_context("spawn").Pool(1) as pool,
    ):
        for statement in _POSTGRES_TABLE.split(";"):
            connection.execute(statement.encode())
        taken = pool.apply_async(_claim_on_hint, [url, samples])
        sent = []
        deadline = time.monotonic() + 30
        while not connection.execute("SELECT FROM pg_stat_activity WHERE query LIKE 'LISTEN raw%'").fetchall():
            if time.monotonic() > deadline:
                raise TimeoutError("nobody listens")
            time.sleep(0.05)
        for job_id in new_ids(samples):
            time.sleep(0.02)
            sent.append(time.monotonic_ns())
            with connection.transaction():
                connection.execute("INSERT INTO raw_job (id, payload) VALUES (%s, %s)", [job_id, json.dumps(_PAYLOAD)])
                connection.execute("NOTIFY raw")
        return statistics.median((end - start) / 1e6 for start, end in zip(sent, taken.get(60), strict=True))


def _claim_on_hint(url: str, samples: int) -> list[int]:
    """The instant at which each job was at hand."""
    taken: list[int] = []
    with (
        psycopg.connect(url, autocommit=True) as listener,
        psycopg.connect(url, autocommit=True, prepare_threshold=0) as claimer,
    ):
        listener.execute("LISTEN raw")
        for _ in listener.notifies(timeout=60):
            claimed = claimer.execute(_POSTGRES_CLAIM.encode()).fetchall()
            taken += [time.monotonic_ns()] * len(claimed)
            if len(taken) == samples:
                break
    return taken


@contextlib.contextmanager
def _open_sqlite(url: str) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = wal")
        connection.execute("PRAGMA synchronous = full")
        yield connection


def _insert_sqlite(url: str, jobs: int, batch: int) -> float:
    seconds = 0.0
    with _open_sqlite(url) as connection:
        for start in range(0, jobs, batch):
            rows = [(job_id, json.dumps(_PAYLOAD)) for job_id in new_ids(min(batch, jobs - start))]
            began = time.perf_counter()
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT INTO raw_job (id, payload) VALUES (?, ?)", rows)
            connection.execute("COMMIT")
            seconds += time.perf_counter() - began
    return seconds


def _claims_sqlite(url: str) -> Iterator[int]:
    with _open_sqlite(url) as connection:
        while claimed := connection.execute(_SQLITE_CLAIM).fetchall():
            connection.execute(
                "UPDATE raw_job SET status = 'completed', finished_at = 'now', leased_until = NULL "
                "WHERE seq IN (SELECT value FROM json_each(?)) AND status = 'running'",
                [json.dumps([seq for seq, _ in claimed])],
            )
            yield len(claimed)
