"""G9: A blocked job never starts before its blockers allow it, and never stays blocked after."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg
import pytest
from msgspec import Raw

from holdfast import Client
from holdfast.errors import BlockerCycle, SerializationConflict, WrongIsolation
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
from holdfast.worker.maintenance.unblocker import Unblocker
from holdfast.worker.patient_store import PatientStore
from tests.crew.database import Database
from tests.crew.fixtures import EVERY_POSTGRES
from tests.crew.process import Crew, crew_on

LEASE = timedelta(seconds=600)
RACES = 1000


def job(**fields: object) -> JobDocument:
    return JobDocument(new_id(), "note", Raw(to_json({"number": 1})), "default", **fields)  # type: ignore[arg-type]  # fields of a document


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
                partial(producer.run, partial(enqueue_guarded, [document], None)),
                partial(end, worker, claimed, "completed"),
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


#: how a chain ends, or begins anew, on somebody's own transaction
TURNS: dict[str, Callable[[Client, str, Any], object]] = {
    "complete_job": lambda client, chain_id, tx: client.complete_job(client.get_chain(chain_id).tail.id, 1, tx=tx),
    "complete_chain": lambda client, chain_id, tx: client.complete_chain(chain_id, 1, tx=tx),
    "cancel": lambda client, chain_id, tx: client.cancel(chain_id, tx=tx),
    "retry": lambda client, chain_id, tx: client.retry(chain_id, tx=tx),
}


@pytest.mark.parametrize("database", EVERY_POSTGRES, indirect=True)  # SQLite refuses to write after an older read
@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("is_awaited", [False, True], ids=["nobody waited", "somebody waited"])
@pytest.mark.parametrize("has_gone_on", [False, True], ids=["first job", "later job"])
def test_an_older_snapshot(  # noqa: PLR0917 - what may differ
    crew: Crew, database: Database, level: str, turn: str, is_awaited: bool, has_gone_on: bool
) -> None:
    """Somebody comes to wait for a chain, unseen by a transaction that then wants to end it: refused."""
    note = crew.jobs.note
    with crew.jobs.app.client() as client, psycopg.connect(database.url) as older:
        blocker, open_ = client.enqueue_many([note.call(number=1), note.call(number=2)])
        policy: dict[str, Any] = {"blockers": [blocker, open_], "on_blocker_failure": "run"}
        if is_awaited:
            client.enqueue(note.call(number=3), **policy)
        if has_gone_on:
            client.complete_job(blocker, note.call(number=1))
        if turn == "retry":
            client.cancel(blocker)
        before = client.get_chain(blocker).status
        older.execute(f"SET TRANSACTION ISOLATION LEVEL {level}".encode())
        older.execute("SELECT 1")
        waiting = client.enqueue(note.call(number=4), **policy)
        with pytest.raises(WrongIsolation if is_awaited else SerializationConflict):
            TURNS[turn](client, blocker.id, older)
        older.rollback()
        assert client.get_chain(blocker).status == before
        TURNS[turn](client, blocker.id, None)
        assert client.get_job(waiting).waiting_for == (2 if turn == "retry" else 1)


@pytest.mark.parametrize("database", EVERY_POSTGRES, indirect=True)  # as above
def test_a_snapshot_that_sees_all(crew: Crew, database: Database) -> None:
    """Where nobody came later, or only together with the chain, the stricter levels end it like any other."""
    note = crew.jobs.note
    with crew.jobs.app.client() as client, psycopg.connect(database.url) as user:
        user.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
        chain_id = new_id()
        batch = [note.call(number=1).options(id=chain_id), note.call(number=2).options(blockers=[chain_id])]
        _, waiting = client.enqueue_many(batch)
        client.complete_chain(chain_id, 1, tx=user)
        user.commit()
        assert client.get_job(waiting).status == "pending"
        alone = client.enqueue(note.call(number=3))
        client.cancel(alone, tx=user)
        failed = client.enqueue(note.call(number=4), blockers=[alone], on_blocker_failure="cancel", tx=user)
        user.commit()
        assert failed.status == "cancelled"
        again = client.enqueue(note.call(number=5), blockers=[alone], on_blocker_failure="cancel", tx=user)
        user.commit()
        assert again.status == "cancelled"


@pytest.mark.parametrize("database", EVERY_POSTGRES, indirect=True)  # SQLite has one level
def test_a_database_with_a_stricter_level(crew: Crew, database: Database) -> None:
    """Our own connections do not take it over."""
    database.query(f"ALTER DATABASE {psycopg.conninfo.conninfo_to_dict(database.url)['dbname']} "
                   "SET default_transaction_isolation = 'serializable'")  # fmt: skip
    directory = crew.directory / "stricter"
    directory.mkdir()
    with crew_on(database.url, directory) as strict, strict.jobs.app.client() as client:
        first = client.enqueue(strict.jobs.note.call(number=1))
        second = client.enqueue(strict.jobs.note.call(number=2), blockers=[first])
        assert strict.jobs.app.drain(timeout=20).completed == 2
        assert client.get_job(second).status == "completed"


def test_a_retried_blocker_is_waited_for_again(crew: Crew, database: Database) -> None:
    """It had ended, and one who runs in any case was told so; when it begins anew he waits for it once more."""
    note = crew.jobs.note
    with crew.jobs.app.client() as client:
        first, second = client.enqueue_many([note.call(number=1), note.call(number=2)], delay=3600)
        waiting = client.enqueue(note.call(number=3), blockers=[first, second], on_blocker_failure="run")
        client.cancel(first)
        client.retry(first)
        client.complete_job(second, 2)
        assert client.get_job(waiting).status == "blocked"
        client.cancel(first)
        assert client.get_job(waiting).status == "pending"
    assert database.query(f"SELECT count(*) FROM {database.job} WHERE status = 'blocked'") == [(0,)]


def test_nobody_is_retried_to_be_cancelled(crew: Crew) -> None:
    """A job that is cancelled with its blockers does not come to wait for one that has failed."""
    note = crew.jobs.note
    with crew.jobs.app.client() as client:
        blocker = client.enqueue(note.call(number=1), delay=3600)
        waiting = client.enqueue(note.call(number=2), blockers=[blocker], on_blocker_failure="cancel")
        client.cancel(blocker)
        (result,) = client.retry(waiting)
        assert (result.outcome, client.get_job(waiting).status) == ("blocker_failed", "cancelled")
        assert [each.outcome for each in client.retry([waiting, blocker])] == ["retried", "retried"]
        assert client.get_job(waiting).status == "blocked"


def test_no_batch_closes_a_cycle(crew: Crew, database: Database) -> None:
    """Jobs that take the places of others, each behind the other's; and chains that go on behind each other."""
    store = crew.jobs.app.store.sync()
    first, second = (store.run(partial(enqueue_guarded, [keyed(key)], None))[0].id for key in "ab")
    with pytest.raises(BlockerCycle):
        store.run(lambda: enqueue_guarded([keyed("a", second), keyed("b", first)], None))
    one, other = claimed_job(store), claimed_job(store)
    batch = [
        Continuation(claimed.id, claimed.lease_generation, job(more=Extras(blockers=[behind.id])))
        for claimed, behind in ((one, other), (other, one))
    ]
    with pytest.raises(BlockerCycle):
        store.run(lambda: continue_jobs("w", batch))
    store.close()
    assert database.query(f"SELECT count(*) FROM {database.table('job_blocker')}") == [(0,)]


