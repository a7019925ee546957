"""What the database itself can do: a bare table and the shortest statements, without fence, retry or types."""

from __future__ import annotations

import json
import sqlite3
import time

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
        began = time.perf_counter()
        while claimed := connection.execute(_POSTGRES_CLAIM.encode()).fetchall():
            connection.execute(_POSTGRES_COMPLETE, [[job_id for job_id, _ in claimed]])
        drain_seconds = time.perf_counter() - began
    return jobs / insert_seconds, jobs / drain_seconds


def _sqlite(url: str, jobs: int) -> tuple[float, float]:
    connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    connection.execute("PRAGMA journal_mode = wal")
    connection.execute("PRAGMA synchronous = full")
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
    connection.close()
    return jobs / insert_seconds, jobs / drain_seconds
