"""What a claim costs beside what is none of its business: a backlog in other queues, and the support of partition keys.

By the verbs themselves, as a worker sends them, from one connection.
"""

from __future__ import annotations

import sqlite3
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg

from bench.databases import Database
from holdfast import App
from holdfast.model.scan_position import ScanPosition
from holdfast.operations.claim_jobs import Claim, claim_jobs, find_lanes
from holdfast.operations.complete_jobs import Completion, complete_jobs
from holdfast.stores import SyncStore

_OWN, _OTHERS = "own", "other"
_QUEUES = [f"{_OWN} {number}" for number in range(10)]
_CLAIMS = 50
_BATCH = 100
_LEASE = timedelta(hours=1)

#: ten queues times ten priorities, one job after the other
_INSERT = """
INSERT INTO {job} (id, chain_id, type_name, chain_type_name, queue, priority, input, created_at, scheduled_at, ready_at)
SELECT id, id, 'receipt', 'receipt', '{name} ' || (n % 10), (n / 10) % 10, '{{"order_id": 1}}', due, due, due
FROM (SELECT n, {id} AS id, {past} AS due FROM {numbers}) AS made
"""
_WORDS: dict[str, dict[str, str]] = {
    "postgres": {
        "job": "holdfast.job",
        "id": "gen_random_uuid()",
        "past": "now() - interval '1 hour' + n * interval '1 microsecond'",
        "numbers": "generate_series(1, {count}) AS n",
    },
    "sqlite": {
        "job": "holdfast_job",
        "id": "lower(hex(randomblob(16)))",
        "past": "printf('2001-01-01T00:00:%02d.%06dZ', n / 1000000, n % 1000000)",
        "numbers": "(WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < {count}) "
        "SELECT n FROM number)",
    },
}
_KEY_SUPPORT = {
    "postgres": """
        SELECT format('DROP TRIGGER %I ON holdfast.job', tgname) FROM pg_trigger
        WHERE tgrelid = 'holdfast.job'::regclass AND NOT tgisinternal AND tgname LIKE '%key'
        UNION ALL SELECT format('DROP INDEX holdfast.%I', indexname) FROM pg_indexes
        WHERE schemaname = 'holdfast' AND tablename = 'job' AND indexdef LIKE '%(queue, partition_key%'
    """,
    "sqlite": """
        SELECT 'DROP ' || type || ' ' || name FROM sqlite_master
        WHERE tbl_name = 'holdfast_job' AND (
            type = 'trigger' AND name LIKE '%key' OR type = 'index' AND sql LIKE '%(queue, partition_key%')
    """,
}


def claim_milliseconds(database: Database, pending: int) -> tuple[float, float]:
    """Medians of claims from ten queues with ten priorities: alone, and with so many pending jobs in ten other queues.

    The two take turns, so that whatever else the machine does happens to both.
    """
    with ExitStack() as stack:
        sides = []
        for others in (0, pending):
            stack.enter_context(database.fresh())
            store, connection = stack.enter_context(_opened(database))
            _fill(database, connection, _OWN, (_CLAIMS + 1) * _BATCH)
            if others:
                _fill(database, connection, _OTHERS, others)
            connection.execute("VACUUM ANALYZE" if database.dialect == "postgres" else "ANALYZE")
            claims = _Claims(store)
            claims.next()  # the first one plans, and reads what is not in memory
            times: list[float] = []
            sides.append((claims, times))
        for turn in range(_CLAIMS):
            for claims, times in sides if turn % 2 else reversed(sides):
                began = time.perf_counter()
                claims.next()
                times.append(time.perf_counter() - began)
    alone, beside = (statistics.median(times) * 1000 for _, times in sides)
    return alone, beside


def share_of_keyless(database: Database, jobs: int) -> float:
    """How fast jobs without a key are claimed and completed, beside a schema without the triggers and indexes of keys.

    Batch by batch, they take turns as well.
    """
    with ExitStack() as stack:
        sides = []
        for has_keys in (True, False):
            stack.enter_context(database.fresh())
            store, connection = stack.enter_context(_opened(database))
            if not has_keys:
                for (drop,) in connection.execute(_KEY_SUPPORT[database.dialect]).fetchall():
                    connection.execute(drop)
            _fill(database, connection, _OWN, jobs)
            sides.append((store, _Claims(store), [0.0]))
        for turn in range(jobs // _BATCH):
            for store, claims, spent in sides if turn % 2 else reversed(sides):
                began = time.perf_counter()
                claimed = claims.next()
                done = [Completion(job.id, job.lease_generation, "null") for job in claimed]
                settlement = store.run(partial(complete_jobs, "bench", done))
                spent[0] += time.perf_counter() - began
                if settlement.lost or settlement.locked:
                    raise RuntimeError(f"not completed: {settlement.lost | settlement.locked}")
    (_, _, with_keys), (_, _, without) = sides
    return without[0] / with_keys[0]


class _Claims:
    """One claim after the other, from where the last one ended."""

    def __init__(self, store: SyncStore) -> None:
        self._store = store
        self._position = ScanPosition()
        found = store.run(lambda: find_lanes(_QUEUES), read_only=True)
        self._position.look_back(found, 0, 0)

    def next(self) -> Claim:
        lanes = self._position.lanes
        claimed = self._store.run(lambda: claim_jobs("bench", lanes, _BATCH, _LEASE))
        if len(claimed) != _BATCH:
            raise RuntimeError(f"claimed {len(claimed)} jobs instead of {_BATCH}")
        self._position.advance(claimed)
        return claimed


@contextmanager
def _opened(database: Database) -> Iterator[tuple[SyncStore, Any]]:
    """A store on a migrated database, and a connection past it."""
    app = App(database.url, auto_migrate=True)
    with closing(app), app.client() as client:
        client.migrate()
        opened: Any = (
            psycopg.connect(database.url, autocommit=True)
            if database.dialect == "postgres"
            else sqlite3.connect(database.url.removeprefix("sqlite:///"), isolation_level=None)
        )
        with closing(opened), closing(app.store.sync()) as store:
            yield store, opened


def _fill(database: Database, connection: Any, name: str, count: int) -> None:
    words = _WORDS[database.dialect]
    connection.execute(_INSERT.format(**{**words, "numbers": words["numbers"].format(count=count)}, name=name))
