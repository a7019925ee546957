"""G14: Your write and the job's completion commit together or not at all."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.crew.database import Database
from tests.crew.handlers import Handlers, make_handlers, work
from tests.crew.process import BRISK, STEADY, ChildProcess, spawn
from tests.crew.waiting import wait_for

EXPENSIVE = pytest.mark.parametrize("database", ["sqlite", "pg18"], indirect=True)

Start = Callable[..., ChildProcess]


@pytest.fixture
def handlers(database: Database, tmp_path: Path) -> Iterator[Handlers]:
    made = make_handlers(database.url, tmp_path / "ledger.jsonl")
    with made.app.client() as client:
        client.list_jobs()  # creates the schema
    database.query("CREATE TABLE orders (id integer)")
    yield made
    made.app.close()


@pytest.fixture
def start(database: Database, handlers: Handlers, tmp_path: Path) -> Iterator[Start]:
    """Starts worker processes, of which nothing survives the test."""
    started: list[ChildProcess] = []

    def begin() -> ChildProcess:
        process = spawn(work, database.url, handlers.ledger.path, BRISK, log=tmp_path / "workers.log")
        started.append(process)
        return process

    yield begin
    for process in started:
        process.thaw()
        process.kill()


def orders(database: Database) -> list[int]:
    return sorted(number for (number,) in database.query("SELECT id FROM orders"))


@pytest.mark.parametrize("place", ["after write", "after complete", "after commit"])
def test_killed_around_the_completion(handlers: Handlers, database: Database, start: Start, place: str) -> None:
    """Wherever the process dies: one order, one completion, and never one without the other."""
    with handlers.app.client() as client:
        chain = client.enqueue(handlers.book.call(number=7, deaths={place: 1}))
    assert start().join() == -signal.SIGKILL
    is_completed = database.row(chain.id).status == "completed"
    assert is_completed == (place == "after commit")
    assert orders(database) == ([7] if is_completed else [])
    start()

    assert database.wait_finished() == {"completed": 1}

    assert orders(database) == [7]
    assert len(handlers.ledger.read("started")) == (1 if is_completed else 2)


@EXPENSIVE
def test_many_with_deaths_all_over(handlers: Handlers, database: Database, start: Start) -> None:
    """A crew of which three die in the middle: as many orders as completions, each number once."""
    places = ("after write", "after complete", "after commit")
    with handlers.app.client() as client:
        for number in range(60):
            deaths = {places[number // 20]: 1} if number % 20 == 10 else {}
            client.enqueue(handlers.book.call(number=number, deaths=deaths))
    workers = [start() for _ in range(3)]

    def is_over() -> bool:
        for index, worker in enumerate(workers):
            if not worker.is_alive:
                workers[index] = start()
        return database.unfinished() == 0

    wait_for(is_over, "every job finished", patience=60)

    assert database.statuses() == {"completed": 60}
    assert orders(database) == list(range(60))


@EXPENSIVE
def test_a_holder_that_lost_its_job_cannot_commit(handlers: Handlers, database: Database, tmp_path: Path) -> None:
    """Frozen past its lease, it is refused, swallows the error, writes more and commits: nothing of it is there."""
    gate = tmp_path / "gate"
    log = tmp_path / "workers.log"
    with handlers.app.client() as client:
        client.enqueue(handlers.book_late.call(number=7, gate=str(gate)))
    frozen = spawn(work, database.url, handlers.ledger.path, STEADY, log=log)
    handlers.ledger.wait("started")

    def is_frozen() -> bool:
        frozen.freeze()
        if database.is_writable:
            return True
        frozen.thaw()
        return False

    wait_for(is_frozen, "stopped outside a transaction")
    other = spawn(work, database.url, handlers.ledger.path, STEADY, log=log)
    try:
        handlers.ledger.wait("started", pid=other.pid)
        gate.touch()
        handlers.ledger.wait("finished", pid=other.pid)
        frozen.thaw()
        handlers.ledger.wait("finished", pid=frozen.pid)

        assert database.wait_finished() == {"completed": 1}
        assert orders(database) == [7]
    finally:
        frozen.thaw()
        frozen.kill()
        other.kill()
