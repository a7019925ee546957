"""G11: Concurrency and rate limits are never exceeded."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from functools import partial

from holdfast.client import Client
from holdfast.model.scan_position import Lane
from holdfast.model.sharing import MILLIONTHS
from holdfast.operations.claim_jobs import claim_jobs, find_lanes
from tests.crew.database import Database
from tests.crew.limited import most_at_once, worst_excess
from tests.crew.process import BRISK, STEADY, Crew
from tests.crew.waiting import wait_for

LIMIT = 4


def is_dealt_out(database: Database, limit: int, pids: Iterable[int]) -> bool:
    """All of these processes have been told of it, and no more may run by what anybody was told."""
    most = "CASE WHEN in_use > permits THEN in_use ELSE permits END"
    rows = database.query(f"SELECT worker_id, {most} FROM {database.table('queue_share')}")
    told = {worker_id.split("-")[-2] for worker_id, _ in rows}
    return told >= {str(pid) for pid in pids} and sum(share for _, share in rows) <= limit


def test_killed_workers_do_not_widen_a_limit(crew: Crew, database: Database) -> None:
    """Three processes share four places; one is killed, one more comes; the places of the dead one are used again."""
    with crew.jobs.app.client() as client:
        client.queues.limit("default", concurrency=LIMIT)
        client.enqueue_many([crew.jobs.note.call(number=number, pause=0.03) for number in range(200)])
    config = replace(STEADY, concurrency=8)
    workers = [crew.start(config) for _ in range(3)]
    wait_for(lambda: len(crew.ledger.numbers("started")) > 20, "they have begun")
    busy = {entry.pid for entry in crew.ledger.read("started")}
    victim = next(worker for worker in workers if worker.pid in busy)
    victim.kill()
    deaths = {victim.pid: time.monotonic()}
    crew.start(config)
    database.wait_finished(90)
    assert most_at_once(crew.ledger.read(), deaths) == LIMIT
    assert crew.ledger.numbers("finished") == set(range(200))


def test_handlers_keep_to_a_limit_that_is_changed_while_workers_come_and_go(crew: Crew, database: Database) -> None:
    """Jobs so short that each worker has hundreds at hand when the first limit comes, and whenever it is lowered.

    Each time, as soon as all have heard of it, no more handlers run than it says.
    """
    config = replace(STEADY, concurrency=12)
    workers = {worker.pid: worker for worker in (crew.start(config) for _ in range(3))}
    deaths: dict[int, float] = {}
    pauses = random.Random(7)  # noqa: S311 - a lot, drawn again the same
    numbers = itertools.count()
    done = 0
    used: list[int] = []

    def enqueue(client: Client, count: int) -> None:
        calls = [crew.jobs.note.call(number=next(numbers), pause=pauses.choice((0, 0, 0.004))) for _ in range(count)]
        client.enqueue_many(calls)

    def finished_more(count: int) -> bool:
        return len(crew.ledger.numbers("finished")) >= done + count

    with crew.jobs.app.client() as client:
        enqueue(client, 4_000)
        wait_for(lambda: finished_more(300), "they work without a limit")
        for limit, change in ((6, None), (2, "kill"), (9, "stop"), (3, "join")):
            client.queues.limit("default", concurrency=limit)
            wait_for(partial(is_dealt_out, database, limit, workers), f"{limit} are dealt out")
            since = time.monotonic()
            done = len(crew.ledger.numbers("finished"))
            if change in {"kill", "stop"}:
                pid, worker = workers.popitem()
                worker.kill() if change == "kill" else worker.stop()
                deaths[pid] = time.monotonic()
            if change in {"kill", "join"}:
                worker = crew.start(config)
                workers[worker.pid] = worker
            enqueue(client, 300)
            wait_for(lambda: finished_more(150), f"they work with a limit of {limit}", patience=60)
            wait_for(partial(is_dealt_out, database, limit, workers), "all have a share", patience=60)
            most = most_at_once(crew.ledger.read(), deaths, since=since, until=time.monotonic())
            assert most <= limit
            used.append(most)
        client.queues.limit("default")
    database.wait_finished(90)
    assert max(used) > 2
    assert crew.ledger.numbers("finished") == set(range(next(numbers)))


def starts(database: Database) -> list[float]:
    """When each attempt was claimed, by the clock of the database: the last one of each job, and those that crashed."""
    last = f"SELECT last_attempt_at FROM {database.job} WHERE last_attempt_at IS NOT NULL"
    query = f"{last} UNION ALL SELECT started_at FROM {database.table('job_attempt')}"
    moments = [datetime.fromisoformat(str(moment)) for (moment,) in database.query(query)]
    return [moment.timestamp() for moment in moments]


def test_killed_workers_do_not_widen_a_rate(crew: Crew, database: Database) -> None:
    """Two of three are killed when all have spent what they had saved up: who takes over has not saved it up again.

    Nor is the rate of the dead lost: in the end all of it is dealt out to those who live.
    """
    rate, burst = 6, 30
    config = replace(BRISK, concurrency=2 * burst)
    with crew.jobs.app.client() as client:
        client.queues.limit("default", rate=rate, burst=burst)
        workers = [crew.start(config) for _ in range(3)]
        parts = f"SELECT burst FROM {database.table('queue_share')}"
        wait_for(lambda: database.query(parts) == [(burst // 3,)] * 3, "each has its share")
        time.sleep(burst / rate)  # as long as it takes to save up
        client.enqueue_many([crew.jobs.note.call(number=number) for number in range(2 * burst)])
    wait_for(lambda: len(crew.ledger.read("started")) >= burst, "they have spent it")
    assert {entry.pid for entry in crew.ledger.read("started")} == {worker.pid for worker in workers}
    for victim in workers[:2]:
        victim.kill()
    crew.start(config)
    database.wait_finished(60)
    shares = f"""
        SELECT share.rate FROM {database.table("queue_share")} AS share
        JOIN {database.table("worker")} AS worker ON worker.id = share.worker_id AND worker.status = 'alive'
    """
    assert worst_excess(starts(database), rate) <= burst + 0.001
    assert len(starts(database)) >= 2 * burst
    wait_for(
        lambda: sum(given for (given,) in database.query(shares)) == rate * MILLIONTHS,
        "the living have all of it",
    )


def test_a_worker_that_has_not_heard_of_a_limit_gets_nothing(crew: Crew) -> None:
    """From the commit of the limit on: a claim without a share is refused by the database, not by good manners."""
    store = crew.jobs.app.store.sync()
    with crew.jobs.app.client() as client:
        client.enqueue(crew.jobs.note.call(number=1))
        client.queues.limit("default", concurrency=LIMIT)
    found = store.run(lambda: find_lanes(["default"]), read_only=True)
    lanes = [Lane(lane.queue, lane.priority, lane.ready_at, lane.seq - 1) for lane in found]
    assert store.run(lambda: claim_jobs("stranger", lanes, 10, BRISK.lease)) == []
    with crew.jobs.app.client() as client:
        client.queues.limit("default", concurrency=None)
    assert len(store.run(lambda: claim_jobs("stranger", lanes, 10, BRISK.lease))) == 1
    store.close()
