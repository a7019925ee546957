"""G13: A signal is not lost, whoever comes first: two transactions meet at chosen points.

Only PostgreSQL: on SQLite one writer comes after the other.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from holdfast import Client
from holdfast.errors import AlreadyFinished, SerializationConflict
from holdfast.operations.children import Child, await_children, save_children
from holdfast.operations.complete_jobs import Completion, complete_jobs
from holdfast.operations.continue_jobs import Continuation, continue_jobs
from holdfast.operations.lease import Lease
from holdfast.operations.signal_chain import signal_chain, take_signal
from holdfast.operations.statement import ATOMICALLY, Verb
from holdfast.operations.suspend_jobs import Suspension, suspend_jobs
from holdfast.stores import SyncStore
from holdfast.testing.conformance.harness import document
from tests.crew.database import Database
from tests.crew.fixtures import EVERY_POSTGRES
from tests.crew.keyed import claim, within
from tests.crew.process import Crew

pytestmark = pytest.mark.parametrize("database", EVERY_POSTGRES, indirect=True)

PATIENCE = 30.0


class Stage:
    """A job that runs, and a transaction that stays open until it is told."""

    def __init__(self, crew: Crew, database: Database, client: Client, store: SyncStore, tx: Any) -> None:
        self.crew = crew
        self.database = database
        self.client = client
        self.store = store
        self.tx = tx

    def run_job(self) -> Lease:
        self.client.enqueue(self.crew.jobs.note.call(number=1))
        (job,) = claim(self.store)
        return Lease(job.id, job.lease_generation)

    def in_tx(self, verb: Verb[Any]) -> Any:
        return within(self.crew.jobs.app, self.tx, verb)

    def stepwise(self, operation: Any) -> Iterator[Any]:
        """The statements of a verb in the open transaction, one after the other."""
        store = self.crew.jobs.app.store.sync()
        try:
            borrowed = store.borrow(self.tx)
            statement = next(operation)
            if statement is ATOMICALLY:
                statement = operation.send(())
            while True:
                rows = borrowed.execute(statement)
                yield statement.name
                statement = operation.send(rows)
        except StopIteration:
            return
        finally:
            store.close()

    def status(self, job_id: str) -> str:
        return self.database.row(job_id).status

    def waits_for_a_lock(self) -> bool:
        """Whether somebody on this database does."""
        rows = self.database.query(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return bool(rows[0][0])


@pytest.fixture
def stage(crew: Crew, database: Database) -> Iterator[Stage]:
    store = crew.jobs.app.store.sync()
    with crew.jobs.app.client() as client, psycopg.connect(database.url) as tx:
        yield Stage(crew, database, client, store, tx)
        tx.rollback()
    store.close()


def listening(lease: Lease, delay_ms: int | None = None) -> Suspension:
    return Suspension(lease.id, lease.lease_generation, "signal", "heard", "go", delay_ms)


def blocked_until(stage: Stage, action: Callable[[], Any], release: Callable[[], Any]) -> Any:
    """The action waits for the open transaction, which is then released."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(action)
        try:
            deadline = time.monotonic() + PATIENCE
            while not stage.waits_for_a_lock():
                assert not future.done(), future
                assert time.monotonic() < deadline
                threading.Event().wait(0.01)
            release()
        finally:
            stage.tx.rollback()
        return future.result(PATIENCE)


@pytest.mark.parametrize("delay_ms", [None, 600_000])
def test_said_and_not_committed_when_the_wait_begins(stage: Stage, delay_ms: int | None) -> None:
    """The wait cannot be written before the signal is; then it sees it."""
    lease = stage.run_job()
    stage.in_tx(lambda: signal_chain(lease.id, "go", "1"))
    assert stage.store.run(lambda: suspend_jobs([listening(lease, delay_ms)])).locked == {lease.id}
    assert stage.status(lease.id) == "running"
    stage.tx.commit()
    assert stage.store.run(lambda: suspend_jobs([listening(lease, delay_ms)])).woken == {"default"}
    (job,) = claim(stage.store)
    assert job.id == lease.id


@pytest.mark.parametrize("delay_ms", [None, 600_000])
@pytest.mark.parametrize("statements", [1, 2])
def test_said_while_the_wait_is_being_written(stage: Stage, statements: int, delay_ms: int | None) -> None:
    """After its first statement, or its last, before the commit: the sender waits, and wakes the job."""
    lease = stage.run_job()
    writing = stage.stepwise(suspend_jobs([listening(lease, delay_ms)]))
    assert [next(writing) for _ in range(statements)] == ["suspend_jobs", "wake_signalled"][:statements]

    def finish() -> None:
        list(writing)
        stage.tx.commit()

    blocked_until(stage, lambda: stage.client.signal(lease.id, "go", 1), finish)
    (job,) = claim(stage.store)
    assert job.id == lease.id


