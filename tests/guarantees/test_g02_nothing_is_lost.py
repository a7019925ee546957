"""G2: No durably committed job is lost.

SIGKILL of any worker before, during and after any statement leaves every job claimable or finished.
"""

from __future__ import annotations

import itertools
import random
import signal
from dataclasses import replace

import psycopg
import pytest

from tests.crew.database import Database
from tests.crew.fault import DEATHS, Fault, Point
from tests.crew.fixtures import EVERY_POSTGRES
from tests.crew.process import BRISK, Crew
from tests.crew.report import say
from tests.crew.waiting import wait_for

#: the verbs of a worker in a life that also has failures, a predecessor's jobs to take back, and an end
VERBS = [
    "register_types",
    "register_worker",
    "heartbeat",
    "find_lanes",
    "claim_jobs",
    "claim_suspect",
    "renew_leases",
    "complete_jobs",
    "fail_jobs",
    "release_orphans",
    "forget_workers",
    "reap_jobs",
]
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
@pytest.mark.parametrize("point", DEATHS, ids=lambda point: point.name.lower())
def test_death_around_every_statement(crew: Crew, database: Database, point: Point) -> None:
    """One victim per verb, all at once, fed until the last of them is dead; a rescuer finishes what they left."""
    numbers = itertools.count()
    victims = {name: crew.start(replace(BRISK, concurrency=2), fault=Fault(name, point)) for name in VERBS}

    def feed() -> bool:
        if all(not victim.is_alive for victim in victims.values()):
            return True
        calls = [crew.jobs.note.call(number=next(numbers)), crew.jobs.fail.call(number=next(numbers), times=1)]
        client.enqueue_many([*calls, crew.jobs.note.call(number=next(numbers), pause=0.3)])
        return False

    with crew.jobs.app.client() as client:
        wait_for(feed, f"the death of {victims}", pause=0.1)

    assert {name: victim.join() for name, victim in victims.items()} == dict.fromkeys(VERBS, -signal.SIGKILL)
    assert_nothing_is_lost(crew, database, jobs=next(numbers))


@EXPENSIVE
@pytest.mark.parametrize("point", DEATHS, ids=lambda point: point.name.lower())
@pytest.mark.parametrize("name", ["release_jobs", "retire_worker"])
def test_death_while_leaving(crew: Crew, database: Database, name: str, point: Point) -> None:
    """The victim was told to stop and dies over giving its jobs back, or over signing off."""
    with crew.jobs.app.client() as client:
        client.enqueue_many([crew.jobs.note.call(number=number, pause=0.5) for number in range(4)])
        client.enqueue(crew.jobs.hold.call(number=4, gate=str(crew.gate())))
    victim = crew.start(replace(BRISK, stop_deadline=BRISK.heartbeat), fault=Fault(name, point))
    crew.ledger.wait("started", 5)

    victim.send(signal.SIGTERM)

    assert victim.join() == -signal.SIGKILL
    crew.gate().touch()
    assert_nothing_is_lost(crew, database, jobs=5)


@EXPENSIVE
@pytest.mark.parametrize("point", [Point.UNSENT, Point.UNANSWERED], ids=lambda point: point.name.lower())
@pytest.mark.parametrize("name", ["claim_jobs", "complete_jobs", "fail_jobs", "renew_leases", "heartbeat"])
def test_connection_lost_around_a_statement(crew: Crew, database: Database, name: str, point: Point) -> None:
    """The worker lives on, alone: whatever was in doubt is cleared up, and no finished job is run again."""
    with crew.jobs.app.client() as client:
        client.enqueue_many([crew.jobs.note.call(number=number, pause=0.05) for number in range(18)])
        client.enqueue(crew.jobs.fail.call(number=18, times=1))
        client.enqueue(crew.jobs.note.call(number=19, pause=1.5))
    worker = crew.start(replace(BRISK, concurrency=4), fault=Fault(name, point, nth=2 if name == "claim_jobs" else 1))

    assert database.wait_finished() == {"completed": 20}

    assert len(crew.ledger.read("finished")) == 20
    assert crew.ledger.started_twice() == []
    assert {row.crash_count for row in database.jobs()} == {0}
    assert worker.stop() == 0


@pytest.mark.parametrize("database", EVERY_POSTGRES, indirect=True)
def test_claim_that_is_committed_after_its_claimer_died(crew: Crew, database: Database) -> None:
    """The claim waits for a lock; the worker is killed; the lock goes; PostgreSQL commits for nobody.

    The first claim of a connection is only prepared when it has to wait, and then nobody asks for its execution.
    """
    with crew.jobs.app.client() as client, psycopg.connect(database.url) as connection:
        client.enqueue(crew.jobs.note.call(number=5))
        victim = crew.start()
        assert database.wait_finished() == {"completed": 1}
        client.enqueue_many([crew.jobs.note.call(number=number) for number in range(5)], tx=connection)
        connection.execute("LOCK TABLE holdfast.job IN SHARE MODE")
        database.wait_blocked_statement("picked AS")
        victim.kill()
        connection.commit()

    wait_for(lambda: database.statuses() == {"completed": 1, "running": 5}, "the claim was committed for a dead worker")

    assert_nothing_is_lost(crew, database, jobs=6)


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
