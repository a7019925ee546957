"""The views tell the same about the same jobs, on PostgreSQL and on SQLite."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.conformance.sql_surface.conftest import Surface

Query = Callable[[str], list[tuple[Any, ...]]]

#: id, status and the columns that make the difference
JOBS: list[dict[str, Any]] = [
    {"id": 1},
    {"id": 2, "ready_at": "future"},
    {"id": 3, "attempt": 1},
    {"id": 4, "attempt": 1, "ready_at": "future"},
    {"id": 5, "held": True, "partition_key": "k", "partition_seq": 52},
    {
        "id": 6,
        "status": "running",
        "leased_by": "alive",
        "leased_until": "future",
        "partition_key": "k",
        "partition_seq": 51,
    },
    {"id": 7, "status": "running", "leased_by": "gone", "leased_until": "future"},
    {"id": 8, "status": "running", "leased_by": "alive", "leased_until": "past"},
    {"id": 9, "status": "blocked", "waiting_for": 1},
    {"id": 10, "status": "completed", "finished_at": "past", "output": "1", "is_tail": False},
    {"id": 11, "chain_id": 10, "chain_index": 1, "status": "completed", "finished_at": "past", "output": "[2]"},
    {"id": 12, "status": "dead_letter", "finished_at": "long ago", "last_attempt_error": ("KeyError", "first")},
    {"id": 13, "status": "dead_letter", "finished_at": "past", "last_attempt_error": ("KeyError", "second")},
    {"id": 14, "status": "dead_letter", "finished_at": "past", "last_attempt_error": ("OSError", "it's full")},
    {"id": 15, "queue": "unserved"},
    {"id": 16, "crash_count": 1},
    {"id": 17, "status": "cancelled", "finished_at": "past", "partition_key": "k", "partition_seq": 50},
]
#: beside those, in keys and a queue of their own: each key is in another state
KEYED: list[dict[str, Any]] = [
    {"id": 23, "partition_key": "run", "partition_seq": 3, "held": True},
    {
        "id": 22,
        "partition_key": "run",
        "partition_seq": 2,
        "status": "running",
        "leased_by": "alive",
        "leased_until": "future",
    },
    {
        "id": 21,
        "partition_key": "run",
        "partition_seq": 1,
        "status": "running",
        "leased_by": "alive",
        "leased_until": "future",
        "held": True,
    },
    {"id": 24, "partition_key": "run", "partition_seq": 4, "held": True},
    {
        "id": 31,
        "partition_key": "alone",
        "partition_seq": 1,
        "status": "running",
        "leased_by": "alive",
        "leased_until": "future",
    },
    {"id": 41, "partition_key": "retrying", "partition_seq": 1, "attempt": 1, "ready_at": "future"},
    {"id": 42, "partition_key": "retrying", "partition_seq": 2, "held": True, "created_at": "long ago"},
    {"id": 51, "partition_key": "scheduled", "partition_seq": 1, "ready_at": "future"},
    {"id": 61, "partition_key": "blocked", "partition_seq": 1, "status": "blocked", "waiting_for": 1},
    {"id": 71, "partition_key": "ready", "partition_seq": 1},
    {"id": 81, "partition_key": "over", "partition_seq": 1, "status": "cancelled", "finished_at": "past"},
]
for keyed in KEYED:
    keyed["queue"] = "keyed"
MOMENTS = {"past": "2020-01-02T00:00:00.000000Z", "long ago": "2020-01-01T00:00:00.000000Z",
           "future": "2999-01-01T00:00:00.000000Z"}  # fmt: skip


def job_id(number: int) -> str:
    return f"00000000-0000-0000-0000-{number:012d}"


def values(job: dict[str, Any]) -> dict[str, Any]:
    past = MOMENTS["past"]
    filled = {"queue": "default", "type_name": "t", "chain_type_name": "t", "input": "{}", "chain_id": job["id"],
              "created_at": past, "scheduled_at": past, "ready_at": past, **job}  # fmt: skip
    filled |= {name: MOMENTS.get(value, value) for name, value in filled.items() if isinstance(value, str)}
    filled |= {name: job_id(filled[name]) for name in ("id", "chain_id")}
    if "last_attempt_error" in filled:
        kind, message = filled["last_attempt_error"]
        filled["last_attempt_error"] = json.dumps({"type": kind, "message": message})
    return filled


@pytest.fixture
def jobs(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    """What there is: JOBS, unless a test says otherwise."""
    return getattr(request, "param", JOBS)


@pytest.fixture(params=["postgres", "sqlite"])
def query(request: pytest.FixtureRequest, surface: Surface, sqlite_file: Path, jobs: list[dict[str, Any]]) -> Query:
    """Asks a view, by its name, of a database that holds the jobs."""
    worker = ("alive", MOMENTS["past"], MOMENTS["future"], MOMENTS["past"], "x", '["default"]')
    worker_columns = "(id, started_at, last_seen_at, heard_since, version, queues)"
    if request.param == "postgres":
        surface.sql(f"INSERT INTO {{s}}.worker {worker_columns} VALUES (%s, %s, %s, %s, %s, %s)", *worker)
        for job in map(values, jobs):
            places = ", ".join(["%s"] * len(job))
            surface.sql(f"INSERT INTO {{s}}.job ({', '.join(job)}) VALUES ({places})", *job.values())
        surface.sql("INSERT INTO {s}.job_blocker VALUES (%s, %s, 0)", job_id(9), job_id(99))
        return lambda text: surface.sql(text, role="reader")
    with closing(sqlite3.connect(sqlite_file)) as connection, connection:
        connection.execute(f"INSERT INTO holdfast_worker {worker_columns} VALUES (?, ?, ?, ?, ?, ?)", worker)
        for job in map(values, jobs):
            places = ", ".join(["?"] * len(job))
            connection.execute(f"INSERT INTO holdfast_job ({', '.join(job)}) VALUES ({places})", [*job.values()])
        connection.execute(
            'INSERT INTO holdfast_job_blocker (job_id, blocked_by_chain_id, "index") VALUES (?, ?, 0)',
            [job_id(9), job_id(99)],
        )

    def ask(text: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(sqlite_file)) as connection:
            return connection.execute(text.replace("{s}.", "holdfast_")).fetchall()

    return ask


def test_jobs(query: Query) -> None:
    """`state` is what people say of a pending job."""
    states = {int(str(key)[-12:]): state for key, state in query("SELECT id, state FROM {s}.jobs")}
    assert states == {
        1: "pending",
        2: "scheduled",
        3: "retrying",
        4: "retrying",
        5: "held",
        6: "running",
        7: "running",
        8: "running",
        9: "blocked",
        10: "completed",
        11: "completed",
        12: "dead_letter",
        13: "dead_letter",
        14: "dead_letter",
        15: "pending",
        16: "pending",
        17: "cancelled",
    }


def test_chains(query: Query) -> None:
    """One row per chain, with the status and output of its last job."""
    rows = query("SELECT id, tail_id, status, output, length FROM {s}.chains WHERE status = 'completed'")
    ((chain, tail, status, output, length),) = rows
    assert (str(chain), str(tail), status, length) == (job_id(10), job_id(11), "completed", 2)
    assert (json.loads(output) if isinstance(output, str) else output) == [2]
    assert query("SELECT count(*) FROM {s}.chains") == [(len(JOBS) - 1,)]


def test_queue_stats(query: Query) -> None:
    rows = query(
        """SELECT queue, ready, scheduled, held, blocked, running, dead_letters, oldest_ready_seconds > 86400
           FROM {s}.queue_stats ORDER BY queue"""
    )
    assert rows == [("default", 3, 2, 1, 1, 3, 3, True), ("unserved", 1, 0, 0, 0, 0, 0, True)]


@pytest.mark.parametrize("jobs", [KEYED], indirect=True, ids=["keyed"])
def test_partition_keys(query: Query) -> None:
    """Of each: how much there is, what runs and where, and what stands first among those that wait, and why."""
    rows = query(
        """SELECT partition_key, unfinished, held, in_hand, running_job_id, leased_by, waiting_job_id, waiting_state
           FROM {s}.partition_keys WHERE queue = 'keyed'"""
    )
    assert {row[0]: (*row[1:4], number_of(row[4]), row[5], number_of(row[6]), row[7]) for row in rows} == {
        "run": (4, 2, 2, 21, "alive", 23, "held"),
        "alone": (1, 0, 1, 31, "alive", None, None),
        "retrying": (2, 1, 0, None, None, 41, "retrying"),
        "scheduled": (1, 0, 0, None, None, 51, "scheduled"),
        "blocked": (1, 0, 0, None, None, 61, "blocked"),
        "ready": (1, 0, 0, None, None, 71, "pending"),
    }
    ((since, ready_at),) = query(
        "SELECT oldest_created_at, waiting_ready_at FROM {s}.partition_keys WHERE partition_key = 'retrying'"
    )
    assert [str(since)[:4], str(ready_at)[:4]] == ["2020", "2999"]


def number_of(key: object) -> int | None:
    return None if key is None else int(str(key)[-12:])


def test_stuck_jobs(query: Query) -> None:
    """With a reason each; what runs or waits in good order is not among them."""
    rows = query("SELECT id, reason, seconds > 0 FROM {s}.stuck_jobs")
    assert {int(str(key)[-12:]): reason for key, reason, _ in rows} == {
        7: "its worker is gone",
        8: "its lease has run out",
        9: "it waits for a chain that is gone",
        15: "no worker serves its queue",
    }


def test_dead_letters(query: Query) -> None:
    """Grouped by type, queue and kind of error, with the latest as the sample."""
    rows = query(
        "SELECT type_name, queue, error_type, jobs, sample_job_id, sample_message FROM {s}.dead_letters ORDER BY 3"
    )
    assert rows == [
        ("t", "default", "KeyError", 2, job_id(13), "second"),
        ("t", "default", "OSError", 1, job_id(14), "it's full"),
    ]


@pytest.mark.parametrize("view", ["queue_stats", "partition_keys"])
def test_finished_history_is_not_read(surface: Surface, view: str) -> None:
    """Counting queues and keys reads no more rows, however many have ended."""
    surface.sql(
        """INSERT INTO {s}.job (id, chain_id, type_name, chain_type_name, queue, input, created_at, scheduled_at,
                                ready_at, status, finished_at, partition_key)
           SELECT id, id, 't', 't', 'default', '{}', now(), now(), now(), 'completed', now(), 'k'
           FROM (SELECT {s}.new_id() AS id FROM generate_series(1, 5000)) AS many"""
    )
    surface.enqueue(partition_key="k")
    surface.enqueue(partition_key="k")
    surface.sql("ANALYZE {s}.job")
    with psycopg.connect(surface.url) as connection:
        row = connection.execute(
            surface.text(f"EXPLAIN (ANALYZE, FORMAT JSON) SELECT * FROM {{s}}.{view} WHERE queue = 'default'")
        ).fetchone()
    assert row is not None
    scans = list(_scans(row[0][0]["Plan"]))
    assert scans
    assert sum(scan["Actual Rows"] + scan.get("Rows Removed by Filter", 0) for scan in scans) < 100


def test_keys_are_read_from_their_index_on_sqlite(sqlite_file: Path) -> None:
    """Which has the unfinished jobs only."""
    with closing(sqlite3.connect(sqlite_file)) as connection:
        plan = connection.execute("EXPLAIN QUERY PLAN SELECT * FROM holdfast_partition_keys").fetchall()
    steps = [step for *_, step in plan if step.startswith(("SCAN", "SEARCH")) and step != "SCAN key"]
    assert steps
    for step in steps:
        assert "job_key_idx" in step or "(id=?)" in step, step


def _scans(plan: dict[str, Any]) -> Any:
    if plan.get("Relation Name") == "job":
        yield plan
    for child in plan.get("Plans", ()):
        yield from _scans(child)
