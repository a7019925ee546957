"""G10: Jobs of one partition key have one lease holder at a time, in order: two transactions meet at chosen points.

Only PostgreSQL: on SQLite one writer comes after the other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import psycopg
import pytest
from msgspec.structs import replace

from holdfast import Client, Dedup
from holdfast.errors import SerializationConflict
from holdfast.model.job import JobError
from holdfast.operations.claim_jobs import Claim, ClaimedJob, claim_jobs
from holdfast.operations.complete_jobs import complete_jobs
from holdfast.operations.fail_jobs import Failure, fail_jobs
from holdfast.operations.release_jobs import release_jobs
from holdfast.operations.statement import Verb
from holdfast.operations.sweep_keys import find_stranded, free_keys
from holdfast.stores import SyncStore
from tests.crew.database import Database
from tests.crew.fixtures import EVERY_POSTGRES
from tests.crew.keyed import LEASE, claim, done, due_lanes, in_order, lease_of, within
from tests.crew.process import Crew

pytestmark = pytest.mark.parametrize("database", EVERY_POSTGRES, indirect=True)


class Stage:
    """A key "k" on one database, with a transaction that stays open until it is told."""

    def __init__(self, crew: Crew, database: Database, client: Client, store: SyncStore, tx: Any) -> None:
        self.crew = crew
        self.database = database
        self.client = client
        self.store = store
        self.tx = tx

    def put(self, count: int = 1, key: str = "k", **options: Any) -> list[str]:
        """One after the other: the order of the key."""
        call = self.crew.jobs.note.call(number=1)
        return [self.client.enqueue(call, partition_key=key, **options).id for _ in range(count)]

    def claim(self, **options: Any) -> Claim:
        return claim(self.store, **options)

    def claim_in_tx(self) -> Claim:
        lanes = due_lanes(self.store)
        claimed: Claim = self.in_tx(lambda: claim_jobs("w2", lanes, 100, LEASE))
        return claimed

    def in_tx(self, verb: Verb[Any]) -> Any:
        return within(self.crew.jobs.app, self.tx, verb)

    def is_held(self, job_id: str) -> bool:
        return bool(self.database.query(f"SELECT held FROM {self.database.job} WHERE id = '{job_id}'")[0][0])

    def status(self, job_id: str) -> str:
        return self.database.row(job_id).status

    def stranded(self) -> list[tuple[str, str]]:
        return self.store.run(lambda: find_stranded(None), read_only=True).stranded

    def sweep(self) -> None:
        stranded = self.stranded()
        self.store.run(lambda: free_keys(stranded))

    def claim_all(self) -> list[str]:
        """Whatever can be claimed, in as many claims as it takes to set the rest aside."""
        claimed: list[str] = []
        while True:
            found = self.claim()
            claimed += [job.id for job in in_order(found)]
            if not found and not found.aside:
                return claimed


@pytest.fixture
def stage(crew: Crew, database: Database) -> Iterator[Stage]:
    store = crew.jobs.app.store.sync()
    with crew.jobs.app.client() as client, psycopg.connect(database.url) as tx:
        yield Stage(crew, database, client, store, tx)
        tx.rollback()
    store.close()


@contextmanager
def meanwhile(stage: Stage, action: Callable[[], Any]) -> Iterator[Future[Any]]:
    """In a thread of its own, begun before the block; over when the block is left."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(action)
        try:
            yield future
        finally:
            stage.tx.rollback()  # what it waits for, if the block has failed
            future.exception(30)


# --- who sets aside and who leaves --------------------------------------------------------------------------------

Leave = Callable[[Stage, ClaimedJob], object]


def _completes(stage: Stage, job: ClaimedJob) -> bool:
    return not stage.store.run(lambda: complete_jobs("w", [done(job)])).locked


def _dies(stage: Stage, job: ClaimedJob) -> bool:
    failure = Failure(job.id, job.lease_generation, JobError("x", "y"), delay_ms=0, is_final=True, max_attempts=5)
    return not stage.store.run(lambda: fail_jobs("w", [failure])).locked


def _is_released(stage: Stage, job: ClaimedJob) -> bool:
    return not stage.store.run(lambda: release_jobs([lease_of(job)])).locked


