"""G16: SIGTERM means no new claims; running jobs finish or are released within the deadline, attempts refunded.

A second signal stops at once; nothing waits for a lease to expire.
"""

from __future__ import annotations

import signal
import time
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.crew.database import Database
from tests.crew.process import BRISK, Crew
from tests.crew.waiting import wait_for

#: leases so long that nothing in these tests can come back by their end, or by a missing heartbeat
SLOW_TO_SUSPECT = replace(
    BRISK,
    heartbeat=timedelta(seconds=5),
    dead_after=timedelta(minutes=5),
    lease=timedelta(hours=1),
    renew=timedelta(minutes=1),
    poll=timedelta(seconds=0.5),
    stop_deadline=timedelta(seconds=20),
)
EXPENSIVE = pytest.mark.parametrize("database", ["sqlite", "pg18"], indirect=True)
BOTH_SIGNALS = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)


@EXPENSIVE
@BOTH_SIGNALS
def test_running_jobs_finish_and_nothing_new_is_claimed(crew: Crew, database: Database, number: signal.Signals) -> None:
    """Told to stop with four jobs running and more waiting; the gate opens; the four finish, the rest is untouched."""
    with crew.jobs.app.client() as client:
        client.enqueue_many([crew.jobs.hold.call(number=n, gate=str(crew.gate())) for n in range(2)])
        client.enqueue_many([crew.jobs.hold_sync.call(number=n, gate=str(crew.gate())) for n in range(2, 4)])
    worker = crew.start(replace(SLOW_TO_SUSPECT, concurrency=4))
    crew.ledger.wait("started", 4)

    worker.send(number)
    worker_id = database.wait_registered(worker.pid)
    with crew.jobs.app.client() as client:
        client.enqueue_many([crew.jobs.note.call(number=n) for n in range(4, 40)])
    crew.gate().touch()

    assert worker.join() == 0
    rows = database.jobs()
    assert {(row.status, row.attempt) for row in rows[:4]} == {("completed", 1)}
    assert {(row.status, row.attempt, row.lease_generation) for row in rows[4:]} == {("pending", 0, 0)}
    assert worker_id not in database.workers()


@EXPENSIVE
def test_job_longer_than_the_deadline_is_released(crew: Crew, database: Database) -> None:
    """At the deadline the handlers are told, their jobs go back with the attempt refunded, and another takes them."""
    with crew.jobs.app.client() as client:
        client.enqueue(crew.jobs.hold.call(number=0, gate=str(crew.gate())))
        client.enqueue(crew.jobs.hold_sync.call(number=1, gate=str(crew.gate())))
    worker = crew.start(replace(SLOW_TO_SUSPECT, stop_deadline=timedelta(seconds=0.5)))
    crew.ledger.wait("started", 2)
    began = time.monotonic()

    assert worker.stop() == 0

    assert time.monotonic() - began < 5
    assert {(row.status, row.attempt, row.crash_count) for row in database.jobs()} == {("pending", 0, 0)}
    crew.ledger.wait("cancelled: stopping")
    assert database.query(f"SELECT count(*) FROM {database.table('job_attempt')}") == [(0,)]
    crew.gate().touch()
    crew.start(SLOW_TO_SUSPECT)
    assert database.wait_finished() == {"completed": 2}
    assert {row.attempt for row in database.jobs()} == {1}


@EXPENSIVE
def test_prefetched_jobs_go_back_to_their_places(crew: Crew, database: Database) -> None:
    """Stopped in the middle of a backlog: nothing is left running, and the rest is done in the order of enqueue."""
    jobs = 6_000
    with crew.jobs.app.client() as client:
        client.enqueue_many([crew.jobs.note.call(number=n) for n in range(jobs)])
    first = crew.start(replace(SLOW_TO_SUSPECT, concurrency=1))
    crew.ledger.wait("finished", 500)

    assert first.stop() == 0

    rows = database.jobs()
    finished = len(crew.ledger.read("finished"))
    assert finished < jobs
    assert database.statuses() == {"completed": finished, "pending": jobs - finished}
    assert {row.attempt for row in rows if row.status == "pending"} == {0}
    assert any(row.lease_generation > 0 for row in rows if row.status == "pending")  # some had been prefetched
    crew.start(replace(SLOW_TO_SUSPECT, concurrency=1))
    assert database.wait_finished() == {"completed": jobs}
    assert [entry.number for entry in crew.ledger.read("started")] == list(range(jobs))


