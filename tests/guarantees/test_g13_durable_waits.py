"""G13: A saved step does not run again: sleeps, signals and children are steps.

Workers are killed between them; each sleep, each signal and each child comes once.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.crew.database import Database
from tests.crew.fault import Fault, Point
from tests.crew.process import BRISK, ChildProcess, spawn
from tests.crew.waiting import wait_for
from tests.crew.waits import CHILDREN, PLACES, Waits, make_waits, work

pytestmark = pytest.mark.parametrize("database", ["sqlite", "pg18"], indirect=True)

#: one job at a time, so that who dies takes nobody along
ALONE = replace(BRISK, concurrency=1)
STEPS = ("begun", "gone on", "ended", *(f"part {which}" for which in range(CHILDREN)))

Start = Callable[..., ChildProcess]


@pytest.fixture
def waits(database: Database, tmp_path: Path) -> Iterator[Waits]:
    made = make_waits(database.url, tmp_path / "ledger.jsonl")
    with made.app.client() as client:
        client.list_jobs()  # creates the schema
    yield made
    made.app.close()


@pytest.fixture
def start(database: Database, waits: Waits, tmp_path: Path) -> Iterator[Start]:
    """Starts worker processes, of which nothing survives the test."""
    started: list[ChildProcess] = []

    def begin(fault: Fault | None = None) -> ChildProcess:
        process = spawn(work, database.url, waits.ledger.path, ALONE, fault, log=tmp_path / "workers.log")
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()


def done(waits: Waits, number: int) -> Counter[str]:
    """How often each step of a journey was run, and which children were: one that a death cut short runs again."""
    counts = Counter(entry.event for entry in waits.ledger.read() if entry.number == number and entry.event in STEPS)
    return Counter({event: 1 if event.startswith("part ") else count for event, count in counts.items()})


def expected(number: int) -> list[object]:
    return [f"word {number}", *(10 * number + which for which in range(CHILDREN))]


@pytest.mark.timeout(240)
@pytest.mark.parametrize("kind", ["async", "thread"])
def test_killed_between_waits(waits: Waits, database: Database, start: Start, kind: str) -> None:
    """A journey for each place where a worker can die; half of the signals come before anybody waits for them."""
    journey = waits.journey if kind == "async" else waits.journey_sync
    with waits.app.client() as client:
        chains = [client.enqueue(journey.call(number=n, deadly=place)) for n, place in enumerate(PLACES)]
        for number, chain in enumerate(chains[::2]):
            client.signal(chain, "word", f"word {2 * number}")
        late = {2 * number + 1: chain for number, chain in enumerate(chains[1::2])}
        worker = start()
        deaths = 0

        def is_over() -> bool:
            nonlocal worker, deaths
            for number, chain in list(late.items()):
                if client.get_job(chain.id).step == "word":
                    client.signal(late.pop(number), "word", f"word {number}")
            if not worker.is_alive:
                assert worker.join() == -signal.SIGKILL
                deaths += 1
                worker = start()
            return database.unfinished() == 0

        wait_for(is_over, "every journey ended", patience=180, pause=0.05)
        assert deaths == len(PLACES)
        assert [client.get_chain(chain).output for chain in chains] == [expected(n) for n in range(len(PLACES))]
        assert {number: done(waits, number) for number in range(len(PLACES))} == {
            number: dict.fromkeys(STEPS, 1) for number in range(len(PLACES))
        }
    assert len(database.jobs()) == len(PLACES) * (1 + CHILDREN)
    assert database.query(f"SELECT count(*) FROM {database.table('job_signal')}") == [(0,)]


@pytest.mark.parametrize("point", [*Point], ids=lambda point: point.name.lower())
@pytest.mark.parametrize("verb", ["suspend_jobs", "take_signal"])
def test_accidents_around_the_writes(waits: Waits, database: Database, start: Start, verb: str, point: Point) -> None:
    """The worker dies, or loses its connection, around a wait that is written down, or a signal that is taken."""
    with waits.app.client() as client:
        chain = client.enqueue(waits.journey.call(number=1, deadly=""))
        if verb == "take_signal":
            client.signal(chain, "word", "word 1")
        victim = start(Fault(verb, point))
        if point in {Point.UNSENT, Point.UNANSWERED}:
            wait_for(lambda: client.get_job(chain.id).step not in {None, "begin", "nap"}, "the sleep is over")
        else:
            assert victim.join() == -signal.SIGKILL
            start()
        if verb != "take_signal":
            client.signal(chain, "word", "word 1")
        assert database.wait_finished() == {"completed": 1 + CHILDREN}
        assert client.get_chain(chain).output == expected(1)
    assert done(waits, 1) == dict.fromkeys(STEPS, 1)