#: as holders do it: what is locked is tried again
AS_HOLDERS: dict[str, Callable[[Stage, ClaimedJob], bool]] = {
    "completed": _completes,
    "dead": _dies,
    "released": _is_released,
}
#: as people do it: they wait for the lock
AS_PEOPLE: dict[str, Leave] = {
    "completed outside": lambda stage, job: stage.client.complete_job(job.id, 1),
    "deleted": lambda stage, job: stage.client.delete_chains(job.id),
}


@pytest.mark.parametrize("how", AS_HOLDERS)
def test_a_holder_who_leaves_while_a_claim_sets_aside_behind_him(stage: Stage, how: str) -> None:
    """The claim has the one in front locked until it commits, so that whoever leaves sees what was set aside."""
    first, second = stage.put(2)
    (held,) = stage.claim(limit=1)
    assert held.id == first
    assert stage.claim_in_tx().aside == 1

    assert not AS_HOLDERS[how](stage, held)
    stage.tx.commit()
    assert stage.is_held(second)
    assert AS_HOLDERS[how](stage, held)

    assert stage.stranded() == []
    assert stage.claim_all() == [first if how == "released" else second]


@pytest.mark.parametrize("how", AS_PEOPLE)
def test_a_person_who_ends_a_job_while_a_claim_sets_aside_behind_it(stage: Stage, how: str) -> None:
    """He waits for the claim, and then sees what was set aside."""
    _, second = stage.put(2)
    (held,) = stage.claim(limit=1)
    assert stage.claim_in_tx().aside == 1

    with meanwhile(stage, partial(AS_PEOPLE[how], stage, held)) as leaving:
        stage.database.wait_blocked_statement("")
        assert not leaving.done()
        stage.tx.commit()
    leaving.result()

    assert stage.stranded() == []
    assert stage.claim_all() == [second]


def test_a_claim_meets_one_that_is_just_leaving(stage: Stage) -> None:
    """The completion is not committed: nothing is set aside behind it."""
    _, second = stage.put(2)
    (held,) = stage.claim(limit=1)
    stage.in_tx(lambda: complete_jobs("w", [done(held)]))

    claimed = stage.claim()
    assert (list(claimed), claimed.aside, len(claimed.passed)) == ([], 0, 1)
    stage.tx.commit()

    assert not stage.is_held(second)
    assert stage.claim_all() == [second]


def test_a_claim_meets_one_that_is_cancelled_and_then_is_not(stage: Stage) -> None:
    """Nothing is set aside behind a job that somebody is about to end, and nothing is claimed if he does not."""
    first, second = stage.put(2)
    stage.client.cancel(first, tx=stage.tx)
    claimed = stage.claim()
    assert (list(claimed), claimed.aside) == ([], 0)
    stage.tx.rollback()
    assert stage.claim_all() == [first]
    assert stage.is_held(second)


# --- between the look at a key and the lock on what stands in front -------------------------------------------------


@contextmanager
def stopped_claim(stage: Stage) -> Iterator[Future[Claim]]:
    """A claim stands still when it has looked at all keys, and has claimed what is to be claimed of key "pause"."""
    stage.put(key="pause")
    other = stage.crew.jobs.app.store.sync()
    lanes = due_lanes(stage.store)
    with (
        ThreadPoolExecutor(1) as pool,
        stage.database.paused_update("NEW.partition_key = 'pause' AND NEW.status = 'running'"),
    ):
        claiming = pool.submit(lambda: other.run(lambda: claim_jobs("w2", lanes, 100, LEASE)))
        stage.database.wait_blocked_statement("WITH lane AS")
        yield claiming
    claiming.result()
    other.close()


@pytest.mark.parametrize("how", [*AS_HOLDERS, *AS_PEOPLE])
def test_the_runner_leaves_after_the_look(stage: Stage, how: str) -> None:
    """The claim saw it run, and looks again when it has it locked."""
    first, second = stage.put(2)
    (held,) = stage.claim(limit=1)
    with stopped_claim(stage) as claiming:
        (AS_HOLDERS | AS_PEOPLE)[how](stage, held)
    assert [job.id for job in claiming.result()] not in ([first], [second])
    assert stage.stranded() == []
    assert stage.claim_all() == [first if how == "released" else second]


@pytest.mark.parametrize("how", ["cancelled", "deleted"])
def test_the_first_leaves_after_the_look(stage: Stage, how: str) -> None:
    """One that is not due yet, and was in front."""
    (first,) = stage.put(delay=600)
    (second,) = stage.put()
    with stopped_claim(stage):
        (stage.client.cancel if how == "cancelled" else stage.client.delete_chains)(first)
    assert stage.stranded() == []
    assert stage.claim_all() == [second]


