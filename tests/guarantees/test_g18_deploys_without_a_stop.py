"""G18: Code of version N works on schema N and N+1, so deploys need no stop."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path

import psycopg
import pytest

from holdfast import App
from tests.crew.database import Database
from tests.crew.deploy import NEXT_VERSION, THIS_CODE, Deploy, deploy_on, newer_code, stop
from tests.crew.waiting import wait_for

ONE_POSTGRES = pytest.mark.parametrize("database", ["sqlite", "pg18"], indirect=True)


def create_schema(database: Database) -> None:
    """That of this code; on SQLite there is no file yet."""
    app = App(database.url, auto_migrate=True)
    with app.client() as client:
        client.list_jobs()
    app.close()


def assert_each_quartet_ran_once(deploy: Deploy, database: Database, quartets: list[list[int]]) -> None:
    """Every job that was accepted is there and has completed, in as many attempts as it takes."""
    singles, chains, failing, waiting = (Counter(kind) for kind in zip(*quartets, strict=True))
    assert len(quartets) > 20
    counts = database.query(
        f"SELECT type_name, status, attempt, crash_count, count(*) FROM {database.job} "
        "WHERE type_name <> 'tick' GROUP BY 1, 2, 3, 4 ORDER BY 1"
    )
    assert counts == [
        ("fail", "completed", 2, 0, len(quartets)),
        ("note", "completed", 1, 0, 2 * len(quartets)),
        ("relay", "completed", 1, 0, 3 * len(quartets)),
    ]
    assert Counter(entry.number for entry in deploy.ledger.read("finished")) == singles + failing + waiting
    started = Counter(entry.number for entry in deploy.ledger.read("started"))
    assert all(started[number] == 3 for number in chains)
    assert deploy.ledger.started_twice() == []


def assert_each_second_ticked_once(database: Database) -> None:
    ticks = [
        datetime.fromisoformat(tick)
        for (tick,) in database.query(
            f"SELECT headers ->> 'tick' FROM {database.job} WHERE type_name = 'tick' ORDER BY seq"
        )
    ]
    assert len(ticks) > 3
    assert ticks == [ticks[0] + timedelta(seconds=number) for number in range(len(ticks))]


def test_old_and_new_code_side_by_side(database: Database, tmp_path: Path) -> None:
    """New code migrates while old code works, and both go on; old code may even be started anew.

    Jobs, chains, retries, blockers and schedules: nothing is lost, nothing runs twice, and no process sees an error.
    """
    create_schema(database)
    with deploy_on(database, tmp_path) as deploy:
        old = [deploy.play(THIS_CODE, "worker") for _ in range(2)]
        deploy.play(THIS_CODE, "producer")
        for worker in old:
            deploy.wait_worked(worker)

        newer = newer_code(tmp_path)
        assert deploy.migrate(newer).wait(60) == 0
        assert "next_step" in deploy.said
        for worker in old:
            deploy.wait_worked(worker)

        new = deploy.play(newer, "worker")
        deploy.play(newer, "producer")
        for worker in [*old, new]:
            deploy.wait_worked(worker)
        assert stop(old[0]) == 0
        restarted = deploy.play(THIS_CODE, "worker")
        for worker in [old[1], restarted, new]:
            deploy.wait_worked(worker)

        quartets = deploy.end_production()
        unfinished = f"SELECT count(*) FROM {database.job} WHERE type_name <> 'tick' AND status <> 'completed'"
        wait_for(lambda: database.query(unfinished)[0][0] == 0, "every job completed", patience=60, pause=0.1)
        assert [stop(worker) for worker in (old[1], restarted, new)] == [0, 0, 0]
    assert_each_quartet_ran_once(deploy, database, quartets)
    assert_each_second_ticked_once(database)
    assert database.query(f"SELECT DISTINCT of_the_next FROM {database.job}") == [(7,)]


@ONE_POSTGRES
def test_code_that_is_too_old_is_not_started(database: Database, tmp_path: Path) -> None:
    """A migration that no longer allows it says so to whoever starts; whoever runs finishes its work."""
    create_schema(database)
    with deploy_on(database, tmp_path) as deploy:
        old = deploy.play(THIS_CODE, "worker")
        deploy.play(THIS_CODE, "producer")
        deploy.wait_worked(old)
        newer = newer_code(tmp_path, oldest_code=NEXT_VERSION)
        assert deploy.migrate(newer).wait(60) == 0
        deploy.wait_worked(old)

        assert deploy.play(THIS_CODE, "worker").wait(60) != 0
        assert f"needs holdfast {NEXT_VERSION} or newer" in deploy.said
        assert "upgrade the package" in deploy.said

        new = deploy.play(newer, "worker")
        deploy.wait_worked(new)
        assert stop(old) == 0
        deploy.wait_worked(new)
        deploy.end_production()
        assert stop(new) == 0


@ONE_POSTGRES
def test_twenty_processes_start_at_once(database: Database, tmp_path: Path) -> None:
    """Each would migrate: one does, and all of them work."""
    create_schema(database)
    newer = newer_code(tmp_path)
    with deploy_on(database, tmp_path) as deploy:
        openers = [deploy.play(newer, "opener") for _ in range(20)]
        wait_for(lambda: len(list(tmp_path.glob("here-*"))) == len(openers), "all processes", patience=60)
        (tmp_path / "go").touch()
        assert {opener.wait(60) for opener in openers} == {0}
    versions = [version for (version,) in database.query(f"SELECT version FROM {database.table('migration')}")]
    assert sorted(versions) == list(range(1, max(versions) + 1))
    assert database.query(f"SELECT number FROM {database.table('next_mark')}") == [(1,)]


@pytest.mark.parametrize("database", ["pg18"], indirect=True)
def test_a_migration_that_waits_stops_nobody(database: Database, tmp_path: Path) -> None:
    """A long transaction has read every table, as a dump does; until it ends the migration lets the workers pass."""
    newer = newer_code(tmp_path)
    tables = chain.from_iterable(
        database.query(
            "SELECT quote_ident(relname) FROM pg_class WHERE relnamespace = 'holdfast'::regnamespace AND relkind = 'r'"
        )
    )
    with deploy_on(database, tmp_path) as deploy, psycopg.connect(database.url) as dump:
        worker = deploy.play(THIS_CODE, "worker")
        deploy.play(THIS_CODE, "producer")
        deploy.wait_worked(worker)
        for table in tables:
            dump.execute(f"LOCK TABLE holdfast.{table} IN ACCESS SHARE MODE".encode())
        migration = deploy.migrate(newer)
        database.wait_blocked_statement("ADD COLUMN of_the_next")

        deploy.wait_worked(worker, jobs=50)
        assert migration.poll() is None
        dump.rollback()
        assert migration.wait(60) == 0
        deploy.wait_worked(worker)
        deploy.end_production()
        assert stop(worker) == 0
