"""What a disaster cost: counted from the database and from the ledger."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from holdfast import Call, HoldfastError
from holdfast.operations.reap_jobs import CRASH_CAP
from tests.crew.database import Database
from tests.crew.process import Crew
from tests.crew.report import say


@dataclass(frozen=True)
class Accounts:
    """All zero, or something was broken."""

    lost: int
    doubled: int
    stuck: int
    #: innocents that were in as many crashes as a culprit may be; not compared: whoever kills at random hits some
    condemned: int = field(default=0, compare=False)


def settle(crew: Crew, database: Database, numbers: set[int], patience: float = 60.0) -> Accounts:
    """Wait until all is done, and count.

    Lost: enqueued, but neither completed by anybody nor a dead letter of the crash cap. Doubled: one (job, generation)
    delivered or finished twice. Stuck: not in a terminal state although somebody was there to work.
    """
    try:
        database.wait_finished(patience)
    except AssertionError as error:
        say(error)
    completed = {row.id for row in database.jobs() if row.status == "completed"}
    finished = {entry.number for entry in crew.ledger.read("finished") if entry.job_id in completed}
    dead = {row.id for row in database.jobs() if row.status == "dead_letter" and row.crash_count >= CRASH_CAP}
    condemned = {entry.number for entry in crew.ledger.read("started") if entry.job_id in dead}
    return Accounts(
        lost=len(numbers - finished - condemned),
        doubled=len({*crew.ledger.started_twice(), *crew.ledger.finished_twice()}),
        stuck=database.unfinished(),
        condemned=len(condemned),
    )


class Load:
    """Jobs that keep coming from a thread; an enqueue that fails is tried again, as an application would."""

    def __init__(self, crew: Crew, make: Callable[[int], Call[object]], batch: int, pause: float) -> None:
        self._crew = crew
        self._make = make
        self._batch = batch
        self._pause = pause
        self._stop = threading.Event()
        self._numbers = itertools.count()
        self.enqueued: set[int] = set()

    def serve(self) -> None:
        with self._crew.jobs.app.client() as client:
            while not self._stop.wait(self._pause):
                numbers = list(itertools.islice(self._numbers, self._batch))
                calls = [self._make(number) for number in numbers]
                # Ids are made once, so that a try whose commit was not confirmed can be repeated.
                chains: list[str] = []
                while not chains:
                    try:
                        chains = [chain.id for chain in client.enqueue_many(calls)]
                    except HoldfastError as error:
                        say(f"enqueue: {error}")
                        if self._stop.wait(0.2):
                            return
                self.enqueued.update(numbers)

    def stop(self) -> None:
        self._stop.set()


@contextmanager
def load(crew: Crew, make: Callable[[int], Call[object]], *, batch: int = 20, pause: float = 0.05) -> Iterator[Load]:
    """While the block runs, and a last batch after it."""
    running = Load(crew, make, batch, pause)
    thread = threading.Thread(target=running.serve, name="load")
    thread.start()
    try:
        yield running
    finally:
        running.stop()
        thread.join()
