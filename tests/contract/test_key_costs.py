"""Who leaves a partition key finds the next one there, whatever waits in the key and runs elsewhere."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast import App
from holdfast.operations.complete_jobs import complete_jobs
from holdfast.operations.statement import Operation
from holdfast.operations.sweep_keys import find_stranded
from holdfast.operations.sweep_limits import find_limited
from tests.contract.test_function_costs import EXECUTIONS, rows_read
from tests.crew.keyed import claim, done, in_order, within

MANY = 990
#: so many that going through them looks cheap to no planner that knows of them
WAITING = 5000


@pytest.mark.parametrize("ordering", ["fifo", "serial"])
@pytest.mark.parametrize("analyzed", ["never", "before the backlog", "after it"])
def test_on_postgres(empty_postgres: str, analyzed: str, ordering: str) -> None:
    """Again and again on one connection, where plans are kept; those that run elsewhere hold keys of their own."""
    with psycopg.connect(empty_postgres, autocommit=True) as connection:
        connection.execute("SELECT holdfast.register_type('report')")
        connection.execute("SELECT holdfast.enqueue('report', partition_key => 'key')")
        connection.execute("SELECT holdfast.enqueue('report', partition_key => 'other', ordering => 'serial')")
        _enqueue_many(connection, "'key ' || number", ordering)
        first = min(_claim_all(connection))
        if analyzed == "before the backlog":
            connection.execute("ANALYZE holdfast.job")
        _enqueue_many(connection, "'key'", ordering, WAITING)
        # As they are, and as what perhaps nobody here takes: then the first without flags is looked for too. Statistics
        # from before the backlog make PostgreSQL 18 sort the held serial jobs of the key, with flags or without.
        for flagged in [False] if analyzed == "before the backlog" else [False, True]:
            if flagged:
                connection.execute("UPDATE holdfast.job SET held = true, flags = '{gpu}' WHERE status = 'pending'")
            if analyzed == "after it":
                connection.execute("ANALYZE holdfast.job")
            for _ in range(EXECUTIONS):
                scanned, fetched = rows_read(connection, f"SELECT holdfast.complete('{first[0]}', {first[1]})")
                assert scanned == 0
                assert fetched <= 50


@pytest.mark.parametrize("analyzed", ["never", "before the backlog", "after it"])
def test_beside_a_hot_key_on_postgres(empty_postgres: str, analyzed: str) -> None:
    """What waits in another key is none of its business."""
    with psycopg.connect(empty_postgres, autocommit=True) as connection:
        connection.execute("SELECT holdfast.register_type('report')")
        connection.execute("SELECT holdfast.enqueue('report', partition_key => 'key')")
        connection.execute("SELECT holdfast.enqueue('report', partition_key => 'hot')")
        first = min(_claim_all(connection))
        if analyzed == "before the backlog":
            connection.execute("ANALYZE holdfast.job")
        _enqueue_many(connection, "'hot'", "fifo")
        connection.execute("SELECT holdfast.enqueue('report', partition_key => 'key')")
        connection.execute("UPDATE holdfast.job SET held = true WHERE status = 'pending'")
        if analyzed == "after it":
            connection.execute("ANALYZE holdfast.job")
        for _ in range(EXECUTIONS):
            scanned, fetched = rows_read(connection, f"SELECT holdfast.complete('{first[0]}', {first[1]})")
            assert scanned == 0
            assert fetched <= 50


def _enqueue_many(connection: psycopg.Connection[Any], key: str, ordering: str, count: int = MANY) -> None:
    enqueue = f"holdfast.enqueue('report', partition_key => {key}, ordering => '{ordering}')"
    connection.execute(f"SELECT {enqueue} FROM generate_series(1, {count}) AS number".encode())


def _claim_all(connection: psycopg.Connection[Any]) -> list[Any]:
    """Who may run; ids and generations."""
    claim = f"SELECT id, lease_generation FROM holdfast.claim('w', '{{default}}', {MANY + 2})"
    return connection.execute(claim.encode()).fetchall()


@pytest.mark.parametrize("options", [{}, {"ordering": "serial", "flags": ["gpu"]}], ids=["fifo", "flagged"])
def test_on_sqlite(sqlite_path: Path, options: dict[str, Any]) -> None:
    """In instructions of SQLite's virtual machine."""
    app = App(f"sqlite:///{sqlite_path}", auto_migrate=True)

    @app.job()
    async def report() -> None: ...

    with app.client() as client, sqlite3.connect(sqlite_path, isolation_level=None) as connection:
        first = client.enqueue(report.call(), partition_key="key")
        _run(connection)
        alone = _instructions(connection, f"UPDATE holdfast_job SET {_FINISHED} WHERE id = '{first.id}'")
        client.enqueue_many([report.call().options(partition_key=f"key {number}") for number in range(MANY)])
        _run(connection)
        client.enqueue_many([report.call().options(partition_key="key", **options) for _ in range(MANY)])
        connection.execute("UPDATE holdfast_job SET held = 1 WHERE status = 'pending'")
        beside = _instructions(connection, f"UPDATE holdfast_job SET {_FINISHED} WHERE id = '{first.id}'")
    connection.close()
    app.close()
    assert alone > 0
    assert beside <= 2 * alone + 500


