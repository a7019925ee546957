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
    return _postgres(url, jobs) if dialect == "postgres" else _sqlite(url, jobs)


def _postgres(url: str, jobs: int) -> tuple[float, float]:
    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
        for statement in _POSTGRES_TABLE.split(";"):
            connection.execute(statement.encode())
        insert_seconds = 0.0
        for start in range(0, jobs, 5000):
            rows = [{"id": job_id, "payload": _PAYLOAD} for job_id in new_ids(min(5000, jobs - start))]
            document = json.dumps(rows)
            began = time.perf_counter()
            connection.execute(_POSTGRES_INSERT, [document])
            insert_seconds += time.perf_counter() - began
        connection.execute("ANALYZE raw_job")
        began = time.perf_counter()
        while claimed := connection.execute(_POSTGRES_CLAIM.encode()).fetchall():
            connection.execute(_POSTGRES_COMPLETE, [[job_id for job_id, _ in claimed]])
        drain_seconds = time.perf_counter() - began
    return jobs / insert_seconds, jobs / drain_seconds


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


def _sqlite(url: str, jobs: int) -> tuple[float, float]:
    with _open_sqlite(url) as connection:
        connection.executescript(_SQLITE_TABLE)
        insert_seconds = 0.0
        for start in range(0, jobs, 5000):
            rows = [(job_id, json.dumps(_PAYLOAD)) for job_id in new_ids(min(5000, jobs - start))]
            began = time.perf_counter()
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT INTO raw_job (id, payload) VALUES (?, ?)", rows)
            connection.execute("COMMIT")
            insert_seconds += time.perf_counter() - began
        began = time.perf_counter()
        while claimed := connection.execute(_SQLITE_CLAIM).fetchall():
            connection.execute(
                "UPDATE raw_job SET status = 'completed', finished_at = 'now', leased_until = NULL "
                "WHERE seq IN (SELECT value FROM json_each(?)) AND status = 'running'",
                [json.dumps([seq for seq, _ in claimed])],
            )
        drain_seconds = time.perf_counter() - began
    return jobs / insert_seconds, jobs / drain_seconds