def test_the_first_moves_to_the_end_after_the_look(stage: Stage) -> None:
    """Its place is looked at again: nobody waits for one that stands behind him."""
    call = stage.crew.jobs.note.call(number=1)
    once = Dedup("d", on_conflict="replace")
    first = stage.client.enqueue(call, partition_key="k", delay=600, dedup=once).id
    (second,) = stage.put()
    with stopped_claim(stage):
        stage.client.enqueue(call, partition_key="elsewhere", dedup=once)
        stage.client.enqueue(call, partition_key="k", dedup=once)
    assert not stage.is_held(second)
    assert stage.claim_all() == [second]
    assert stage.status(first) == "pending"


# --- two claims ----------------------------------------------------------------------------------------------------


def test_a_lower_place_that_is_committed_late(stage: Stage) -> None:
    """Both claims see nothing in front of their job; the index lets one of them be the holder."""
    call = stage.crew.jobs.note.call(number=1)
    with psycopg.connect(stage.database.url) as late:
        first = stage.client.enqueue(call, partition_key="k", tx=late).id
        (second,) = stage.put()
        assert [job.id for job in stage.claim_in_tx()] == [second]
        late.commit()
    with meanwhile(stage, stage.claim) as other:
        stage.database.wait_blocked_statement("")
        stage.tx.commit()
    assert isinstance(other.exception(), SerializationConflict)

    assert stage.claim_all() == []
    assert (stage.status(first), stage.is_held(first)) == ("pending", True)
    assert stage.status(second) == "running"


def test_a_lower_place_that_is_committed_late_by_a_claim_that_goes_back(stage: Stage) -> None:
    """The one claim is rolled back: the other has the key."""
    call = stage.crew.jobs.note.call(number=1)
    with psycopg.connect(stage.database.url) as late:
        first = stage.client.enqueue(call, partition_key="k", tx=late).id
        (second,) = stage.put()
        assert [job.id for job in stage.claim_in_tx()] == [second]
        late.commit()
    with meanwhile(stage, stage.claim) as other:
        stage.database.wait_blocked_statement("")
        stage.tx.rollback()
    assert [job.id for job in other.result()] == [first]
    assert stage.claim_all() == []


def test_a_serial_job_that_falls_due_between_two_claims(stage: Stage) -> None:
    """Each of the two claims has another one as the first that is due; one of them is the holder."""
    (late,) = stage.put(ordering="serial", delay=600, priority=-1)
    (soon,) = stage.put(ordering="serial")
    assert [job.id for job in stage.claim_in_tx()] == [soon]
    stage.database.query(f"UPDATE holdfast.job SET ready_at = now() - interval '1 s' WHERE id = '{late}'")
    with meanwhile(stage, stage.claim) as other:
        stage.database.wait_blocked_statement("")
        stage.tx.commit()
    assert isinstance(other.exception(), SerializationConflict)
    assert stage.claim_all() == []
    assert stage.status(late) == "pending"


def test_a_run_ends_where_somebody_has_a_job_locked(stage: Stage) -> None:
    """Those that come next, without a gap."""
    ids = stage.put(5)
    stage.tx.execute(f"SELECT 1 FROM holdfast.job WHERE id = '{ids[2]}' FOR UPDATE")
    assert [job.id for job in in_order(stage.claim(run=10))] == ids[:2]
    stage.tx.commit()
    assert stage.claim_all() == []
    assert [stage.status(job_id) for job_id in ids] == ["running"] * 2 + ["pending"] * 3


def test_completions_of_a_run_end_where_somebody_has_a_job_locked(stage: Stage) -> None:
    """None behind it is completed before it; then all are, and the next one may be claimed."""
    ids = stage.put(5)
    run = in_order(stage.claim(limit=4, run=3))
    assert [job.id for job in run] == ids[:4]
    jobs = [replace(done(job), line=1, place=place) for place, job in enumerate(run)]
    stage.tx.execute(f"SELECT 1 FROM holdfast.job WHERE id = '{ids[1]}' FOR UPDATE")
    settlement = stage.store.run(lambda: complete_jobs("w", jobs))
    assert settlement.locked == set(ids[1:4])
    assert stage.claim_all() == []
    stage.tx.commit()
    stage.store.run(lambda: complete_jobs("w", jobs[1:]))
    assert stage.claim_all() == [ids[4]]


