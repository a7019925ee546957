"""G2: No durably committed job is lost.

SIGKILL of any worker at any time leaves every job claimable or finished, and so does any lost connection.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.crew.database import Database
from tests.crew.fault import Fault, Point
from tests.crew.fixtures import EVERY_POSTGRES
from tests.crew.process import BRISK, Crew
from tests.crew.report import say
from tests.crew.waiting import wait_for

EXPENSIVE = pytest.mark.parametrize("database", ["sqlite", "pg18"], indirect=True)


def assert_nothing_is_lost(crew: Crew, database: Database, jobs: int) -> None:
    """A worker that nobody kills finishes everything; no generation was delivered or finished twice."""
    rescuer = crew.start(BRISK)
    database.wait_registered(rescuer.pid)
    assert database.wait_finished() == {"completed": jobs}
    assert crew.ledger.numbers("finished") == set(range(jobs))
    assert crew.ledger.started_twice() == []
    assert crew.ledger.finished_twice() == []
    assert rescuer.stop() == 0


@EXPENSIVE
@pytest.mark.parametrize("point", [Point.UNSENT, Point.UNANSWERED], ids=lambda point: point.name.lower())
@pytest.mark.parametrize("name", ["claim", "complete_jobs", "fail_jobs", "renew_leases", "heartbeat"])
def test_connection_lost_around_a_statement(crew: Crew, database: Database, name: str, point: Point) -> None:
    """The worker lives on, alone: whatever was in doubt is cleared up, and no finished job is run again."""
    with crew.jobs.app.client() as client:
        client.enqueue_many([crew.jobs.note.call(number=number, pause=0.05) for number in range(18)])
        client.enqueue(crew.jobs.fail.call(number=18, times=1))
        client.enqueue(crew.jobs.note.call(number=19, pause=1.5))
    statement = name if name != "claim" else "claim_plain" if database.is_postgres else "claim_jobs"
    fault = Fault(statement, point, nth=2 if name == "claim" else 1)
    worker = crew.start(replace(BRISK, concurrency=4), fault=fault)

    assert database.wait_finished() == {"completed": 20}

    assert len(crew.ledger.read("finished")) == 20
    assert crew.ledger.started_twice() == []
    assert {row.crash_count for row in database.jobs()} == {0}
    assert worker.stop() == 0


@pytest.mark.parametrize("database", EVERY_POSTGRES, indirect=True)
def test_claim_that_is_committed_after_its_claimer_died(crew: Crew, database: Database) -> None:
    """The claim waits in the middle of its work; the worker is killed; the wait ends; PostgreSQL commits for nobody."""
    with crew.jobs.app.client() as client, database.paused_update("NEW.status = 'running'"):
        client.enqueue_many([crew.jobs.note.call(number=number) for number in range(5)])
        victim = crew.start()
        database.wait_blocked_statement("AS lane (queue")
        victim.kill()

    wait_for(lambda: database.statuses() == {"running": 5}, "the claim was committed for a dead worker")

    assert_nothing_is_lost(crew, database, jobs=5)


@pytest.mark.parametrize("database", EVERY_POSTGRES, indirect=True)
def test_completion_that_is_committed_after_its_sender_died(crew: Crew, database: Database) -> None:
    """The completion waits for a lock; the worker is killed; the lock goes; the job is completed, or run again."""
    with crew.jobs.app.client() as client:
        client.enqueue_many([crew.jobs.hold.call(number=number, gate=str(crew.gate())) for number in range(5)])
    victim = crew.start()
    crew.ledger.wait("started", 5)
    with database.write_lock():
        crew.gate().touch()
        database.wait_blocked_statement("output")
        victim.kill()

    assert_nothing_is_lost(crew, database, jobs=5)


@EXPENSIVE
def test_kills_at_random_times(crew: Crew, database: Database) -> None:
    """Ten workers in a row under load, each killed after a number of starts that the seed chooses."""
    seed = random.SystemRandom().randrange(2**32)
    say(f"seed {seed}")
    dice = random.Random(seed)  # noqa: S311 - reproducible on purpose
    jobs = 2_000
    with crew.jobs.app.client() as client:
        client.enqueue_many([crew.jobs.note.call(number=number) for number in range(jobs)])
    for _ in range(10):
        seen = len(crew.ledger.read("started"))
        victim = crew.start()
        crew.ledger.wait("started", min(jobs, seen + dice.randrange(1, 150)))
        victim.kill()

    assert_nothing_is_lost(crew, database, jobs)
