"""What order and limits cost: partition keys, jobs stuck behind busy ones, limits that do not bind.

Two worker processes each time; by the database's own times, from the first claim to the last completion. Every figure
stands beside that of the same jobs without a key in the same run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial

from bench.claiming import claim_milliseconds, share_of_keyless
from bench.databases import Database
from bench.ledger import open_ledger
from bench.processes import workers
from holdfast import App
from holdfast.client import Client
from holdfast.model.scan_position import Lane
from holdfast.operations.claim_jobs import claim_jobs, find_lanes
from holdfast.operations.worker_life import WorkerIdentity, heartbeat, register_worker

_BATCH = 1000
_STUCK_KEYS = ("busy 1", "busy 2")

KeyOf = Callable[[int], str | None]


def measure(database: Database, scale: float) -> dict[str, float]:
    jobs = max(_BATCH, int(50_000 * scale) // _BATCH * _BATCH)
    plain = _rate(database, jobs, lambda _: None)
    figures = {"without keys, jobs/s": plain}

    def note(name: str, rate: float) -> None:
        figures[f"{name}, jobs/s"] = rate
        figures[f"{name}, share of without"] = rate / plain

    note("two jobs per key", _rate(database, jobs, lambda number: f"key {number % (jobs // 2)}"))
    note("100 keys", _rate(database, jobs, lambda number: f"key {number % 100}"))
    note("one key", _rate(database, max(_BATCH, jobs // 5), lambda _: "key"))
    note("behind two busy keys twice as many, held at enqueue", _rate_beside_stuck(database, jobs, is_met=False))
    note("the same, met by claims first", _rate_beside_stuck(database, jobs, is_met=True))
    note("concurrency limit of 50", _rate(database, jobs, lambda _: None, concurrency=50))
    note("rate limit that does not bind", _rate(database, jobs, lambda _: None, rate=1_000_000, burst=100_000))
    figures["without keys, share of a schema without key support"] = share_of_keyless(database, jobs)
    return figures | _claims_beside_others(database, max(_BATCH, int(250_000 * scale)))


def _claims_beside_others(database: Database, pending: int) -> dict[str, float]:
    alone, beside = claim_milliseconds(database, pending)
    return {
        "claim of 100 from ten queues with ten priorities, ms": alone,
        f"the same with {pending:,} jobs in other queues, ms": beside,
        "times the one without": beside / alone,
    }


def _rate(database: Database, jobs: int, key_of: KeyOf, **limits: int) -> float:
    with database.fresh(), _shop(database) as (client, enqueue):
        if limits:
            client.queues.limit("default", **limits)  # type: ignore[arg-type]  # by name
        enqueue(jobs, key_of)
        return jobs / _drained(database, jobs)


def _rate_beside_stuck(database: Database, jobs: int, *, is_met: bool) -> float:
    """`is_met`: the stuck ones are found by claims, as if each had come in a long transaction of its own."""
    with database.fresh(), _shop(database) as (client, enqueue):
        for key in _STUCK_KEYS:
            enqueue(1, partial(_always, key))
        with _held(client):
            enqueue(2 * jobs, lambda number: _STUCK_KEYS[number % 2])
            if is_met:
                with open_ledger(database) as ledger:
                    ledger.unhold()
            enqueue(jobs, lambda _: None)
            return jobs / _drained(database, jobs)


def _always(key: str, _: int) -> str:
    return key


@contextmanager
def _shop(database: Database) -> Iterator[tuple[Client, Callable[[int, KeyOf], None]]]:
    app = App(database.url, auto_migrate=True)

    @app.job()
    async def receipt(order_id: int, email: str) -> None: ...

    with app.client() as client:

        def enqueue(count: int, key_of: KeyOf) -> None:
            for start in range(0, count, _BATCH):
                numbers = range(start, min(start + _BATCH, count))
                calls = (receipt.call(order_id=number, email="someone.longer@example.com") for number in numbers)
                client.enqueue_many(
                    [call.options(partition_key=key_of(number)) for number, call in zip(numbers, calls, strict=True)]
                )

        yield client, enqueue
    app.close()


def _drained(database: Database, jobs: int) -> float:
    with workers(2, database.url), open_ledger(database) as ledger:
        while not ledger.is_over():
            time.sleep(0.05)
        return ledger.seconds(jobs)


@contextmanager
def _held(client: Client) -> Iterator[None]:
    """Somebody holds what is there now, and lives."""
    store = client._store  # noqa: SLF001 - the client has no verb for claims
    holder = WorkerIdentity(id="holder", version="0", queues=["default"])
    store.run(lambda: register_worker(holder))
    found = store.run(lambda: find_lanes(["default"]), read_only=True)
    lanes = [Lane(lane.queue, lane.priority, lane.ready_at, lane.seq - 1) for lane in found]
    store.run(lambda: claim_jobs("holder", lanes, 10, timedelta(hours=1)))
    stopping = threading.Event()

    def live() -> None:
        while not stopping.wait(3):
            store.run(lambda: heartbeat(holder, timedelta(seconds=20), is_draining=False))

    living = threading.Thread(target=live)
    living.start()
    try:
        yield
    finally:
        stopping.set()
        living.join()
