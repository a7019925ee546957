"""G1: A job exists if and only if the enqueuing transaction committed, through every supported connection kind."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import DatabaseUnavailable
from holdfast.model.call import EnqueueOptions
from tests.crew.database import Database
from tests.crew.jobs import Jobs, make_jobs
from tests.crew.process import Crew, spawn
from tests.crew.transactions import INSERT, POSTGRES, SQLITE, Kind, UserTransaction, settled
from tests.crew.waiting import wait_for

CASES = [("sqlite", name) for name in SQLITE] + [("pg18", name) for name in POSTGRES]
EVERY_KIND = pytest.mark.parametrize(
    ("database", "kind"), CASES, ids=[f"{database} {name}" for database, name in CASES], indirect=["database"]
)
ON_POSTGRES = pytest.mark.parametrize(
    ("database", "kind"), [("pg18", name) for name in POSTGRES], indirect=["database"]
)


@pytest.fixture
def shop(crew: Crew, database: Database) -> Crew:
    """The application has a table of its own beside Holdfast's."""
    database.query("CREATE TABLE orders (number integer)")
    return crew


def kind_of(database: Database, name: str) -> Kind:
    return (POSTGRES if database.is_postgres else SQLITE)[name]


def state(database: Database) -> tuple[int, int]:
    """(orders, jobs) that others can see."""
    return database.query("SELECT count(*) FROM orders")[0][0], len(database.jobs())


async def enqueue(jobs: Jobs, user: UserTransaction, number: int, **options: Any) -> str:
    """With the client that fits the connection; the id."""
    call = jobs.note.call(number=number)
    if user.is_async:
        async with jobs.app.async_client() as client:
            return (await client.enqueue(call, tx=user.tx, **options)).id
    with jobs.app.client() as client:
        chain = await settled(user.call(lambda: client.enqueue(call, tx=user.tx, **options)))
        return str(chain.id)


@EVERY_KIND
async def test_committed(shop: Crew, database: Database, kind: str) -> None:
    """Nothing can be seen before the commit, both after; then a worker runs the job."""
    async with kind_of(database, kind)(database.url) as user:
        await settled(user.execute(INSERT))
        job_id = await enqueue(shop.jobs, user, 1)
        assert state(database) == (0, 0)

        await settled(user.commit())

    assert state(database) == (1, 1)
    assert database.row(job_id).status == "pending"
    shop.start()
    assert database.wait_finished() == {"completed": 1}


@EVERY_KIND
async def test_rolled_back(shop: Crew, database: Database, kind: str) -> None:
    """Neither the order nor the job; and the next transaction of the same connection is as good as new."""
    async with kind_of(database, kind)(database.url) as user:
        await settled(user.execute(INSERT))
        await enqueue(shop.jobs, user, 1)

        await settled(user.rollback())

    assert state(database) == (0, 0)


@EVERY_KIND
async def test_rolled_back_with_the_enqueue_as_its_only_statement(shop: Crew, database: Database, kind: str) -> None:
    """Libraries that open transactions by themselves must have opened one for us too."""
    async with kind_of(database, kind)(database.url) as user:
        await enqueue(shop.jobs, user, 1)

        await settled(user.rollback())

    assert state(database) == (0, 0)


@EVERY_KIND
async def test_savepoint_rolled_back(shop: Crew, database: Database, kind: str) -> None:
    """What was enqueued inside goes with the savepoint; what was enqueued before it stays."""
    async with kind_of(database, kind)(database.url) as user:
        await settled(user.execute(INSERT))
        kept = await enqueue(shop.jobs, user, 1)
        await settled(user.execute("SAVEPOINT inside"))
        await enqueue(shop.jobs, user, 2)
        await settled(user.execute("ROLLBACK TO SAVEPOINT inside"))

        await settled(user.commit())

    assert state(database) == (1, 1)
    assert database.row(kept).status == "pending"


def _enqueue_and_wait(url: str, ledger: Path, name: str, signal_file: Path) -> None:
    """In a process of its own: everything but the commit."""

    async def act() -> None:
        jobs = make_jobs(url, ledger)
        async with kind_of(Database(url), name)(url) as user:
            await settled(user.execute(INSERT))
            await enqueue(jobs, user, 1)
            signal_file.touch()  # noqa: ASYNC240 - the only one on this loop
            await asyncio.sleep(60)

    asyncio.run(act())


