"""G8: A job continues its chain at most once, atomically with its completion."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial

import pytest
from msgspec import Raw

from holdfast.model.call import JobDocument
from holdfast.model.ids import new_id
from holdfast.model.payload import to_json
from holdfast.model.scan_position import Lane
from holdfast.operations.claim_jobs import claim_jobs, find_lanes
from holdfast.operations.complete_jobs import Completion, complete_jobs
from holdfast.operations.continue_jobs import Continuation, continue_jobs
from tests.crew.database import Database
from tests.crew.fault import DEATHS, Fault, Point
from tests.crew.process import BRISK, Crew
from tests.crew.report import say
from tests.crew.waiting import wait_for

LEASE = timedelta(seconds=60)
RACERS = 12
CHAINS = 60
STEPS = 5


def test_racing_continuations_and_completions(crew: Crew, database: Database) -> None:
    """Twelve connections end one job under one generation, half of them by going on: one ending happens."""
    store = crew.jobs.app.store.sync()
    for _ in range(10):
        chain = crew.jobs.note.enqueue(number=1)
        (found,) = store.run(lambda: find_lanes(["default"]), read_only=True)
        lanes = [Lane(found.queue, found.priority, found.ready_at, found.seq - 1)]
        (job,) = store.run(partial(claim_jobs, "w", lanes, 1, LEASE))
        barrier = threading.Barrier(RACERS)

        def end(number: int, job_id: str = job.id, generation: int = job.lease_generation) -> None:
            own = crew.jobs.app.store.sync()
            following = JobDocument(new_id(), "note", Raw(to_json({"number": number})), "later")
            barrier.wait()  # noqa: B023 - of this round
            while own.run(
                lambda: (
                    continue_jobs("w", [Continuation(job_id, generation, following)])
                    if number % 2
                    else complete_jobs("w", [Completion(job_id, generation, "1")])
                )
            ).locked:
                time.sleep(0.001)
            own.close()

        with ThreadPoolExecutor(RACERS) as pool:
            list(pool.map(end, range(RACERS)))
        rows = database.query(
            f"SELECT chain_index, is_tail FROM {database.job} WHERE chain_id = '{chain.id}' ORDER BY chain_index"
        )
        tails = [index for index, is_tail in rows if is_tail]
        assert len(rows) <= 2
        assert tails == [len(rows) - 1]
        assert [index for index, _ in rows] == list(range(len(rows)))
    store.close()


@pytest.mark.parametrize("point", DEATHS, ids=lambda point: point.name.lower())
@pytest.mark.parametrize("database", ["sqlite", "pg18"], indirect=True)
def test_death_around_the_continuation(crew: Crew, database: Database, point: Point) -> None:
    """A worker dies before, during or after the statement; a rescuer brings every chain to its one end."""
    with crew.jobs.app.client() as client:
        client.enqueue_many([crew.jobs.relay.call(number=number, left=STEPS - 1) for number in range(10)])
    victim = crew.start(BRISK, fault=Fault("continue_jobs", point))
    wait_for(lambda: not victim.is_alive, "the victim's death")
    crew.start(BRISK)
    database.wait_finished()
    assert_one_job_per_place(database, 10)


@pytest.mark.parametrize("database", ["sqlite", "pg18"], indirect=True)
def test_chains_under_fire(crew: Crew, database: Database) -> None:
    """Three workers, killed at random and replaced; every chain has one job per place, and ends with its output."""
    seed = random.SystemRandom().randrange(2**32)
    say(f"seed {seed}")
    dice = random.Random(seed)  # noqa: S311 - no secret
    with crew.jobs.app.client() as client:
        client.enqueue_many(
            [crew.jobs.relay.call(number=number, left=STEPS - 1, pause=0.02) for number in range(CHAINS)]
        )
    workers = [crew.start(BRISK) for _ in range(3)]
    for _ in range(4):
        time.sleep(dice.uniform(0.1, 0.4))
        dice.choice(workers).kill()
        workers = [*(worker for worker in workers if worker.is_alive), crew.start(BRISK)]
    database.wait_finished()
    assert_one_job_per_place(database, CHAINS)
    assert crew.ledger.started_twice() == []


def assert_one_job_per_place(database: Database, chains: int) -> None:
    """Every chain has the places 0 to STEPS - 1, only the last is its tail, and all are completed."""
    rows = database.query(
        f"SELECT chain_id, chain_index, status, is_tail FROM {database.job} ORDER BY chain_id, chain_index"
    )
    by_chain: dict[str, list[tuple[int, str, bool]]] = {}
    for chain_id, index, status, is_tail in rows:
        by_chain.setdefault(str(chain_id), []).append((index, status, bool(is_tail)))
    assert len(by_chain) == chains
    expected = [(index, "completed", index == STEPS - 1) for index in range(STEPS)]
    assert {chain_id: found for chain_id, found in by_chain.items() if found != expected} == {}
