"""G16: SIGTERM means no new claims; running jobs finish or are released within the deadline, attempts refunded.

A second signal stops at once; nothing waits for a lease to expire.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.crew.database import Database
from tests.crew.jobs import slow_farewell
from tests.crew.process import BRISK, Crew, crew_on
from tests.crew.supervised import supervised
from tests.crew.waiting import wait_for
from tools.hint_servers import ValkeyServer

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
    rounds, jobs = 3, 1_000
    for number in range(rounds):
        # In each round, so that there is enough however long a worker goes on that is told to stop.
        with crew.jobs.app.client() as client:
            client.enqueue_many([crew.jobs.note.call(number=number * jobs + n, pause=0.002) for n in range(jobs)])
        seen = len(crew.ledger.read("finished"))
        worker = crew.start(SLOW_TO_SUSPECT)
        crew.ledger.wait("finished", seen + 300)
        assert worker.stop() == 0
        assert database.statuses()["running"] == 0

    crew.start(SLOW_TO_SUSPECT)

    assert database.wait_finished() == {"completed": rounds * jobs}
    assert {(row.attempt, row.crash_count) for row in database.jobs()} == {(1, 0)}
    assert crew.ledger.finished_twice() == []


@EXPENSIVE
@pytest.mark.parametrize("handler", ["hold", "hold_sync"], ids=["on the loop", "in a thread"])
def test_idle_worker_hears_of_what_was_released(crew: Crew, database: Database, handler: str) -> None:
    """It is a minute until it would look by itself; of a thread's job it hears in the last moment of the process."""
    _take_over(crew, database, handler)


@pytest.mark.parametrize("database", ["pg18"], indirect=True)
def test_last_hint_leaves_before_its_process(database: Database, tmp_path: Path) -> None:
    """Where another server carries the hints, it is sent when the job is back, and the process waits for that."""
    with ValkeyServer() as server, crew_on(database.url, tmp_path, notifier=server.url) as crew:
        _take_over(crew, database, "hold_sync")


def _take_over(crew: Crew, database: Database, handler: str) -> None:
    config = replace(SLOW_TO_SUSPECT, poll=timedelta(minutes=1), stop_deadline=timedelta(seconds=0.5))
    workers = [crew.start(config), crew.start(config)]
    for worker in workers:
        database.wait_registered(worker.pid)
    with crew.jobs.app.client() as client:
        client.enqueue(getattr(crew.jobs, handler).call(number=0, gate=str(crew.gate())))
    (first,) = crew.ledger.wait("started", 1)
    busy, idle = sorted(workers, key=lambda worker: worker.pid != first.pid)

    assert busy.stop() == 0

    crew.ledger.wait("started", pid=idle.pid)
    crew.gate().touch()
    assert database.wait_finished() == {"completed": 1}


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


@EXPENSIVE
@pytest.mark.parametrize("way", ["deadline", "at once"])
def test_blocked_loop_is_given_up(crew: Crew, database: Database, way: str) -> None:
    """An `async def` handler that does not wait: nobody on its loop hears of a signal; its jobs go back all the same.

    Those that waited beside it too, and who is idle hears of them: it is a minute until it would look by itself.
    """
    config = replace(SLOW_TO_SUSPECT, poll=timedelta(minutes=1), stop_deadline=timedelta(seconds=0.5))
    busy = crew.start(config if way == "deadline" else replace(config, stop_deadline=timedelta(minutes=1)))
    database.wait_registered(busy.pid)
    with crew.jobs.app.client() as client:
        client.enqueue(crew.jobs.hold.call(number=0, gate=str(crew.gate())))
        crew.ledger.wait("started", 1)
        client.enqueue(crew.jobs.block_loop.call(number=1, seconds=600))
        crew.ledger.wait("started", 2)
    idle = crew.start(config)
    idle_id = database.wait_registered(idle.pid)
    began = time.monotonic()

    busy.send(signal.SIGTERM if way == "deadline" else signal.SIGQUIT)

    assert busy.join() == 0
    assert time.monotonic() - began < 15
    started = crew.ledger.wait("started", 2, pid=idle.pid)
    assert {entry.number for entry in started} == {0, 1}
    assert {(row.attempt, row.crash_count) for row in database.jobs()} == {(1, 0)}
    assert set(database.workers()) == {idle_id}
    idle.kill()


@EXPENSIVE
def test_stuck_thread_is_gone_before_its_job_is_started_again(crew: Crew, database: Database) -> None:
    """Nobody can stop a thread: its job goes back as the last act of its process, beside handlers that do not stop."""
    with crew.jobs.app.client() as client:
        client.enqueue(crew.jobs.beat.call(number=0, gate=str(crew.gate())))
        client.enqueue(crew.jobs.stubborn.call(number=1, gate=str(crew.gate())))
    first = crew.start(replace(SLOW_TO_SUSPECT, stop_deadline=timedelta(seconds=0.5)), lifespan=slow_farewell)
    crew.ledger.wait("started", 2)
    first.send(signal.SIGTERM)
    wait_for(lambda: "SIGTERM: no new jobs" in crew.said, "the signal was heard")

    crew.start(replace(SLOW_TO_SUSPECT, poll=timedelta(seconds=0.02)))

    crew.ledger.wait("started", 4)
    assert first.join() == 0
    entries = [entry for entry in crew.ledger.read() if entry.number == 0]
    again = next(index for index, entry in enumerate(entries) if entry.generation == 2)
    # Between the commit of its last act and the end of the process lie milliseconds; a beat takes two of them.
    assert sum(entry.generation == 1 for entry in entries[again:]) <= 10
    assert {entry.generation for entry in entries[-10:]} == {2}
    assert {(row.attempt, row.crash_count) for row in database.jobs()} == {(1, 0)}
    crew.gate().touch()
    assert database.wait_finished() == {"completed": 2}