@EVERY_KIND
def test_killed_before_the_commit(shop: Crew, database: Database, kind: str) -> None:
    """SIGKILL between enqueue and commit: the database forgets both."""
    ready = shop.gate("ready")
    process = spawn(_enqueue_and_wait, database.url, shop.ledger.path, kind, ready, log=shop.log)
    wait_for(ready.exists, "the process is about to commit")

    process.kill()

    assert process.join() == -signal.SIGKILL
    assert state(database) == (0, 0)
    if database.is_postgres:
        sessions = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'"
        wait_for(lambda: database.query(sessions) == [(0,)], "PostgreSQL has ended the session")
    with shop.jobs.app.client() as client:
        client.enqueue(shop.jobs.note.call(number=2))
    assert state(database) == (0, 1)


@ON_POSTGRES
async def test_backend_terminated_before_the_commit(shop: Crew, database: Database, kind: str) -> None:
    """The commit fails, and says so; nothing was kept."""
    async with kind_of(database, kind)(database.url) as user:
        await settled(user.execute(INSERT))
        await enqueue(shop.jobs, user, 1)
        database.query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND state = 'idle in transaction'"
        )
        with pytest.raises(Exception, match=r"terminat|closed|connection"):
            await settled(user.commit())

    assert state(database) == (0, 0)


@EVERY_KIND
async def test_failed_enqueue_leaves_the_transaction_usable(shop: Crew, database: Database, kind: str) -> None:
    """A refused enqueue writes nothing, and the application may go on and commit what it has."""
    bad: dict[str, Any] = {"priority": 99_999}
    async with kind_of(database, kind)(database.url) as user:
        await settled(user.execute(INSERT))
        with pytest.raises(ValueError, match="priority=99999"):
            await enqueue(shop.jobs, user, 1, **bad)

        await settled(user.commit())

    assert state(database) == (1, 0)


def test_own_transaction_exists_once_it_returned(shop: Crew, database: Database) -> None:
    """Without tx= the enqueue commits by itself; repeated with the same id it is the same job."""
    with shop.jobs.app.client() as client:
        chain = client.enqueue(shop.jobs.note.call(number=1))
        again = client.enqueue(shop.jobs.note.call(number=1), id=chain.id)

    assert (again.id, again.outcome) == (chain.id, "kept")
    assert state(database) == (0, 1)


@pytest.mark.parametrize("options", [{}, {"tenant": "t"}, {"dedup": "key"}], ids=["plain", "rarer", "guarded"])
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_own_transaction_whose_answer_is_lost(
    shop: Crew, database: Database, options: EnqueueOptions, is_async: bool
) -> None:
    """The client sends the batch again, meets its own jobs, and says that it has created them; they exist once."""
    calls = [shop.jobs.note.call(number=number) for number in range(3)]
    calls = [call.options(**options) for call in calls[:1]] + calls[1:]
    if is_async:
        async with shop.jobs.app.async_client() as client:
            await client.list_jobs()
            lose_the_next_answer(client)
            chains = await client.enqueue_many(calls)
    else:
        with shop.jobs.app.client() as client:
            client.list_jobs()
            lose_the_next_answer(client)
            chains = client.enqueue_many(calls)
    assert [chain.outcome for chain in chains] == ["created"] * 3
    assert {job.id for job in database.jobs()} == {chain.id for chain in chains}
    assert len(database.jobs()) == 3


def lose_the_next_answer(client: Any) -> None:
    """The transaction commits, and the connection is lost before anybody hears of it."""
    store = client._store
    original = store.run

    async def lost(answer: Any) -> Any:
        store.run = original
        await answer
        raise DatabaseUnavailable("lost before the answer came")

    def run(verb: Any, **options: Any) -> Any:
        answer = original(verb, **options)
        if asyncio.iscoroutine(answer):
            return lost(answer)
        store.run = original
        raise DatabaseUnavailable("lost before the answer came")

    store.run = run
