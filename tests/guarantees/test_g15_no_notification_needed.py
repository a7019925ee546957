"""G15: Everything works with no notification delivered."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.crew.database import Database
from tests.crew.process import BRISK, Crew, crew_on
from tests.crew.waiting import wait_for

POLL = timedelta(seconds=1)
#: polls are spread by a fifth; the rest is for a busy machine
SOON = POLL.total_seconds() * 1.2 + 1.0


@pytest.fixture(params=["switched off", "lost on the way"])
def deaf_crew(request: pytest.FixtureRequest, database: Database, tmp_path: Path) -> Iterator[Crew]:
    """Workers that hear nothing: hints are off, or they go to a channel on which nobody listens."""
    with crew_on(database.url, tmp_path) as speaking:
        with speaking.jobs.app.client() as client:
            client.list_jobs()  # creates the schema
        options = {"notify": False} if request.param == "switched off" else {"channel": "elsewhere"}
        with crew_on(database.url, tmp_path, **options) as crew:
            crew.jobs = speaking.jobs
            yield crew


def start_idle(crew: Crew, database: Database, poll: timedelta) -> None:
    """A worker that has run a job, found nothing more and gone to sleep."""
    worker = crew.start(replace(BRISK, poll=poll))
    database.wait_registered(worker.pid)
    with crew.jobs.app.client() as client:
        client.enqueue(crew.jobs.note.call(number=-1))
    crew.ledger.wait("finished", where=lambda entry: entry.number == -1)
    database.wait_finished()


def test_idle_worker_finds_jobs_by_polling(deaf_crew: Crew, database: Database) -> None:
    """Twice in a row, so that the second one meets a worker which has already looked and slept."""
    start_idle(deaf_crew, database, POLL)
    with deaf_crew.jobs.app.client() as client:
        for number in range(2):
            began = time.monotonic()
            client.enqueue(deaf_crew.jobs.note.call(number=number))
            deaf_crew.ledger.wait("started", where=lambda entry, number=number: entry.number == number)  # type: ignore[misc]
            assert time.monotonic() - began < SOON


def test_due_times_and_retries_need_no_hint(deaf_crew: Crew, database: Database) -> None:
    """A job for later, failing jobs, another priority and a backlog: all done by polling and due times alone."""
    start_idle(deaf_crew, database, POLL)
    began = time.monotonic()
    with deaf_crew.jobs.app.client() as client:
        client.enqueue(deaf_crew.jobs.note.call(number=0), delay=2.0)
        client.enqueue_many([deaf_crew.jobs.fail.call(number=number, times=2) for number in range(1, 6)])
        client.enqueue_many([deaf_crew.jobs.note.call(number=number) for number in range(6, 300)], priority=7)

    assert database.wait_finished() == {"completed": 301}

    assert time.monotonic() - began < 2.0 + SOON + 2.0
    assert deaf_crew.ledger.numbers("finished") == {-1, *range(300)}


def test_jobs_of_a_dead_worker_return_without_a_hint(deaf_crew: Crew, database: Database) -> None:
    with deaf_crew.jobs.app.client() as client:
        client.enqueue(deaf_crew.jobs.hold.call(number=0, gate=str(deaf_crew.gate())))
    victim = deaf_crew.start()
    deaf_crew.ledger.wait("started")
    deaf_crew.start()
    victim.kill()
    deaf_crew.gate().touch()

    assert database.wait_finished() == {"completed": 1}


def test_with_hints_an_idle_worker_does_not_wait_for_its_poll(crew: Crew, database: Database) -> None:
    """The poll is a minute away; hints make up for it, also from another process and for a later time."""
    start_idle(crew, database, timedelta(minutes=1))
    latencies = []
    with crew.jobs.app.client() as client:
        for number in range(5):
            began = time.monotonic()
            client.enqueue(crew.jobs.note.call(number=number))
            crew.ledger.wait("started", where=lambda entry, number=number: entry.number == number)  # type: ignore[misc]
            latencies.append(time.monotonic() - began)
        client.enqueue(crew.jobs.note.call(number=5), delay=0.5)

    crew.ledger.wait("started", where=lambda entry: entry.number == 5)

    assert max(latencies) < 5
    assert min(latencies) < 0.5


@pytest.mark.parametrize("database", ["pg18"], indirect=True)
def test_listener_that_was_killed_comes_back(crew: Crew, database: Database) -> None:
    """The listening backend is terminated; the worker listens again, and hints arrive as before."""
    start_idle(crew, database, timedelta(minutes=1))
    listeners = "FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()"
    (old,) = wait_for(lambda: database.query(f"SELECT pid {listeners}"), "somebody listens")
    database.query(f"SELECT pg_terminate_backend({old[0]})")
    wait_for(lambda: database.query(f"SELECT pid {listeners} AND pid <> {old[0]}"), "somebody listens again")

    with crew.jobs.app.client() as client:
        client.enqueue(crew.jobs.note.call(number=1))

    crew.ledger.wait("started", where=lambda entry: entry.number == 1)
