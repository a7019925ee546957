"""G15: Everything works with no notification delivered."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.crew.database import Database
from tests.crew.flaky import Flaky
from tests.crew.process import BRISK, Crew, crew_on
from tests.crew.report import say
from tests.crew.waiting import wait_for
from tools.hint_servers import NatsServer, ValkeyServer

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
    crew.ledger.wait("finished", number=-1)
    database.wait_finished()


def test_idle_worker_finds_jobs_by_polling(deaf_crew: Crew, database: Database) -> None:
    """Twice in a row, so that the second one meets a worker which has already looked and slept."""
    start_idle(deaf_crew, database, POLL)
    with deaf_crew.jobs.app.client() as client:
        for number in range(2):
            began = time.monotonic()
            client.enqueue(deaf_crew.jobs.note.call(number=number))
            deaf_crew.ledger.wait("started", number=number)
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

    assert time.monotonic() - began < 2.0 + SOON + 10.0  # three hundred jobs, whatever the machine does besides
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
            crew.ledger.wait("started", number=number)
            latencies.append(time.monotonic() - began)
        client.enqueue(crew.jobs.note.call(number=5), delay=0.5)

    crew.ledger.wait("started", number=5)

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

    crew.ledger.wait("started", number=1)


@pytest.fixture(params=["redis", "nats"])
def server(request: pytest.FixtureRequest) -> Iterator[ValkeyServer | NatsServer]:
    """What carries the hints beside the database."""
    with ValkeyServer() if request.param == "redis" else NatsServer() as server:
        yield server


def run_everything(crew: Crew, database: Database) -> None:
    """Jobs of all kinds: at once, for later, failing, in chains and in bulk."""
    jobs = crew.jobs
    with jobs.app.client() as client:
        for number in range(20):
            client.enqueue(jobs.note.call(number=number))
            time.sleep(0.05)
        client.enqueue(jobs.note.call(number=20), delay=1.0)
        client.enqueue_many([jobs.fail.call(number=number, times=2) for number in range(21, 30)])
        client.enqueue_many([jobs.relay.call(number=number, left=4) for number in range(30, 40)])
        client.enqueue_many([jobs.note.call(number=number) for number in range(40, 300)], priority=3)
    assert database.wait_finished() == {"completed": 340}
    assert crew.ledger.numbers("started") == set(range(300))
    assert crew.ledger.started_twice() == []


@pytest.mark.parametrize("seed", [1, 2])
def test_hints_that_cannot_be_relied_on(crew: Crew, database: Database, seed: int) -> None:
    """Most of them dropped, others late or doubled: nothing is lost, doubled or stuck, or later than a poll."""
    say(f"seed {seed}")
    for number in range(2):
        crew.start(replace(BRISK, poll=POLL), fault=Flaky(seed=seed * 10 + number, drop=0.7))
    began = time.monotonic()
    run_everything(crew, database)
    assert time.monotonic() - began < 20 * SOON
    with crew.jobs.app.client() as client:
        # One after the other, so that nobody finds one because of a hint for the next.
        for number in range(1000, 1015):
            began = time.monotonic()
            client.enqueue(crew.jobs.note.call(number=number))
            crew.ledger.wait("started", number=number)
            assert time.monotonic() - began < 3 * SOON


@pytest.mark.parametrize("database", ["pg18", "sqlite"], indirect=True)
def test_server_of_hints_that_dies(database: Database, tmp_path: Path, server: ValkeyServer | NatsServer) -> None:
    """Killed while jobs come in, and not there for the rest: workers look every second, though their poll is far."""
    with crew_on(database.url, tmp_path, notifier=server.url) as crew:
        with crew.jobs.app.client() as client:
            client.list_jobs()  # creates the schema
        start_idle(crew, database, timedelta(minutes=1))
        server.kill()
        with crew.jobs.app.client() as client:
            for number in range(3):
                client.enqueue(crew.jobs.note.call(number=number))
                crew.ledger.wait("started", number=number)
        assert database.wait_finished() == {"completed": 4}
        # On one machine a SQLite file itself tells of jobs, perhaps sooner than the worker misses the server.
        wait_for(lambda: "does not answer" in crew.said, "the worker says so")
        assert crew.said.count("does not answer") == 1


@pytest.mark.parametrize("database", ["pg18"], indirect=True)
def test_server_of_hints_that_comes_and_goes(
    database: Database, tmp_path: Path, server: ValkeyServer | NatsServer
) -> None:
    """Everything is done in the end, and when the server has come to stay, hints are heard as before."""
    with crew_on(database.url, tmp_path, notifier=server.url) as crew:
        for _ in range(2):
            crew.start(replace(BRISK, poll=timedelta(minutes=1)))
        storm = threading.Event()

        def come_and_go() -> None:
            while not storm.wait(0.7):
                server.kill()
                time.sleep(0.3)
                server.start()

        thread = threading.Thread(target=come_and_go)
        thread.start()
        try:
            run_everything(crew, database)
        finally:
            storm.set()
            thread.join()
        wait_for(lambda: crew.said.count("is back") == crew.said.count("does not answer"), "everybody is back")
        with crew.jobs.app.client() as client:
            client.enqueue(crew.jobs.note.call(number=1000))
        crew.ledger.wait("started", number=1000)
