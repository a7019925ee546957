"""G9: A blocked job never starts before its blockers allow it, and never stays blocked after."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import psycopg
import pytest
from msgspec import Raw

from holdfast.errors import SerializationConflict
from holdfast.model.call import Extras, JobDocument
from holdfast.model.ids import new_id
from holdfast.model.job import JobError
from holdfast.model.payload import to_json
from holdfast.model.scan_position import Lane
from holdfast.operations.claim_jobs import ClaimedJob, claim_jobs
from holdfast.operations.complete_jobs import Completion, complete_jobs
from holdfast.operations.continue_jobs import Continuation, continue_jobs
from holdfast.operations.enqueue_guarded import enqueue_guarded
from holdfast.operations.enqueue_jobs import enqueue_jobs
from holdfast.operations.fail_jobs import Failure, fail_jobs
from holdfast.operations.lease import Settlement
from holdfast.operations.settle_chains import settle_chains
from holdfast.operations.statement import ATOMICALLY, Operation, Statement
from holdfast.stores import SyncStore
from tests.crew.database import Database
from tests.crew.fixtures import EVERY_POSTGRES
from tests.crew.process import Crew

LEASE = timedelta(seconds=600)
RACES = 1000


def job(**fields: object) -> JobDocument:
    return JobDocument(new_id(), "note", Raw(to_json({"number": 1})), "default", **fields)  # type: ignore[arg-type]


def claimed_job(store: SyncStore) -> ClaimedJob:
    """A running job, alone in its queue."""
    queue = new_id()
    document = job()
    document.queue = queue
    store.run(lambda: enqueue_jobs([document], None))
    beginning = 0 if store.run(_is_postgres, read_only=True) else ""
    (claimed,) = store.run(lambda: claim_jobs("w", [Lane(queue, 0, beginning, 0)], 1, LEASE))
    return claimed


def _is_postgres() -> Operation[bool]:
    rows = yield Statement("find_migrations")
    return bool(rows) and isinstance(rows[0][0], bool)


def end(store: SyncStore, claimed: ClaimedJob, how: str) -> None:
    """As a worker does it: what is locked is sent again, what could not be settled is settled later."""
    while True:
        settlement = store.run(lambda: _ending(claimed, how))
        if not settlement.locked:
            break
        time.sleep(0.002)
    assert not settlement.lost
    unsettled = settlement.unsettled
    store.run(lambda: settle_chains(unsettled))


def _ending(claimed: ClaimedJob, how: str) -> Operation[Settlement]:
    if how == "completed":
        return complete_jobs("w", [Completion(claimed.id, claimed.lease_generation)])
    if how == "continued":
        return continue_jobs("w", [Continuation(claimed.id, claimed.lease_generation, job())])
    error = JobError("ValueError", "no")
    return fail_jobs("w", [Failure(claimed.id, claimed.lease_generation, error, 0, is_final=True, max_attempts=1)])


#: what the job that waits must be, by how its blocker ended and what it asked for
EXPECTED = {
    ("completed", "wait"): "pending",
    ("completed", "cancel"): "pending",
    ("continued", "wait"): "blocked",
    ("dead", "wait"): "blocked",
    ("dead", "run"): "pending",
    ("dead", "cancel"): "cancelled",
}


@pytest.mark.parametrize("database", EVERY_POSTGRES, indirect=True)  # SQLite has one writer: nothing to interleave
@pytest.mark.parametrize(("how", "policy"), EXPECTED)
@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def test_every_interleaving(crew: Crew, database: Database, how: str, policy: str, level: str) -> None:
    """The blocker ends before, between and after every statement of the enqueue, and before and after its commit."""
    store = crew.jobs.app.store.sync()
    statements = _count_statements(store, policy)
    for boundary in range(statements + 2):
        claimed = claimed_job(store)
        waiting = job(more=Extras(blockers=[claimed.id], on_blocker_failure=policy))
        other = crew.jobs.app.store.sync()
        ender = threading.Thread(target=end, args=(other, claimed, how))
        with psycopg.connect(database.url) as connection:
            connection.execute(f"SET TRANSACTION ISOLATION LEVEL {level}".encode())
            connection.execute("SELECT 1")  # the snapshot of the stricter levels
            try:
                _step_through(crew, connection, enqueue_guarded([waiting], None), boundary, ender)
                connection.commit()
            except (psycopg.errors.SerializationFailure, SerializationConflict):
                assert level != "READ COMMITTED"
                connection.rollback()
                if ender.ident is not None:
                    ender.join(30)
                _again(crew, connection, waiting)
        if ender.ident is None:
            ender.start()
        ender.join(30)
        assert not ender.is_alive()
        other.close()
        ((status,),) = database.query(f"SELECT status FROM {database.job} WHERE id = '{waiting.id}'")
        assert status == EXPECTED[how, policy], f"the blocker {how} at boundary {boundary} of {statements}"
    store.close()


def _again(crew: Crew, connection: psycopg.Connection, waiting: JobDocument) -> None:
    """What a caller does whose transaction was refused."""
    _step_through(crew, connection, enqueue_guarded([waiting], None), -1, None)
    connection.commit()


def _count_statements(store: SyncStore, policy: str) -> int:
    """How many statements the enqueue sends, found by sending them."""
    sent: list[Statement] = []

    def watched(operation: Operation[object]) -> Operation[None]:
        statement = next(operation)
        try:
            while True:
                sent.append(statement)
                statement = operation.send((yield statement))
        except StopIteration:
            return

    claimed = claimed_job(store)
    waiting = job(more=Extras(blockers=[claimed.id], on_blocker_failure=policy))
    store.run(lambda: watched(enqueue_guarded([waiting], None)))
    return len(sent) - 1


def _step_through(
    crew: Crew,
    connection: psycopg.Connection,
    operation: Operation[object],
    boundary: int,
    ender: threading.Thread | None,
) -> None:
    borrowed = crew.jobs.app.store.sync().borrow(connection)
    statement = next(operation)
    assert statement is ATOMICALLY
    statement = operation.send(())
    number = 0
    while True:
        if number == boundary and ender is not None:
            _let_run(ender)
        rows = borrowed.execute(statement)
        number += 1
        try:
            statement = operation.send(rows)
        except StopIteration:
            break
    if number == boundary and ender is not None:
        _let_run(ender)


def _let_run(ender: threading.Thread) -> None:
    """It ends, or it meets our lock and waits."""
    ender.start()
    ender.join(0.05)


def test_a_thousand_races(crew: Crew, database: Database) -> None:
    """Two threads: one ends a chain while the other enqueues a job behind it; none stays blocked."""
    store, producer, worker = (crew.jobs.app.store.sync() for _ in range(3))
    waiting: list[str] = []
    with ThreadPoolExecutor(2) as pool:
        for number in range(RACES if database.is_postgres else RACES // 4):
            claimed = claimed_job(store)
            document = job(more=Extras(blockers=[claimed.id]))
            sides: list[Callable[[], object]] = [
                lambda document=document: producer.run(lambda: enqueue_guarded([document], None)),  # type: ignore[misc]
                lambda claimed=claimed: end(worker, claimed, "completed"),  # type: ignore[misc]
            ]
            if number % 2:
                sides.reverse()
            for done in [pool.submit(side) for side in sides]:
                done.result()
            waiting.append(document.id)
    left = database.query(f"SELECT count(*) FROM {database.job} WHERE status = 'blocked'")
    assert left == [(0,)]
    assert len(waiting) == len(set(waiting))
    for each in (store, producer, worker):
        each.close()