def test_the_last_of_a_run_leaves_while_its_completion_waits(stage: Stage) -> None:
    """The holder of the key is then another one of the run: a serial job does not pass."""
    ids = stage.put(3)
    (serial,) = stage.put(ordering="serial")
    run = in_order(stage.claim(limit=3, run=2))
    stage.store.run(lambda: release_jobs([lease_of(run[2])]))
    assert [stage.is_held(job.id) for job in run[:2]] == [True, False]
    assert stage.claim_all() == []
    stage.store.run(lambda: complete_jobs("w", [done(job) for job in run[:2]]))
    assert stage.claim_all() == [ids[2]]
    assert stage.is_held(serial)


# --- what only the sweep finds -------------------------------------------------------------------------------------


def test_a_completion_that_cannot_see_who_was_set_aside(stage: Stage) -> None:
    """Its REPEATABLE READ began before: the sweep puts the job back."""
    first, second = stage.put(2)
    stage.claim(limit=1)
    stage.tx.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    stage.tx.execute("SELECT 1")
    assert stage.claim().aside == 1
    stage.client.complete_job(first, 1, tx=stage.tx)
    stage.tx.commit()

    assert stage.claim_all() == []
    assert stage.stranded() == [("default", "k")]
    stage.sweep()
    assert stage.claim_all() == [second]


def test_a_cancellation_that_is_rolled_back_while_its_job_is_freed(stage: Stage) -> None:
    """Whoever freed the key could not lock the job: the sweep puts it back."""
    _, second, third = stage.put(3)
    (held,) = stage.claim(limit=1)
    assert stage.claim_all() == []
    stage.client.cancel(second, tx=stage.tx)
    assert _completes(stage, held)
    stage.tx.rollback()

    assert stage.claim_all() == []
    assert stage.stranded() == [("default", "k")]
    stage.sweep()
    assert stage.claim_all() == [second]
    assert stage.is_held(third)


def test_the_sweep_leaves_alone_what_is_held_for_a_reason(stage: Stage) -> None:
    """Behind one that runs, behind a run, behind one that is due later."""
    for key in ("running", "run", "later"):
        stage.put(1, key, **({"delay": 600} if key == "later" else {}))
        stage.put(2, key)
    stage.claim(limit=3, run=1)
    stage.claim_all()
    held = stage.database.query("SELECT count(*) FROM holdfast.job WHERE held AND status = 'pending'")[0][0]
    assert held > 0
    assert stage.stranded() == []


def test_two_sweeps_and_a_claim_at_once(stage: Stage) -> None:
    """A stranded key gets one holder, however many repair it."""
    ids = stage.put(3)
    assert stage.claim_all() == ids[:1]
    stage.database.query(
        "UPDATE holdfast.job SET held = true, status = 'pending', leased_by = NULL, leased_until = NULL"
    )
    barrier = threading.Barrier(3)
    stores = [stage.crew.jobs.app.store.sync() for _ in range(3)]

    def repair(store: SyncStore) -> list[str]:
        barrier.wait()
        swept = store.run(lambda: find_stranded(None), read_only=True)
        store.run(lambda: free_keys(swept.stranded))
        return [job.id for job in claim(store)]

    with ThreadPoolExecutor(3) as pool:
        claimed = [job for found in pool.map(repair, stores) for job in found]
    for store in stores:
        store.close()
    assert [*claimed, *stage.claim_all()] == ids[:1]


def test_a_suspect_behind_one_that_is_locked_hides_no_other(stage: Stage) -> None:
    """It is passed by, for as long as somebody has the one in front of it locked; the next suspect runs."""
    (front,) = stage.put(1, delay=600)
    (behind,) = stage.put(1)
    other = stage.client.enqueue(stage.crew.jobs.note.call(number=2)).id
    stage.database.query(f"UPDATE holdfast.job SET crash_count = 1 WHERE id IN ('{behind}', '{other}')")
    stage.tx.execute("SELECT FROM holdfast.job WHERE id = %s FOR UPDATE", [front])
    stage.crew.start()
    stage.database.wait_status(other, "completed")
    assert stage.status(behind) == "pending"