def test_a_drain_settles_what_was_left(crew: Crew, database: Database) -> None:
    """Somebody died between the end of a chain and the news of it; who waits runs in the drain all the same."""
    note = crew.jobs.note
    with crew.jobs.app.client() as client:
        blocker = client.enqueue(note.call(number=1), delay=3600)
        waiting = client.enqueue(note.call(number=2), blockers=[blocker])
        database.query(
            f"UPDATE {database.job} SET status = 'completed', finished_at = created_at WHERE id = '{blocker.id}'"
        )
        assert crew.jobs.app.drain().completed == 1
        assert client.get_job(waiting).status == "completed"


def keyed(key: str, *blockers: str) -> JobDocument:
    extras = Extras(deduplication_key=key, deduplication_scope="unfinished", on_conflict="replace")
    extras.blockers = list(blockers) or None
    return job(more=extras)


async def test_a_cycle_closed_by_a_race(crew: Crew, database: Database) -> None:
    """Two put chains behind others that wait for each other's: neither sees it, and the sweep ends one of the jobs."""
    store = crew.jobs.app.store.sync()
    first, second = (store.run(partial(enqueue_guarded, [keyed(key)], None))[0].id for key in "ab")
    behind_first, behind_second = job(more=Extras(blockers=[first])), job(more=Extras(blockers=[second]))
    store.run(lambda: enqueue_guarded([behind_first, behind_second], None))
    if database.is_postgres:
        with psycopg.connect(database.url) as one, psycopg.connect(database.url) as other:
            _step_through(crew, one, enqueue_guarded([keyed("a", behind_second.id)], None), -1, None)
            _step_through(crew, other, enqueue_guarded([keyed("b", behind_first.id)], None), -1, None)
    else:  # one writer, so no race: what a bug would leave
        store.run(lambda: enqueue_guarded([keyed("a", behind_second.id)], None))
        database.query(f"UPDATE {database.job} SET status = 'blocked', waiting_for = 1 WHERE id = '{second}'")
        database.query(
            f'INSERT INTO {database.table("job_blocker")} (job_id, blocked_by_chain_id, "index", is_resolved) '
            f"VALUES ('{second}', '{behind_first.id}', 0, 0)"
        )
    store.close()
    cycle = {first, second, behind_first.id, behind_second.id}
    assert _with_status(database, "blocked") == cycle
    swept = crew.jobs.app.store.asynchronous()
    unblocker = Unblocker(PatientStore(swept, timedelta(seconds=30)), lambda _: None)
    assert (await unblocker.run_once())["cycles"] == 1
    assert (await unblocker.run_once())["cycles"] == 0
    await swept.close()
    assert _with_status(database, "dead_letter") == {max(cycle)}


def _with_status(database: Database, status: str) -> set[str]:
    return {str(row[0]) for row in database.query(f"SELECT id FROM {database.job} WHERE status = '{status}'")}
