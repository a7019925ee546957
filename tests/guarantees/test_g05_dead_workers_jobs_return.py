"""G5: A dead worker's jobs run again within 30 s by default; a live worker's lease is not taken."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast import WorkerConfig
from holdfast.model.scan_position import Lane
from holdfast.operations.claim_jobs import claim_jobs, find_lanes
from tests.crew.database import Database
from tests.crew.process import STEADY, Crew, WorkerProcess, crew_on, freeze_between_writes
from tests.crew.waiting import wait_for
from tools.postgres_server import PostgresServer

EXPENSIVE = pytest.mark.parametrize("database", ["sqlite", "pg18"], indirect=True)


def crashes(database: Database) -> int:
    return int(database.query(f"SELECT count(*) FROM {database.table('job_attempt')}")[0][0])


def wait_for_a_reaper(crew: Crew, database: Database) -> None:
    """A worker that never was holds a job of a queue that nobody serves; it is taken back: somebody reaps."""
    store = crew.jobs.app.store.sync()
    with crew.jobs.app.client() as client:
        chain = client.enqueue(crew.jobs.note.call(number=0), queue="ghosts")
    found = store.run(lambda: find_lanes(["ghosts"]), read_only=True)
    lanes = [Lane(lane.queue, lane.priority, lane.ready_at, lane.seq - 1) for lane in found]
    assert len(store.run(lambda: claim_jobs("ghost", lanes, 1, timedelta(hours=1)))) == 1
    store.close()
    wait_for(lambda: database.row(chain.id).leased_by is None, "the ghost's job was taken back")
    database.query(f"DELETE FROM {database.job} WHERE id = '{chain.id}'")
    database.query(f"DELETE FROM {database.table('job_attempt')} WHERE job_id = '{chain.id}'")


def start_holders(crew: Crew, database: Database, config: WorkerConfig) -> list[WorkerProcess]:
    """Two workers with eight jobs that wait at the gate; and somebody reaps."""
    with crew.jobs.app.client() as client:
        client.enqueue_many([crew.jobs.hold_sync.call(number=number, gate=str(crew.gate())) for number in range(8)])
    workers = [crew.start(replace(config, concurrency=4)) for _ in range(2)]
    crew.ledger.wait("started", 8)
    wait_for_a_reaper(crew, database)
    return workers


def assert_nobody_is_condemned(crew: Crew, database: Database) -> None:
    """Somebody reaps again, and has taken no job from its holder."""
    wait_for_a_reaper(crew, database)
    assert crashes(database) == 0
    crew.gate().touch()
    assert set(database.wait_finished()) == {"completed"}


@pytest.mark.parametrize("database", ["pg18"], indirect=True)
def test_within_thirty_seconds_by_default(crew: Crew, database: Database) -> None:
    """No setting is changed. Another worker is idle when the first one is killed over its job."""
    gate = crew.gate()
    first = crew.start(WorkerConfig())
    database.wait_registered(first.pid)
    with crew.jobs.app.client() as client:
        client.enqueue(crew.jobs.hold.call(number=1, gate=str(gate)))
    crew.ledger.wait("started")
    other = crew.start(WorkerConfig())
    database.wait_registered(other.pid)

    first.kill()
    killed_at = time.monotonic()
    gate.touch()
    crew.ledger.wait("started", 2)

    assert time.monotonic() - killed_at < 30
    assert database.wait_finished() == {"completed": 1}


def test_soon_with_short_settings(crew: Crew, database: Database) -> None:
    """Everything a dead worker held returns, counted as a crash, and is finished by the next worker."""
    with crew.jobs.app.client() as client:
        client.enqueue_many([crew.jobs.hold.call(number=number, gate=str(crew.gate())) for number in range(5)])
    victim = crew.start()
    crew.ledger.wait("started", 5)
    held_by = database.wait_registered(victim.pid)

    victim.kill()
    crew.gate().touch()
    crew.start()

    assert database.wait_finished() == {"completed": 5}
    assert {(row.attempt, row.crash_count) for row in database.jobs()} == {(2, 1)}
    attempts = database.query(f"SELECT worker_id, outcome FROM {database.table('job_attempt')}")
    assert attempts == [(held_by, "crashed")] * 5


@EXPENSIVE
def test_where_nobody_lives_long(crew: Crew, database: Database) -> None:
    """Workers are replaced before any of them has been heard for dead_after; together they have been."""
    config = replace(STEADY, max_jobs=1)
    with crew.jobs.app.client() as client:
        client.enqueue(crew.jobs.hold.call(number=1, gate=str(crew.gate())))
    victim = crew.start(config)
    crew.ledger.wait("started")
    victim.kill()
    crew.gate().touch()
    lives = 0

    while database.unfinished() and lives < 15:
        worker = crew.start(config)
        began = time.monotonic()
        database.wait_registered(worker.pid)
        time.sleep(0.7)  # its life
        worker.stop()
        lives += 1
        assert time.monotonic() - began < config.dead_after.total_seconds()

    assert database.statuses() == {"completed": 1}
    assert crashes(database) == 1


@EXPENSIVE
@pytest.mark.parametrize("handler", ["block_loop", "note", "note_sync"])
def test_long_handler_keeps_its_lease(crew: Crew, database: Database, handler: str) -> None:
    """A handler runs for longer than lease and dead_after, even without ever yielding to the event loop."""
    busy = crew.start(STEADY)
    database.wait_registered(busy.pid)
    with crew.jobs.app.client() as client:
        match handler:
            case "block_loop":
                client.enqueue(crew.jobs.block_loop.call(number=1, seconds=6.0))
            case "note":
                client.enqueue(crew.jobs.note.call(number=1, pause=6.0))
            case _:
                client.enqueue(crew.jobs.note_sync.call(number=1, pause=6.0))
    crew.ledger.wait("started")
    crew.start(STEADY)
    wait_for_a_reaper(crew, database)

    assert database.wait_finished() == {"completed": 1}

    assert [entry.pid for entry in crew.ledger.read("started")] == [busy.pid]
    assert crashes(database) == 0


def test_outage_of_postgres_condemns_nobody(own_server: PostgresServer, tmp_path: Path) -> None:
    """PostgreSQL is away for longer than dead_after; every heartbeat is stale when it returns, and nobody is reaped."""
    database = Database(own_server.create_database("outage"))
    with crew_on(database.url, tmp_path) as crew:
        workers = start_holders(crew, database, replace(STEADY, dead_after=timedelta(seconds=5)))
        own_server.shut_down()
        time.sleep(6)  # the outage itself
        own_server.start()
        wait_for(lambda: _is_heard(database, workers), "all workers are heard again")
        assert_nobody_is_condemned(crew, database)
        assert {row.crash_count for row in database.jobs()} == {0}
        assert {entry.generation for entry in crew.ledger.read("started")} == {1}


def _is_heard(database: Database, workers: list[WorkerProcess]) -> bool:
    seen = database.query("SELECT id FROM holdfast.worker WHERE last_seen_at > now() - interval '1 second'")
    return all(any(f"-{worker.pid}-" in worker_id for (worker_id,) in seen) for worker in workers)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_long_write_lock_on_sqlite_condemns_nobody(crew: Crew, database: Database) -> None:
    """A user's transaction holds the write lock for longer than dead_after, so that nobody could heartbeat."""
    start_holders(crew, database, replace(STEADY, dead_after=timedelta(seconds=3)))
    with database.write_lock():
        time.sleep(4)  # the outage itself

    assert_nobody_is_condemned(crew, database)
    assert {entry.generation for entry in crew.ledger.read("started")} == {1}