@EXPENSIVE
def test_another_worker_takes_over_at_once(crew: Crew, database: Database) -> None:
    """Stopped under load: the next worker finishes everything though no lease can expire and nobody can look dead."""
    jobs = 3_000
    with crew.jobs.app.client() as client:
        client.enqueue_many([crew.jobs.note.call(number=n, pause=0.002) for n in range(jobs)])
    for _ in range(3):
        seen = len(crew.ledger.read("finished"))
        worker = crew.start(SLOW_TO_SUSPECT)
        crew.ledger.wait("finished", seen + 300)
        assert worker.stop() == 0
        assert database.statuses()["running"] == 0

    crew.start(SLOW_TO_SUSPECT)

    assert database.wait_finished() == {"completed": jobs}
    assert {(row.attempt, row.crash_count) for row in database.jobs()} == {(1, 0)}
    assert crew.ledger.finished_twice() == []


@EXPENSIVE
@BOTH_SIGNALS
def test_second_signal_stops_at_once(crew: Crew, database: Database, number: signal.Signals) -> None:
    """The deadline is far away; the second signal does not wait for it. The jobs are released all the same."""
    with crew.jobs.app.client() as client:
        client.enqueue(crew.jobs.hold.call(number=0, gate=str(crew.gate())))
        client.enqueue(crew.jobs.hold_sync.call(number=1, gate=str(crew.gate())))
        client.enqueue(crew.jobs.stubborn.call(number=2, gate=str(crew.gate())))
    worker = crew.start(SLOW_TO_SUSPECT)
    crew.ledger.wait("started", 3)
    worker.send(number)
    wait_for(lambda: f"{number.name}: no new jobs" in crew.said, "the first signal was heard")
    began = time.monotonic()

    worker.send(number)

    assert worker.join() == 0
    assert time.monotonic() - began < 4
    assert {(row.status, row.attempt) for row in database.jobs()} == {("pending", 0)}


@pytest.mark.parametrize("database", ["pg18"], indirect=True)
def test_claim_that_is_under_way_is_given_back(crew: Crew, database: Database) -> None:
    """SIGTERM meets a claim that waits for a lock inside PostgreSQL; it is committed later, and nothing is held."""
    with crew.jobs.app.client() as client:
        client.enqueue_many([crew.jobs.note.call(number=n) for n in range(5)])
    with database.write_lock():
        worker = crew.start(SLOW_TO_SUSPECT)
        database.wait_blocked_statement("picked AS")
        worker.send(signal.SIGTERM)
    assert worker.join() == 0

    finished = crew.ledger.numbers("finished")
    assert {(row.status, row.attempt) for row in database.jobs()} <= {("pending", 0), ("completed", 1)}
    assert database.statuses()["completed"] == len(finished)


@EXPENSIVE
def test_stop_before_anything_began(crew: Crew, database: Database) -> None:
    """An idle worker leaves at once, signs off, and leaves no trace in the registry."""
    worker = crew.start(SLOW_TO_SUSPECT)
    database.wait_registered(worker.pid)
    began = time.monotonic()

    assert worker.stop() == 0

    assert time.monotonic() - began < 3
    assert database.workers() == {}


@pytest.mark.parametrize("database", ["pg18"], indirect=True)
def test_worker_waiting_for_its_database_can_be_stopped(crew: Crew) -> None:
    """Nothing listens where the database should be; SIGTERM ends the waiting."""
    worker = crew.start(SLOW_TO_SUSPECT, url="postgresql://postgres@127.0.0.1:1/nothing")
    wait_for(lambda: "cannot start yet" in crew.said, "it waits for its database")

    assert worker.stop() == 0
