"""G6: A job past its attempts or crash cap is a dead letter and holds up nobody.

One poison job among 500 makes exactly one dead letter.
"""

from __future__ import annotations

import signal
from dataclasses import replace
from typing import Any

import pytest

from holdfast import Call, WorkerConfig
from tests.crew.database import Database
from tests.crew.process import BRISK, Crew, WorkerProcess
from tests.crew.waiting import wait_for

EXPENSIVE = pytest.mark.parametrize("database", ["sqlite", "pg18"], indirect=True)


def supervise(crew: Crew, database: Database, config: WorkerConfig, patience: float = 60) -> list[int]:
    """Restart the worker whenever it dies, until every job is finished; the exit codes."""
    workers: list[WorkerProcess] = [crew.start(config)]

    def is_over() -> bool:
        if not workers[-1].is_alive:
            workers.append(crew.start(config))
        return database.unfinished() == 0

    wait_for(is_over, "every job finished", patience=patience, pause=0.05)
    return [worker.join() for worker in workers[:-1]]


def test_failing_job_ends_as_a_dead_letter_and_holds_up_nobody(crew: Crew, database: Database) -> None:
    with crew.jobs.app.client() as client:
        failing = client.enqueue(crew.jobs.fail.call(number=0, times=100), max_attempts=3)
        client.enqueue_many([crew.jobs.note.call(number=number) for number in range(1, 21)])
    crew.start(replace(BRISK, concurrency=1))

    assert database.wait_finished() == {"dead_letter": 1, "completed": 20}

    row = database.row(failing.id)
    assert (row.status, row.attempt, row.crash_count) == ("dead_letter", 3, 0)
    assert "attempt 3 of 0" in (row.error or "")
    # The others did not wait for its retries.
    order = [entry.number for entry in crew.ledger.read() if entry.event in {"failed", "finished"}]
    assert order.index(20) < len(order) - 1


@EXPENSIVE
def test_attempts_lost_in_crashes_count(crew: Crew, database: Database) -> None:
    """Two attempts allowed, two workers killed from outside: a dead letter that says so, before the crash cap."""
    with crew.jobs.app.client() as client:
        chain = client.enqueue(crew.jobs.hold.call(number=0, gate=str(crew.gate())), max_attempts=2)
    for attempt in (1, 2):
        victim = crew.start()
        crew.ledger.wait("started", attempt)
        victim.kill()
    crew.start()

    row = database.wait_status(chain.id, "dead_letter")

    assert (row.attempt, row.crash_count) == (2, 2)
    assert "worker died" in (row.error or "")


@EXPENSIVE
def test_one_poison_job_among_five_hundred(crew: Crew, database: Database) -> None:
    """It kills its worker whenever it runs; a supervisor starts a new one. 499 complete, one is a dead letter."""
    with crew.jobs.app.client() as client:
        client.enqueue_many([crew.jobs.note.call(number=number) for number in range(250)])
        poison = client.enqueue(crew.jobs.poison.call(number=250))
        client.enqueue_many([crew.jobs.note.call(number=number, pause=0.2) for number in range(251, 500)])

    # Small batches: everything in the batch that the first crash hits is run alone afterwards.
    exit_codes = supervise(crew, database, replace(BRISK, batch=20))

    assert database.statuses() == {"completed": 499, "dead_letter": 1}
    row = database.row(poison.id)
    assert "killed its worker" in (row.error or "")
    assert exit_codes == [-signal.SIGKILL] * 3
    # Nobody else was in more than the first crash: after it, suspects ran alone though there was plenty to do.
    victims = f"SELECT DISTINCT worker_id FROM {database.table('job_attempt')} WHERE job_id <> '{poison.id}'"
    assert len(database.query(victims)) == 1
    assert max(other.crash_count for other in database.jobs() if other.id != poison.id) == 1
    assert crew.ledger.numbers("finished") == {*range(500)} - {250}
    assert crew.ledger.finished_twice() == []


@EXPENSIVE
def test_innocent_long_job_survives_the_company_of_poison(crew: Crew, database: Database) -> None:
    """A job longer than the engine's patience with suspects shares the first crash only: no two suspects meet."""
    with crew.jobs.app.client() as client:
        innocent = client.enqueue(crew.jobs.note.call(number=0, pause=4.0))
        poison = client.enqueue(crew.jobs.poison.call(number=1), delay=1.0)

    supervise(crew, database, BRISK)

    assert database.statuses() == {"completed": 1, "dead_letter": 1}
    assert database.row(innocent.id).crash_count == 1
    assert "killed its worker" in (database.row(poison.id).error or "")


def stall_behind_a_long_job(crew: Crew, long: Call[Any]) -> WorkerProcess:
    """One slot, thousands of quick jobs to make it greedy, then a long one: what is claimed now waits in its buffer."""
    with crew.jobs.app.client() as client:
        client.enqueue_many([crew.jobs.note.call(number=number) for number in range(3_000)])
        client.enqueue(long)
        client.enqueue_many([crew.jobs.note.call(number=number) for number in range(3_001, 4_000)])
    worker = crew.start(replace(BRISK, concurrency=1))
    crew.ledger.wait("started", number=3_000)
    return worker


@EXPENSIVE
def test_jobs_that_were_claimed_but_never_started_lose_nothing(crew: Crew, database: Database) -> None:
    """The worker has prefetched when it dies: what the ledger never saw start keeps its attempts.

    Of a batch whose first jobs may have started all are suspects; of one that certainly had not, none is.
    """
    # With its event loop blocked it cannot give anything back.
    victim = stall_behind_a_long_job(crew, crew.jobs.block_loop.call(number=3_000, seconds=5))
    victim.kill()
    started = {entry.job_id for entry in crew.ledger.read("started")}
    running = {row.id for row in database.jobs() if row.status == "running"}
    certain = {
        str(job_id)
        for (job_id,) in database.query(
            f"SELECT job.id FROM {database.job} AS job JOIN {database.table('prefetch')} AS mark "
            "ON mark.worker_id = job.leased_by AND mark.claimed_at = job.last_attempt_at "
            "WHERE job.status = 'running' AND NOT mark.is_promoted"
        )
    }
    assert certain
    assert not certain & started
    with crew.jobs.app.client() as client:
        client.enqueue(crew.jobs.note.call(number=-1), queue="elsewhere", delay=3600)
    crew.start(replace(BRISK, queues=["elsewhere"]))  # takes back, and runs nothing

    wait_for(lambda: database.statuses()["running"] == 0, "the dead worker's jobs are back")

    back = [row for row in database.jobs() if row.id in running - started]
    assert {(row.status, row.attempt) for row in back} == {("pending", 0)}
    assert {row.crash_count for row in back if row.id in certain} == {0}


@EXPENSIVE
def test_prefetched_jobs_do_not_wait_behind_a_long_one(crew: Crew, database: Database) -> None:
    """A worker whose slots are all taken for long lets go of what it prefetched; an idle worker does it meanwhile."""
    stall_behind_a_long_job(crew, crew.jobs.hold.call(number=3_000, gate=str(crew.gate())))
    crew.start()

    wait_for(lambda: database.unfinished() == 1, "all but the long job are finished")

    assert database.statuses() == {"completed": 3_999, "running": 1}
    crew.gate().touch()
    assert database.wait_finished() == {"completed": 4_000}