@EXPENSIVE
def test_suspended_machine_condemns_nobody(crew: Crew, database: Database) -> None:
    """All workers sleep for longer than dead_after, as on a laptop; one is awake a little before the other."""
    workers = start_holders(crew, database, STEADY)
    for worker in workers:
        freeze_between_writes(worker, database)
    time.sleep(STEADY.dead_after.total_seconds() + 1)  # the sleep itself
    early, late = workers
    asleep = _last_seen(database, early)
    early.thaw()
    wait_for(lambda: _last_seen(database, early) != asleep, "the first is awake")
    time.sleep(STEADY.heartbeat.total_seconds() * 2)  # three rounds of its reaper
    late.thaw()

    assert_nobody_is_condemned(crew, database)


@EXPENSIVE
def test_newcomer_after_an_outage_condemns_nobody(crew: Crew, database: Database) -> None:
    """Nobody was heard for longer than dead_after; the first one who is has only just started."""
    workers = start_holders(crew, database, STEADY)
    for worker in workers:
        freeze_between_writes(worker, database)
    time.sleep(STEADY.dead_after.total_seconds() + 1)  # the outage itself
    newcomer = crew.start(STEADY)
    database.wait_registered(newcomer.pid)
    time.sleep(STEADY.heartbeat.total_seconds() * 2)  # three rounds of its reaper
    for worker in workers:
        worker.thaw()

    assert_nobody_is_condemned(crew, database)


def _last_seen(database: Database, worker: WorkerProcess) -> object:
    query = f"SELECT last_seen_at FROM {database.table('worker')} WHERE id LIKE '%-{worker.pid}-%'"
    return database.query(query)
