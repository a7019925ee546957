"""G7: N concurrent enqueues with one deduplication key create one chain, and all N get its id."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import psycopg
import pytest

from holdfast import Chain, Client, Dedup, Outcome
from holdfast.errors import SerializationConflict
from holdfast.model.dedup import Scope
from tests.crew.database import Database
from tests.crew.fixtures import EVERY_POSTGRES
from tests.crew.process import Crew

T = TypeVar("T")

CONNECTIONS = 50
ROUNDS = 4


def at_once(crew: Crew, work: Callable[[Client, int], T], count: int = CONNECTIONS) -> list[T]:
    """Each in a thread with a client, and so a connection, of its own; all start at one barrier."""
    barrier = threading.Barrier(count)

    def run(number: int) -> T:
        with crew.jobs.app.client() as client:
            client.list_jobs(limit=1)  # the connection is open before the start
            barrier.wait()
            return work(client, number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


@pytest.mark.parametrize("scope", ["pending", "unfinished", "forever"])
def test_fifty_connections_one_chain(crew: Crew, database: Database, scope: Scope) -> None:
    for round_ in range(ROUNDS):
        key = Dedup(f"{scope} {round_}", scope=scope)
        chains = at_once(crew, lambda client, n: client.enqueue(crew.jobs.note.call(number=n), dedup=key))  # noqa: B023 - called in this round

        assert len({chain.id for chain in chains}) == 1
        assert [chain.outcome for chain in chains].count(Outcome.CREATED) == 1
        assert database.query(f"SELECT count(*) FROM {database.job}") == [(round_ + 1,)]


def test_batches_with_the_same_keys_in_any_order(crew: Crew, database: Database) -> None:
    """Every batch gets the same chains; nobody fails, nobody waits for ever."""
    keys = [f"k{number}" for number in range(20)]

    def batch(client: Client, number: int) -> dict[str, str]:
        mixed = keys[number % 20 :] + keys[: number % 20]
        if number % 2:
            mixed.reverse()
        calls = [crew.jobs.note.call(number=number).options(dedup=key) for key in mixed]
        return dict(zip(mixed, (chain.id for chain in client.enqueue_many(calls)), strict=True))

    results = at_once(crew, batch, 16)

    assert all(result == results[0] for result in results)
    assert database.query(f"SELECT count(*) FROM {database.job}") == [(20,)]


def test_replacing_all_at_once_leaves_one_chain(crew: Crew, database: Database) -> None:
    """The last one's arguments stay, whoever that was; no request is lost to another's revision."""
    key = Dedup("k", on_conflict="replace")
    chains = at_once(crew, lambda client, n: client.enqueue(crew.jobs.note.call(number=n), dedup=key))

    assert len({chain.id for chain in chains}) == 1
    assert database.query(f"SELECT count(*), max(revision) FROM {database.job}") == [(1, CONNECTIONS - 1)]


@pytest.mark.parametrize("database", EVERY_POSTGRES, indirect=True)  # SQLite has one level
@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def test_in_the_callers_transactions(crew: Crew, database: Database, level: str) -> None:
    """Stricter levels may refuse one of two, as they do with any row; they never make two chains."""

    def in_own_transaction(client: Client, number: int) -> Chain[object] | None:
        with psycopg.connect(database.url) as connection:
            connection.execute(f"SET TRANSACTION ISOLATION LEVEL {level}".encode())
            connection.execute("SELECT 1")
            try:
                chain: Chain[object] = client.enqueue(crew.jobs.note.call(number=number), dedup="k", tx=connection)
                connection.commit()
            except (SerializationConflict, psycopg.errors.SerializationFailure):
                assert level != "READ COMMITTED"
                return None
            return chain

    chains = [chain for chain in at_once(crew, in_own_transaction, 16) if chain]

    assert len({chain.id for chain in chains}) == 1
    assert database.query(f"SELECT count(*) FROM {database.job}") == [(1,)]
