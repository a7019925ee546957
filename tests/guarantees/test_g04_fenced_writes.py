"""G4: Every write by a holder carries its generation; a stale one changes nothing and the holder is told."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from holdfast import App, Cancellation, JobError
from holdfast.model.scan_position import Lane
from holdfast.operations.claim_jobs import ClaimedJob, claim_jobs, find_lanes
from holdfast.operations.complete_jobs import Completion, complete_jobs
from holdfast.operations.fail_jobs import Failure, fail_jobs
from holdfast.operations.lease import Lease, Settlement
from holdfast.operations.release_jobs import release_jobs
from holdfast.operations.renew_leases import renew_leases
from holdfast.operations.statement import Verb
from holdfast.stores import SyncStore
from holdfast.worker.buffer import Buffer
from holdfast.worker.demand import Demand
from holdfast.worker.executors.tasks import TaskExecutor
from holdfast.worker.handler import Place
from holdfast.worker.outcomes import Outcomes
from holdfast.worker.patient_store import PatientStore
from holdfast.worker.permits import Permits
from holdfast.worker.slots import Slots
from tests.crew.database import Database
from tests.crew.process import BRISK, Crew, freeze_between_writes
from tests.crew.waiting import wait_for

LEASE = timedelta(seconds=60)
NO_EQUIPMENT: Any = None
EXPENSIVE = pytest.mark.parametrize("database", ["sqlite", "pg18"], indirect=True)

WRITES: dict[str, Callable[[Lease], Verb[Settlement]]] = {
    "complete_jobs": lambda lease: lambda: complete_jobs("stale", [Completion(lease.id, lease.lease_generation, "1")]),
    "fail_jobs": lambda lease: (
        lambda: fail_jobs(
            "stale", [Failure(lease.id, lease.lease_generation, JobError("Late", "too late"), 0, True, 5)]
        )
    ),
    "release_jobs": lambda lease: lambda: release_jobs([lease]),
    "renew_leases": lambda lease: lambda: renew_leases([lease], timedelta(days=1)),
}


def claim_one(store: SyncStore, worker_id: str) -> ClaimedJob:
    found = store.run(lambda: find_lanes(["default"]), read_only=True)
    lanes = [Lane(lane.queue, lane.priority, lane.ready_at, lane.seq - 1) for lane in found]
    (job,) = store.run(lambda: claim_jobs(worker_id, lanes, 1, LEASE))
    return job


def wait_for_change(database: Database, query: str) -> None:
    before = database.query(query)
    wait_for(lambda: database.query(query) != before, f"another answer to {query}")


def everything(database: Database) -> list[tuple[Any, ...]]:
    return database.query(f"SELECT * FROM {database.job}") + database.query(
        f"SELECT * FROM {database.table('job_attempt')}"
    )


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("since", ["held by another", "completed by another", "dead letter", "given back"])
def test_stale_write_changes_nothing(crew: Crew, database: Database, write: str, since: str) -> None:
    """The old holder claims; its job goes back; another holder brings it into some state; the old holder writes."""
    store = crew.jobs.app.store.sync()
    with crew.jobs.app.client() as client:
        client.enqueue(crew.jobs.note.call(number=1))
    stale = claim_one(store, "stale")
    store.run(lambda: release_jobs([Lease(stale.id, stale.lease_generation)]))
    fresh = claim_one(store, "fresh")
    lease = Lease(fresh.id, fresh.lease_generation)
    match since:
        case "completed by another":
            store.run(lambda: complete_jobs("fresh", [Completion(lease.id, lease.lease_generation, "2")]))
        case "dead letter":
            failure = Failure(lease.id, lease.lease_generation, JobError("E", "final"), 0, True, 5)
            store.run(lambda: fail_jobs("fresh", [failure]))
        case "given back":
            store.run(lambda: release_jobs([lease]))
    before = everything(database)

    settlement = store.run(WRITES[write](Lease(stale.id, stale.lease_generation)))

    assert settlement.lost == {stale.id}
    assert everything(database) == before
    store.close()


@pytest.mark.parametrize("write", ["complete_jobs", "fail_jobs", "release_jobs"])
def test_write_repeated_under_its_own_generation_is_a_success(crew: Crew, database: Database, write: str) -> None:
    """The answer to the first try was lost, so it is sent again: told that all is well, and nothing changes."""
    store = crew.jobs.app.store.sync()
    with crew.jobs.app.client() as client:
        client.enqueue(crew.jobs.note.call(number=1))
    job = claim_one(store, "holder")
    verb = WRITES[write](Lease(job.id, job.lease_generation))
    assert store.run(verb).lost == set()
    before = everything(database)

    assert store.run(verb).lost == set()

    assert everything(database) == before
    store.close()


@EXPENSIVE
def test_frozen_worker_is_told_and_changes_nothing(crew: Crew, database: Database) -> None:
    """SIGSTOP past lease and dead_after; another worker takes the job; thawed, the first handler is cancelled."""
    with crew.jobs.app.client() as client:
        chain = client.enqueue(crew.jobs.hold.call(number=1, gate=str(crew.gate())))
    frozen = crew.start()
    (first,) = crew.ledger.wait("started")
    freeze_between_writes(frozen, database)

    other = crew.start()
    (second,) = crew.ledger.wait("started", pid=other.pid)
    # The first one is thawed while the second still holds the job: its next renewal must learn of it.
    frozen.thaw()
    crew.ledger.wait("cancelled: lease_lost", pid=frozen.pid)
    held = database.row(chain.id)
    assert (held.status, held.lease_generation) == ("running", second.generation)
    assert held.leased_by == database.wait_registered(other.pid)
    crew.gate().touch()

    database.wait_finished()

    assert second.generation > first.generation
    assert {entry.pid for entry in crew.ledger.read("finished")} == {other.pid}
    assert database.row(chain.id).lease_generation == second.generation
    assert frozen.stop() == 0
    assert other.stop() == 0


@EXPENSIVE
@pytest.mark.parametrize("ending", ["finished", "failed"])
def test_late_outcome_of_a_thawed_worker_is_refused(crew: Crew, database: Database, ending: str) -> None:
    """SIGSTOP in the middle; another finishes; thawed, the first handler returns or raises, and is refused."""
    gate = crew.gate()
    with crew.jobs.app.client() as client:
        call = crew.jobs.hold_sync.call(number=1, gate=str(gate))
        chain = client.enqueue(
            call if ending == "finished" else crew.jobs.hold_then_fail.call(number=1, gate=str(gate))
        )
    frozen = crew.start(replace(BRISK, heartbeat=timedelta(seconds=0.5)))
    crew.ledger.wait("started")
    freeze_between_writes(frozen, database)
    other = crew.start()
    (second,) = crew.ledger.wait("started", pid=other.pid)
    gate.touch()
    database.wait_status(chain.id, "completed")
    before = everything(database)

    frozen.thaw()
    crew.ledger.wait(ending, pid=frozen.pid)

    wait_for(lambda: "the lease was lost" in crew.said, "the thawed worker was told")
    assert everything(database) == before
    assert database.row(chain.id).lease_generation == second.generation
    assert frozen.stop() == 0


@EXPENSIVE
def test_sync_handler_that_lost_its_lease_does_not_disturb_its_successor_in_the_same_worker(
    crew: Crew, database: Database
) -> None:
    """A thread cannot be cancelled; the job returns to the very worker in which the thread still runs.

    The first delivery is told, and ends late; the second is renewed, not taken for the first, and completes.
    """
    gate = crew.gate()
    with crew.jobs.app.client() as client:
        chain = client.enqueue(crew.jobs.hold_sync.call(number=1, gate=str(gate)))
    worker = crew.start()
    (first,) = crew.ledger.wait("started")
    # An operator, or a reaper that was right for a moment, gives the job back.
    database.query(
        f"UPDATE {database.job} SET status = 'pending', leased_by = NULL, leased_until = NULL WHERE id = '{chain.id}'"
    )
    crew.ledger.wait("told: lease_lost", generation=first.generation)
    crew.ledger.wait("started", 2)
    # The second delivery outlives a few renewals and look-arounds of the worker.
    told = len(crew.ledger.read("told: lease_lost"))
    generation = database.row(chain.id).lease_generation
    for _ in range(3):
        wait_for_change(database, f"SELECT leased_until FROM {database.job}")

    gate.touch()

    assert database.wait_finished() == {"completed": 1}
    assert database.row(chain.id).lease_generation == generation
    assert len(crew.ledger.read("started")) == 2
    assert len(crew.ledger.read("told: lease_lost")) == told == 1
    assert worker.stop() == 0


async def test_lease_lost_before_the_first_step_frees_the_slot() -> None:
    """Started and told in one breath: the handler never comes to its end, and neither its slot nor its job is stuck."""
    app = App("sqlite:////nowhere/at/all.db")
    steps: list[str] = []

    @app.job()
    async def note(number: int) -> None:
        steps.append("first")
        await asyncio.sleep(60)
        steps.append("last")

    def no_hook(*_: object) -> None: ...

    demand, buffer = Demand(), Buffer(100)
    outcomes = Outcomes(PatientStore(app.store.asynchronous(), LEASE), "w", 100)
    slots = Slots(
        "w",
        app._registry.handlers,
        1,
        buffer=buffer,
        outcomes=outcomes,
        demand=demand,
        permits=Permits(),
        executors=lambda done, _: {Place.LOOP: TaskExecutor(NO_EQUIPMENT, no_hook, done)},
        hook=no_hook,
    )
    job = dict.fromkeys(ClaimedJob._fields) | {"id": "a", "lease_generation": 1, "type_name": "note", "attempt": 1}
    buffer.ready.append(ClaimedJob(**job | {"input": '{"number": 1}'}))  # type: ignore[arg-type]  # columns of a row

    slots.fill()
    slots.lose({Lease("a", 1): Cancellation.LEASE_LOST})
    for _ in range(5):
        await asyncio.sleep(0)

    # An eager task has taken its first step when it is there; any other is cancelled before that.
    assert steps == (["first"] if sys.version_info >= (3, 12) else [])
    assert (slots.free, slots.leases()) == (1, [])