@pytest.mark.parametrize("completed", [1, 5])
def test_a_part_of_a_run_on_sqlite(sqlite_path: Path, completed: int) -> None:
    """The first of a run are completed while the last still holds the key, and nobody of those behind it may run."""
    app = App(f"sqlite:///{sqlite_path}", auto_migrate=True)

    @app.job()
    async def report() -> None: ...

    with app.client() as client, closing(sqlite3.connect(sqlite_path, isolation_level=None)) as connection:
        client.enqueue_many([report.call().options(partition_key="key") for _ in range(10)])
        with closing(app.store.sync()) as store:
            run = in_order(claim(store, 10, run=9))
        assert len(run) == 10

        def complete() -> None:
            within(app, connection, lambda: complete_jobs("w", [done(job) for job in run[:completed]]))

        alone = _counted(connection, complete)
        client.enqueue_many([report.call().options(partition_key="key") for _ in range(MANY)])
        beside = _counted(connection, complete)
    app.close()
    assert alone > 0
    assert beside <= 2 * alone


@pytest.mark.parametrize("others_held", [True, False])
def test_sweeps_past_what_has_flags_on_sqlite(sqlite_path: Path, *, others_held: bool) -> None:
    """Whether nobody here takes it: of those that have none the first is found, however many have some."""
    app = App(f"sqlite:///{sqlite_path}", auto_migrate=True)

    @app.job()
    async def report() -> None: ...

    def fill(count: int) -> None:
        for flags in (["gpu"], None):
            options: dict[str, Any] = {"partition_key": "key", "ordering": "serial", "flags": flags}
            client.enqueue_many([report.call().options(**options) for _ in range(count if flags else 1)])
        wanted = "flags IS NULL OR seq > 1" if others_held else "flags IS NULL"
        connection.execute(f"UPDATE holdfast_job SET held = {wanted}")

    with app.client() as client, closing(sqlite3.connect(sqlite_path, isolation_level=None)) as connection:
        fill(2)
        few = _counted(connection, lambda: within(app, connection, lambda: find_stranded(None)))
        fill(MANY)
        many = _counted(connection, lambda: within(app, connection, lambda: find_stranded(None)))
    app.close()
    assert few > 0
    assert many <= 2 * few


@pytest.mark.parametrize("sweep", [find_stranded, find_limited])
def test_the_sweeps_on_sqlite(sqlite_path: Path, sweep: Callable[[None], Operation[Any]]) -> None:
    """A step for each key in which jobs wait, however many wait in all of them."""
    app = App(f"sqlite:///{sqlite_path}", auto_migrate=True)

    @app.job()
    async def report() -> None: ...

    def fill(count: int) -> None:
        keys = [f"key {number}" for number in range(50)]
        calls = [report.call().options(partition_key=key, concurrency_key=key) for key in keys for _ in range(count)]
        client.enqueue_many(calls)
        if sweep is find_limited:
            connection.execute("UPDATE holdfast_job SET held = 1, limited = 1")

    with app.client() as client, closing(sqlite3.connect(sqlite_path, isolation_level=None)) as connection:
        fill(2)
        few = _counted(connection, lambda: within(app, connection, lambda: sweep(None)))
        fill(30)
        many = _counted(connection, lambda: within(app, connection, lambda: sweep(None)))
    app.close()
    assert few > 0
    assert many <= 2 * few


_FINISHED = "status = 'completed', finished_at = created_at, leased_by = NULL, leased_until = NULL"


def _run(connection: sqlite3.Connection) -> None:
    """Somebody takes all that wait."""
    taken = "status = 'running', leased_by = 'w', leased_until = created_at"
    connection.execute(f"UPDATE holdfast_job SET {taken} WHERE status = 'pending'")


def _instructions(connection: sqlite3.Connection, statement: str) -> int:
    """Of a statement with its triggers, which is taken back."""
    return _counted(connection, lambda: connection.execute(statement))


def _counted(connection: sqlite3.Connection, work: Callable[[], object]) -> int:
    """Of whatever this does, which is taken back."""
    count = 0

    def tick() -> Any:
        nonlocal count
        count += 1

    connection.execute("BEGIN IMMEDIATE")
    connection.set_progress_handler(tick, 10)
    work()
    connection.set_progress_handler(None, 10)
    connection.execute("ROLLBACK")
    return 10 * count
