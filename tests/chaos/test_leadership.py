"""Leaders die, are suspended and lose their database; there is always soon one again, and never a second."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast import WorkerConfig
from tests.crew.database import Database
from tests.crew.process import STEADY, Crew, WorkerProcess, crew_on, freeze_between_writes
from tests.crew.waiting import wait_for
from tools.postgres_server import PostgresServer

EXPENSIVE = pytest.mark.parametrize("database", ["sqlite", "pg18"], indirect=True)

#: what a busy machine may add
SLACK_SECONDS = 2.5


def _now(database: Database) -> str:
    return "now()" if database.is_postgres else "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"


def leader(database: Database) -> tuple[int, str] | None:
    """Term and worker of the lease that holds now."""
    rows = database.query(
        f"SELECT term, worker_id FROM {database.table('leader')} WHERE leased_until > {_now(database)}"
    )
    return (rows[0][0], rows[0][1]) if rows and rows[0][1] is not None else None


def wait_led(database: Database, *workers: WorkerProcess, patience: float = 25.0) -> tuple[WorkerProcess, int]:
    """Until one of these leads: which, and in which term."""

    def found() -> tuple[WorkerProcess, int] | None:
        now = leader(database)
        return next(((worker, now[0]) for worker in workers if now and f"-{worker.pid}-" in now[1]), None)

    answer = wait_for(found, "somebody leads", patience=patience)
    assert answer is not None
    return answer


def undisputed_term(database: Database, crew: Crew) -> int | None:
    """The term in the database, if a worker has said that it leads in it and has not given it up."""
    now = leader(database)
    leads, gone = (f"this worker {what}, term {now and now[0]}\n" for what in ("leads", "does not lead any more"))
    return now[0] if now and leads in crew.said and gone not in crew.said else None


def term_seconds(config: WorkerConfig) -> float:
    return config.heartbeat.total_seconds() * 3


@EXPENSIVE
def test_killed_leader_is_replaced(crew: Crew, database: Database) -> None:
    """By kill -9, again and again: within a term and a heartbeat another leads, each time in the next term."""
    workers = [crew.start(STEADY) for _ in range(2)]
    for term in range(1, 4):
        leading, found = wait_led(database, *workers)
        assert found == term
        leading.kill()
        killed_at = time.monotonic()
        workers.remove(leading)
        wait_led(database, *workers)
        waited = time.monotonic() - killed_at
        assert waited < term_seconds(STEADY) + STEADY.heartbeat.total_seconds() + SLACK_SECONDS
        workers.append(crew.start(STEADY))


@EXPENSIVE
def test_stopped_leader_is_replaced_at_the_next_heartbeat(crew: Crew, database: Database) -> None:
    """By SIGTERM it resigns: nobody waits for the end of its term."""
    slow = replace(STEADY, heartbeat=timedelta(seconds=3), dead_after=timedelta(seconds=20))
    first = crew.start(slow)
    wait_led(database, first)
    second = crew.start(slow)
    database.wait_registered(second.pid)

    stopped_at = time.monotonic()
    assert first.stop() == 0
    _, term = wait_led(database, second)

    assert term == 2
    # Without a resignation at least two thirds of the term are left.
    assert time.monotonic() - stopped_at < slow.heartbeat.total_seconds() + SLACK_SECONDS < term_seconds(slow) * 2 / 3


@EXPENSIVE
def test_suspended_leader_wakes_up_as_a_follower(crew: Crew, database: Database) -> None:
    """Stopped for longer than its term, it finds another in office, says so, and leaves the lease alone."""
    workers = [crew.start(STEADY) for _ in range(2)]
    sleeping, term = wait_led(database, *workers)
    wait_for(lambda: f"this worker leads, term {term}" in crew.said, "the leader knows it")
    freeze_between_writes(sleeping, database)
    workers.remove(sleeping)
    _, next_term = wait_led(database, *workers)
    assert next_term == term + 1
    sleeping.thaw()
    wait_for(lambda: f"does not lead any more, term {term}" in crew.said, "the former leader has noticed")
    time.sleep(term_seconds(STEADY))  # whatever it may still try

    assert wait_led(database, *workers)[1] == next_term


@EXPENSIVE
def test_many_candidates(crew: Crew, database: Database) -> None:
    """Started at the same moment, one of them is elected; while it lives nobody else is."""
    workers = [crew.start(STEADY) for _ in range(5)]
    for worker in workers:
        database.wait_registered(worker.pid)
    wait_led(database, *workers)
    time.sleep(2 * term_seconds(STEADY))  # the time in which a second one could be elected
    assert re.findall(r"this worker leads, term (\d+)", crew.said) == ["1"]


def test_server_restart(own_server: PostgresServer, tmp_path: Path) -> None:
    """PostgreSQL is away for longer than a term: soon after it is back somebody leads, in a new term, and one only."""
    database = Database(own_server.create_database("leaders"))
    with crew_on(database.url, tmp_path) as crew:
        with crew.jobs.app.client() as client:
            client.list_jobs()
        workers = [crew.start(STEADY) for _ in range(2)]
        _, term = wait_led(database, *workers)
        own_server.shut_down()
        time.sleep(term_seconds(STEADY) + 1)  # the outage itself
        own_server.start()
        # An election that was asked for before the outage may be answered after it, too late to be made use of.
        settled = wait_for(lambda: undisputed_term(database, crew), "somebody leads and knows it")
        assert settled is not None
        assert settled > term
        time.sleep(term_seconds(STEADY))
        assert wait_led(database, *workers)[1] == settled
