"""What finished jobs cost those that run: a long history that stays, and one that is pruned meanwhile.

At scale 1 ten million finished chains that stay and a million that go, which ended five hundred at a time. The rates
are those of one worker process on no-op jobs; while history is pruned, that worker leads and prunes it itself.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from bench.databases import Database
from bench.processes import workers
from holdfast import App
from holdfast.model.clock import iso

_LONG = 10_000_000
_HISTORY = 1_000_000
_JOBS = 50_000
_BATCH = 5_000
_LONGEST_SECONDS = 1_800

_FILL = """
INSERT INTO {job} (id, chain_id, type_name, chain_type_name, queue, input, output, status, attempt, lease_generation,
                   created_at, scheduled_at, ready_at, last_attempt_at, finished_at, completed_by)
SELECT {id}, {id}, 'history', 'history', 'history', '{{"order_id": 9182}}', '"paid"', 'completed', 1, 1,
       '{then}', '{then}', '{then}', '{then}', {ended}, 'somebody'
FROM {numbers}
"""
_DIALECTS = {
    "postgres": {
        "job": "holdfast.job",
        "id": "lpad(to_hex(n), 32, '0')::uuid",
        "numbers": "generate_series(1, {count}) AS n",
        "ended": "'{then}'::timestamptz + n / 500 * interval '1 millisecond'",
    },
    "sqlite": {
        "job": "holdfast_job",
        "id": "printf('00000000-0000-0000-0000-%012x', n)",
        "numbers": "(WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < {count}) "
        "SELECT n FROM number)",
        "ended": "strftime('%Y-%m-%dT%H:%M:%f', '{then}', '+' || (n / 500 / 1000.0) || ' seconds') || '000Z'",
    },
}


def measure_growth(database: Database, scale: float) -> dict[str, float]:
    """Without a history, and with one that stays."""
    count = int(_LONG * scale)
    with database.fresh():
        figures = {"no history, jobs/s": _drain(database)}
    with database.fresh():
        _fill(database, count, timedelta(hours=1))
        figures[f"{count:,} finished, jobs/s"] = _drain(database)
    return figures


def measure_prune(database: Database, scale: float) -> dict[str, float]:
    """Beside one that stays, and while as much goes."""
    count = int(_HISTORY * scale)
    with database.fresh():
        _fill(database, count, timedelta(hours=1))
        figures = {f"{count:,} finished, jobs/s": _drain(database)}
    with database.fresh():
        _fill(database, count, timedelta(days=10))
        with workers(1, database.url), _asking(database) as ask:
            figures[f"while {count:,} are pruned, jobs/s"] = _drained(database, ask)
            began, left = time.monotonic(), _left(ask)
            while _left(ask):
                if time.monotonic() - began > _LONGEST_SECONDS:
                    raise RuntimeError("the history is not pruned")
                time.sleep(1)
        figures["pruned by an idle worker, chains/s"] = left / (time.monotonic() - began)
    return figures


def _left(ask: Any) -> int:
    """Counted by the index of ends."""
    return int(
        ask("SELECT count(*) FROM {job} WHERE is_tail = {yes} AND finished_at IS NOT NULL AND type_name = 'history'")
    )


def _drain(database: Database) -> float:
    with workers(1, database.url), _asking(database) as ask:
        return _drained(database, ask)


def _drained(database: Database, ask: Any) -> float:
    app = App(database.url, auto_migrate=True)

    @app.job(name="receipt")
    async def receipt(order_id: int, email: str) -> None: ...

    with app.client() as client:
        client.queues.pause("default")
        for _ in range(_JOBS // _BATCH):
            client.enqueue_many([receipt.call(order_id=1, email="someone.longer@example.com") for _ in range(_BATCH)])
        began = time.monotonic()
        client.queues.resume("default")
        while ask(
            "SELECT EXISTS (SELECT 1 FROM {job} WHERE status = 'pending' AND queue = 'default' AND held = {no} "
            "AND crash_count = 0 AND is_fair = {no} AND priority = 0)"
        ):
            time.sleep(0.05)
        while ask("SELECT EXISTS (SELECT 1 FROM {job} WHERE status = 'running')"):
            time.sleep(0.02)
        ended = time.monotonic()
    app.close()
    return _JOBS / (ended - began)


def _fill(database: Database, count: int, age: timedelta) -> None:
    app = App(database.url, auto_migrate=True)
    with app.client() as client:
        client.migrate()
    app.close()
    then = iso(datetime.now(UTC) - age)
    words = {name: word.format(count=count, then=then) for name, word in _DIALECTS[database.dialect].items()}
    text = _FILL.format(**words, then=then)
    with _asking(database) as ask:
        ask(text)
        ask("ANALYZE")


@contextmanager
def _asking(database: Database) -> Iterator[Any]:
    """Past the library that is measured."""
    no, yes = ("false", "true") if database.dialect == "postgres" else ("0", "1")
    names = {"{job}": _DIALECTS[database.dialect]["job"], "{no}": no, "{yes}": yes}
    connection: Any
    if database.dialect == "postgres":
        connection = psycopg.connect(database.url, autocommit=True, prepare_threshold=None)
    else:
        connection = sqlite3.connect(database.url.removeprefix("sqlite:///"), isolation_level=None, timeout=60)
    with closing(connection):

        def ask(text: str) -> Any:
            for name, word in names.items():
                text = text.replace(name, word)
            cursor = connection.execute(text)
            return cursor.fetchone()[0] if cursor.description else None

        yield ask