def test_said_between_the_look_and_the_wait(stage: Stage) -> None:
    """A handler has looked, and has not given back its slot yet."""
    lease = stage.run_job()
    taken = stage.store.run(lambda: take_signal(lease, "heard", "go"))
    assert taken is not None
    assert taken.heard is None
    stage.client.signal(lease.id, "go", 1)
    assert stage.store.run(lambda: suspend_jobs([listening(lease)])).woken == {"default"}


def test_said_after_the_snapshot_of_the_write(stage: Stage) -> None:
    """The transaction that writes the wait began before the signal was committed: its second statement sees it."""
    lease = stage.run_job()
    stage.tx.execute("SELECT 1")
    stage.client.signal(lease.id, "go", 1)
    assert stage.in_tx(lambda: suspend_jobs([listening(lease)])).woken == {"default"}
    stage.tx.commit()
    assert stage.status(lease.id) == "pending"


def test_rolled_back_it_was_never_said(stage: Stage) -> None:
    """Nobody is woken, nothing is kept."""
    lease = stage.run_job()
    stage.store.run(lambda: suspend_jobs([listening(lease)]))
    stage.client.signal(lease.id, "go", 1, tx=stage.tx)
    stage.tx.rollback()
    assert stage.status(lease.id) == "blocked"
    assert stage.database.query("SELECT count(*) FROM holdfast.job_signal") == [(0,)]


def test_with_an_old_snapshot_it_is_refused(stage: Stage) -> None:
    """Who cannot see that the job waits must not think that he has told it."""
    lease = stage.run_job()
    stage.tx.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    stage.tx.execute("SELECT 1")
    stage.store.run(lambda: suspend_jobs([listening(lease)]))
    with pytest.raises(SerializationConflict):
        stage.client.signal(lease.id, "go", 1, tx=stage.tx)
    stage.tx.rollback()
    assert stage.status(lease.id) == "blocked"


def test_said_while_the_chain_goes_on(stage: Stage) -> None:
    """The next job of the chain hears it."""
    lease = stage.run_job()
    following = document(type_name="note", queue="default")
    stage.in_tx(lambda: continue_jobs("w", [Continuation(lease.id, lease.lease_generation, following)]))
    blocked_until(stage, lambda: stage.client.signal(lease.id, "go", 1), stage.tx.commit)
    (job,) = claim(stage.store)
    assert job.id == following.id
    taken = stage.store.run(lambda: take_signal(Lease(job.id, job.lease_generation), "heard", "go"))
    assert taken is not None
    assert taken.heard is not None


def test_said_while_the_chain_ends(stage: Stage) -> None:
    """It has nobody to hear it any more, and the sender is told."""
    lease = stage.run_job()
    stage.in_tx(lambda: complete_jobs("w", [Completion(lease.id, lease.lease_generation)]))
    with pytest.raises(AlreadyFinished):
        blocked_until(stage, lambda: stage.client.signal(lease.id, "go", 1), stage.tx.commit)
    assert stage.database.query("SELECT count(*) FROM holdfast.job_signal") == [(0,)]


def _family(stage: Stage) -> tuple[Lease, Lease]:
    parent, child = stage.run_job(), stage.run_job()
    born = Child(child.id, "note", "pending", "created")
    assert stage.store.run(lambda: save_children(parent, "child", [born]))
    return parent, child


def test_a_child_ends_while_its_parent_begins_to_wait(stage: Stage) -> None:
    """The end cannot be written before the wait is; then it counts."""
    parent, child = _family(stage)
    assert stage.in_tx(lambda: await_children(parent, parent.id, [child.id], "run"))
    ending = [Completion(child.id, child.lease_generation)]
    assert stage.store.run(lambda: complete_jobs("w", ending)).locked == {child.id}
    stage.tx.commit()
    wait = [Suspension(parent.id, parent.lease_generation, "children")]
    stage.store.run(lambda: suspend_jobs(wait))
    assert stage.status(parent.id) == "blocked"
    assert stage.store.run(lambda: complete_jobs("w", ending)).woken == {"default"}
    assert stage.status(parent.id) == "pending"


def test_a_parent_begins_to_wait_while_its_child_ends(stage: Stage) -> None:
    """It waits for the end, and then for nothing."""
    parent, child = _family(stage)
    stage.in_tx(lambda: complete_jobs("w", [Completion(child.id, child.lease_generation)]))
    waiting = blocked_until(
        stage,
        lambda: stage.store.run(lambda: await_children(parent, parent.id, [child.id], "run")),
        stage.tx.commit,
    )
    assert waiting
    wait = [Suspension(parent.id, parent.lease_generation, "children")]
    stage.store.run(lambda: suspend_jobs(wait))
    assert stage.status(parent.id) == "pending"