@pytest.mark.parametrize("database", ["pg18"], indirect=True)
def test_claim_that_is_under_way_is_given_back(crew: Crew, database: Database) -> None:
    """SIGTERM meets a claim that waits for a lock inside PostgreSQL; it is committed later, and nothing is held."""
    with crew.jobs.app.client() as client:
        client.enqueue_many([crew.jobs.note.call(number=n) for n in range(5)])
    with database.write_lock():
        worker = crew.start(SLOW_TO_SUSPECT)
        database.wait_blocked_statement("AS lane (queue")
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


# --- several processes under a supervisor ---------------------------------------------------------------------------

#: as SLOW_TO_SUSPECT
SUPERVISED = (
    "--processes=3",
    "--concurrency=2",
    "--heartbeat=5s",
    "--dead-after=5m",
    "--lease=1h",
    "--renew=1m",
    "--poll=500ms",
)


def _fill(crew: Crew, count: int) -> None:
    """As many jobs that wait for the gate as there are slots; half of them in threads."""
    with crew.jobs.app.client() as client:
        for job in (crew.jobs.hold, crew.jobs.hold_sync):
            client.enqueue_many([job.call(number=n, gate=str(crew.gate())) for n in range(count // 2)])
    crew.ledger.wait("started", count)


@EXPENSIVE
@pytest.mark.parametrize("is_for_all", [False, True], ids=["supervisor", "everybody"])
def test_all_processes_finish_what_they_run(crew: Crew, database: Database, is_for_all: bool) -> None:
    """SIGTERM with jobs in every process: they finish, nothing new is claimed, nobody is left.

    A service manager may signal every process; that is one signal for each, not two.
    """
    with supervised(crew, *SUPERVISED, "--stop-deadline=20s") as supervisor:
        pids = supervisor.wait_serving(3)
        _fill(crew, 6)
        assert {entry.pid for entry in crew.ledger.read("started")} == set(pids)

        for pid in (*pids, supervisor.pid) if is_for_all else (supervisor.pid,):
            os.kill(pid, signal.SIGTERM)
        wait_for(lambda: supervisor.said.count("the supervisor: no new jobs") == 3, "the order was heard")
        with crew.jobs.app.client() as client:
            client.enqueue_many([crew.jobs.note.call(number=n) for n in range(100, 130)])
        crew.gate().touch()

        assert supervisor.join() == 0
        assert supervisor.processes == set()
    rows = database.jobs()
    assert {(row.status, row.attempt) for row in rows[:6]} == {("completed", 1)}
    assert {(row.status, row.attempt, row.lease_generation) for row in rows[6:]} == {("pending", 0, 0)}
    assert database.workers() == {}


@EXPENSIVE
@pytest.mark.parametrize("way", ["deadline", "second signal", "everybody is signalled", "supervisor is killed"])
def test_all_processes_release_what_does_not_finish(crew: Crew, database: Database, way: str) -> None:
    """Whatever stops them: every job is back, its attempt refunded; nothing runs in the database or in a process."""
    deadline = "60s" if way == "second signal" else "500ms"
    with supervised(crew, *SUPERVISED, f"--stop-deadline={deadline}") as supervisor:
        pids = supervisor.wait_serving(3)
        _fill(crew, 6)
        began = time.monotonic()
        if way == "supervisor is killed":
            supervisor.send(signal.SIGKILL)
        elif way == "everybody is signalled":
            for pid in (supervisor.pid, *pids):
                os.kill(pid, signal.SIGTERM)
        else:
            supervisor.send(signal.SIGTERM)
        if way == "second signal":
            wait_for(lambda: "SIGTERM: all processes stop" in supervisor.said, "the first signal was heard")
            supervisor.send(signal.SIGTERM)

        assert supervisor.join() == (-signal.SIGKILL if way == "supervisor is killed" else 0)
        wait_for(lambda: not supervisor.processes, "every process has ended")
        assert time.monotonic() - began < 10
    assert {(row.status, row.attempt, row.crash_count) for row in database.jobs()} == {("pending", 0, 0)}
    assert database.query(f"SELECT count(*) FROM {database.table('job_attempt')}") == [(0,)]
    assert database.workers() == {}


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_process_that_does_not_stop_holds_up_nobody(crew: Crew, database: Database) -> None:
    """One of three is frozen when SIGTERM comes: the others release their jobs, it is killed, and nobody is left."""
    options = (*SUPERVISED, "--stop-deadline=500ms", "--kill-after=3s")
    with supervised(crew, *options) as supervisor:
        frozen, *others = supervisor.wait_serving(3)
        _fill(crew, 6)
        os.kill(frozen, signal.SIGSTOP)
        supervisor.send(signal.SIGTERM)
        assert supervisor.join() == 1
        assert supervisor.processes == set()
    held = {entry.job_id for entry in crew.ledger.read("started") if entry.pid == frozen}
    released = [row for row in database.jobs() if row.id not in held]
    assert len(others) == len(held) == 2
    assert {(row.status, row.attempt) for row in released} == {("pending", 0)}
