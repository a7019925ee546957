"""G13: A saved step does not run again."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.crew.database import Database
from tests.crew.fault import Fault, Point
from tests.crew.handlers import STEPS, Handlers, make_handlers, work
from tests.crew.process import BRISK, ChildProcess, spawn

EXPENSIVE = pytest.mark.parametrize("database", ["sqlite", "pg18"], indirect=True)

Start = Callable[..., ChildProcess]


@pytest.fixture
def handlers(database: Database, tmp_path: Path) -> Iterator[Handlers]:
    made = make_handlers(database.url, tmp_path / "ledger.jsonl")
    with made.app.client() as client:
        client.list_jobs()  # creates the schema
    yield made
    made.app.close()


@pytest.fixture
def start(database: Database, handlers: Handlers, tmp_path: Path) -> Iterator[Start]:
    """Starts worker processes, of which nothing survives the test."""
    started: list[ChildProcess] = []

    def begin(fault: Fault | None = None) -> ChildProcess:
        process = spawn(work, database.url, handlers.ledger.path, BRISK, fault, log=tmp_path / "workers.log")
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()


def runs(handlers: Handlers, number: int) -> Counter[str]:
    """How often each step of a job was run."""
    return Counter(entry.event for entry in handlers.ledger.read() if entry.number == number and entry.event in STEPS)


@pytest.mark.parametrize("kind", ["async", "thread"])
def test_killed_between_steps(handlers: Handlers, database: Database, start: Start, kind: str) -> None:
    """SIGKILL after the first step and, on the next delivery, after the second: each has run once."""
    job = handlers.trip if kind == "async" else handlers.trip_sync
    with handlers.app.client() as client:
        chain = client.enqueue(job.call(number=1, deaths={"after charge": 1, "after pack": 2}))
    for _ in range(2):
        assert start().join() == -signal.SIGKILL
    start()

    assert database.wait_finished() == {"completed": 1}

    assert runs(handlers, 1) == {"charge": 1, "pack": 1, "ship": 1}
    with handlers.app.client() as client:
        assert client.get_job(chain.id).output == ["charge of 1", "pack of 1", "ship of 1"]


@EXPENSIVE
def test_killed_inside_a_step(handlers: Handlers, database: Database, start: Start) -> None:
    """What was not saved is run again; what was saved before it is not."""
    with handlers.app.client() as client:
        client.enqueue(handlers.trip.call(number=1, deaths={"in pack": 1, "after pack": 2}))
    for _ in range(2):
        assert start().join() == -signal.SIGKILL
    start()

    assert database.wait_finished() == {"completed": 1}

    assert runs(handlers, 1) == {"charge": 1, "pack": 2, "ship": 1}


@EXPENSIVE
@pytest.mark.parametrize("point", [Point.BEFORE, Point.AFTER], ids=lambda point: point.name.lower())
def test_death_around_the_save(handlers: Handlers, database: Database, start: Start, point: Point) -> None:
    """The database has the result, or has not: accordingly the step is skipped or run again."""
    with handlers.app.client() as client:
        client.enqueue(handlers.trip.call(number=1, deaths={}))
    victim = start(Fault("save_step", point, nth=2))
    assert victim.join() == -signal.SIGKILL
    start()

    assert database.wait_finished() == {"completed": 1}

    assert runs(handlers, 1) == {"charge": 1, "pack": 1 if point is Point.AFTER else 2, "ship": 1}


@EXPENSIVE
@pytest.mark.parametrize("point", [Point.UNSENT, Point.UNANSWERED], ids=lambda point: point.name.lower())
def test_connection_lost_around_the_save(handlers: Handlers, database: Database, start: Start, point: Point) -> None:
    """The save is sent again until there is an answer; the step is not run again, nor the job."""
    with handlers.app.client() as client:
        client.enqueue(handlers.trip.call(number=1, deaths={}))
    start(Fault("save_step", point, nth=2))

    assert database.wait_finished() == {"completed": 1}

    assert runs(handlers, 1) == {"charge": 1, "pack": 1, "ship": 1}
    assert database.jobs()[0].attempt == 1
