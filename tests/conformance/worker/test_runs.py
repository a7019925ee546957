"""Runs: jobs of one partition key that were claimed together, started one after the other and written in order."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast import App, Batch, Cancel, DeadLetter, Job, Retry, Snooze, SyncBatch
from holdfast.operations.claim_jobs import claim_jobs
from holdfast.worker import fetcher, lines
from tests.conformance.worker.conftest import BRISK, Ground, Hand
from tests.crew import process_jobs
from tests.crew.fixtures import EVERY_POSTGRES

#: claims take as many as there are slots
QUICK = replace(BRISK, concurrency=16, poll=timedelta(seconds=0.1), renew=timedelta(seconds=0.1))
SOON = Retry(max_attempts=5, initial=0.01, factor=1.0)
#: of a job's number, when it is run
Body = Callable[[int], float | threading.Event | None]
ON_POSTGRES = pytest.mark.parametrize("place", EVERY_POSTGRES, indirect=True)


@dataclass
class Numbered:
    """The jobs of key "k", by their numbers."""

    ground: Ground
    ids: list[str]

    async def until_ended(self, *, completed: int | None = None) -> list[Job]:
        """All of them; so many as completed, if not all."""

        async def jobs() -> list[Job]:
            found = [await self.ground.get(job_id) for job_id in self.ids]
            return found if all(job.finished_at for job in found) else []

        ended: list[Job] = await self.ground.until(jobs)
        assert sum(job.status == "completed" for job in ended) == (len(ended) if completed is None else completed)
        return ended

    async def until_seen(self, count: int) -> None:
        await self.ground.until(lambda: len(self.ground.seen) >= count)

    def column(self, name: str) -> list[Any]:
        return look(self.ground, f"SELECT {name} FROM {{job}} WHERE partition_key = 'k' ORDER BY seq")

    def statuses(self) -> list[str]:
        return self.column("status")


def look(ground: Ground, query: str) -> list[Any]:
    """The first column, by a connection of its own, from whatever thread."""
    if ground.app.store.dialect == "postgres":
        with psycopg.connect(ground.url, autocommit=True) as postgres:
            return [row[0] for row in postgres.execute(query.format(job="holdfast.job").encode())]
    connection = sqlite3.connect(ground.url.removeprefix("sqlite:///"), isolation_level=None, timeout=10)
    try:
        return [row[0] for row in connection.execute(query.format(job="holdfast_job"))]
    finally:
        connection.close()


def plain(ground: Ground, body: Body, **options: Any) -> Any:
    """A handler without a context: notes its number, does what the body does, and takes as long as that says.

    That is a number of seconds, or until an event is set.
    """
    chosen: dict[str, Any] = {"retry": SOON, "name": "plain"} | options

    async def on_loop(number: int) -> None:
        ground.seen.append(number)
        pause = body(number)
        if isinstance(pause, threading.Event):
            while not pause.is_set():  # noqa: ASYNC110 - the same event as for a thread
                await asyncio.sleep(0.01)
        elif pause:
            await asyncio.sleep(pause)

    def in_thread(number: int) -> None:
        ground.seen.append(number)
        pause = body(number)
        if isinstance(pause, threading.Event):
            pause.wait(60)
        elif pause:
            time.sleep(pause)

    function: Any = on_loop if ground.kind == "async" else in_thread
    return ground.app.job(**chosen)(function)


async def put(ground: Ground, calls: list[Any], key: str = "k") -> Numbered:
    chains = await ground.client.enqueue_many(calls, partition_key=key)
    return Numbered(ground, [str(chain.id) for chain in chains])


async def put_plain(ground: Ground, count: int, body: Body, **options: Any) -> Numbered:
    handle = plain(ground, body, **options)
    return await put(ground, [handle.call(number=number) for number in range(count)], options.get("name", "k"))


def once(action: Callable[[], float | None], at: int) -> Callable[[int], float | None]:
    """The first time that the job with this number runs."""
    done: list[int] = []

    def body(number: int) -> float | None:
        if number == at and not done:
            done.append(number)
            return action()
        return None

    return body


def raising(error: BaseException) -> Callable[[], float | None]:
    def action() -> float | None:
        raise error

    return action


async def test_a_run_is_started_one_by_one(live_ground: Ground) -> None:
    """Claimed together, in their order, never two at once."""
    at_once: list[int] = []
    most: list[int] = []

    async def body(hand: Hand, number: int) -> None:
        at_once.append(number)
        most.append(len(at_once))
        await hand.pause(0.002)
        at_once.remove(number)
        live_ground.seen.append(number)

    handle = live_ground.job(body)
    jobs = await put(live_ground, [handle.call(number=number) for number in range(20)])
    async with live_ground.app.worker(config=QUICK):
        await jobs.until_ended()
    assert live_ground.seen == list(range(20))
    assert set(most) == {1}
    assert len(set(jobs.column("last_attempt_at"))) < 20


async def test_runs_are_longer_than_there_are_slots(live_ground: Ground) -> None:
    """One slot is enough for all of a key: the first claim, for one job, brings others along."""
    jobs = await put_plain(live_ground, 60, lambda _: None)
    async with live_ground.app.worker(config=replace(QUICK, concurrency=1)):
        await jobs.until_ended()
    assert live_ground.seen == list(range(60))
    claims = jobs.column("last_attempt_at")
    assert claims[0] == claims[1]


async def test_a_failure_is_not_waited_for_longer_than_it_asks(live_ground: Ground) -> None:
    """Whoever claimed the run looks when the key is free, which is when the last of those behind it has gone back."""
    failed: set[int] = set()

    def body(number: int) -> float | None:
        if number % 4 == 3 and number not in failed:
            failed.add(number)
            raise ValueError("no")
        return None

    jobs = await put_plain(live_ground, 40, body)
    async with live_ground.app.worker(config=replace(QUICK, poll=timedelta(seconds=30))):
        began = time.monotonic()
        await jobs.until_ended()
    assert time.monotonic() - began < 15  # one poll would take longer
    assert sorted(set(live_ground.seen)) == list(range(40))
    assert [number for number in live_ground.seen if number % 4 != 3] == [n for n in range(40) if n % 4 != 3]


ENDINGS: dict[str, tuple[Callable[[], float | None], list[int]]] = {
    "failure": (raising(ValueError("no")), [3, 3]),
    "snooze": (raising(Snooze(0.05)), [3, 3]),
    "dead letter": (raising(DeadLetter("no")), [3]),
    "cancel": (raising(Cancel("no")), [3]),
    "timeout": (lambda: 0.5, [3, 3]),
}


@pytest.mark.parametrize("ending", ENDINGS)
async def test_a_run_stops_at_a(live_ground: Ground, ending: str) -> None:
    """Those behind it go back, are not charged for it, and run later in their order."""
    action, expected = ENDINGS[ending]
    timeout = {"timeout": timedelta(seconds=0.2)} if ending == "timeout" else {}
    jobs = await put_plain(live_ground, 8, once(action, at=3), **timeout)
    async with live_ground.app.worker(config=QUICK):
        ended = await jobs.until_ended(completed=8 if len(expected) > 1 else 7)
    assert live_ground.seen == [0, 1, 2, *expected, 4, 5, 6, 7]
    assert [job.attempt for job in ended[4:]] == [1] * 4
    assert [job.attempt for job in ended[:3]] == [1] * 3


async def test_a_run_stops_where_a_chain_goes_on(live_ground: Ground) -> None:
    """The next job of the chain takes its place, before those behind it."""
    handle = plain(live_ground, lambda number: None)

    async def relay(hand: Hand, number: int) -> None:
        live_ground.seen.append(number)
        return await hand.continue_with(handle.call(number=number + 100))  # type: ignore[no-any-return]  # a hand is untyped

    relayed = live_ground.job(relay)
    calls = [(relayed if number == 2 else handle).call(number=number) for number in range(6)]
    jobs = await put(live_ground, calls)
    async with live_ground.app.worker(config=QUICK):
        await jobs.until_ended()
    assert live_ground.seen == [0, 1, 2, 102, 3, 4, 5]


async def test_a_context_comes_after_what_is_in_front_is_written(live_ground: Ground) -> None:
    """A handler that can write for itself must not be ahead of it."""
    found: list[set[str]] = []

    async def body(hand: Hand, number: int) -> None:
        found.append(set(look(live_ground, f"SELECT status FROM {{job}} WHERE partition_seq < {_place(hand)}")))

    def _place(hand: Hand) -> int:
        query = f"SELECT partition_seq FROM {{job}} WHERE id = '{hand.ctx.job.id}'"
        return int(look(live_ground, query)[0])

    handle = live_ground.job(body)
    other = plain(live_ground, lambda number: None)
    jobs = await put(live_ground, [(handle, other)[number % 3 > 0].call(number=number) for number in range(12)])
    async with live_ground.app.worker(config=QUICK):
        await jobs.until_ended()
    assert found == [set(), *[{"completed"}] * 3]


async def test_an_own_completion_keeps_the_order(live_ground: Ground) -> None:
    """By a handler in its own transaction, between others that the worker completes."""

    async def body(hand: Hand, number: int) -> None:
        live_ground.seen.append(number)
        async with hand.connection() as connection:
            await connection.write(number)
            await hand.complete(None, tx=connection.tx)
            await hand.pause(0.01)
            await connection.commit()

    handle = live_ground.job(body)
    other = plain(live_ground, lambda number: None)
    jobs = await put(live_ground, [(handle, other)[number % 3 > 0].call(number=number) for number in range(12)])
    async with live_ground.app.worker(config=QUICK):
        await jobs.until_ended()
    assert live_ground.seen == list(range(12))
    assert live_ground.orders() == [0, 3, 6, 9]
    finished = jobs.column("finished_at")
    assert finished == sorted(finished)


async def test_one_that_is_completed_from_outside_while_it_runs(live_ground: Ground) -> None:
    """Those behind it go back and are run."""
    is_open = asyncio.Event()

    def body(number: int) -> float | None:
        return 1.0 if number == 1 and not is_open.is_set() else None

    jobs = await put_plain(live_ground, 5, body)
    async with live_ground.app.worker(config=QUICK):
        await jobs.until_seen(2)
        await live_ground.client.complete_job(jobs.ids[1])
        is_open.set()
        await jobs.until_ended()
    assert live_ground.seen == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("lost", [1, 2, 4])
async def test_one_that_is_taken_back(live_ground: Ground, lost: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it runs, or while it waits behind one that runs: it is run again before those that come after it."""
    # Those behind a job that takes long go back for that alone.
    monkeypatch.setattr(fetcher, "_STALL_SECONDS", 600)
    gate = threading.Event()
    jobs = await put_plain(live_ground, 5, lambda number: gate if number == 1 else None)
    async with live_ground.app.worker(config=QUICK):
        await jobs.until_seen(2)
        live_ground.sql(
            "UPDATE {job} SET status = 'pending', leased_by = NULL, leased_until = NULL WHERE id = :id",
            id=jobs.ids[lost],
        )
        await live_ground.until(lambda: set(jobs.statuses()[lost + 1 :]) <= {"pending"})
        await asyncio.sleep(5 * QUICK.renew.total_seconds())  # where none is behind it, the worker alone hears of it
        gate.set()
        await jobs.until_ended()
    assert live_ground.seen == ([0, 1, 1, 2, 3, 4] if lost == 1 else [0, 1, 2, 3, 4])


async def test_one_that_waits_is_cancelled(live_ground: Ground) -> None:
    """It is not run; those behind it are."""
    gate = threading.Event()
    jobs = await put_plain(live_ground, 5, lambda number: gate if number == 1 else None)
    async with live_ground.app.worker(config=QUICK):
        await jobs.until_seen(2)
        await live_ground.client.cancel(jobs.ids[3])
        await live_ground.until_status(jobs.ids[3], "cancelled")
        gate.set()
        await jobs.until_ended(completed=4)
    assert live_ground.seen == [0, 1, 2, 4]


@pytest.mark.parametrize("at", [1, 4])
async def test_a_worker_stops_in_the_middle(live_ground: Ground, at: int) -> None:
    """What runs is finished, what waits goes back at once; the next worker goes on where this one stopped."""
    jobs = await put_plain(live_ground, 9, lambda number: 0.5 if number == at else None)
    async with live_ground.app.worker(config=QUICK):
        await jobs.until_seen(at + 1)
    assert live_ground.seen == list(range(at + 1))
    assert jobs.statuses() == ["completed"] * (at + 1) + ["pending"] * (8 - at)
    assert jobs.column("attempt")[at + 1 :] == [0] * (8 - at)
    async with live_ground.app.worker(config=QUICK):
        await jobs.until_ended()
    assert live_ground.seen == list(range(9))


async def test_two_workers_share_keys(live_ground: Ground) -> None:
    """Each key in its order, whoever has it."""
    handle = plain(live_ground, lambda number: 0.001 if number % 7 else None)
    for number in range(60):
        await live_ground.client.enqueue(handle.call(number=number), partition_key=f"k{number % 3}")
    async with live_ground.app.worker(config=QUICK), live_ground.app.worker(config=QUICK):
        await live_ground.until(
            lambda: look(live_ground, "SELECT count(*) FROM {job} WHERE status = 'completed'") == [60]
        )
    for key in range(3):
        assert [number for number in live_ground.seen if number % 3 == key] == list(range(key, 60, 3))


async def test_a_batch_has_one_of_each_key(live_ground: Ground) -> None:
    """The order of a key is the order of calls."""

    async def on_loop(batch: Batch[int]) -> None:
        live_ground.seen.append([item.input for item in batch])

    def in_thread(batch: SyncBatch[int]) -> None:
        live_ground.seen.append([item.input for item in batch])

    function: Any = on_loop if live_ground.kind == "async" else in_thread
    handle = live_ground.app.job(name="index", batch=10)(function)
    for number in range(24):
        await live_ground.client.enqueue(handle.call(number), partition_key=f"k{number % 4}")
    async with live_ground.app.worker(config=QUICK):
        await live_ground.until(
            lambda: look(live_ground, "SELECT count(*) FROM {job} WHERE status = 'completed'") == [24]
        )
    assert all(len({number % 4 for number in call}) == len(call) for call in live_ground.seen)
    numbers = [number for call in live_ground.seen for number in call]
    for key in range(4):
        assert [number for number in numbers if number % 4 == key] == list(range(key, 24, 4))


@pytest.mark.parametrize("kind", ["thread"])
async def test_processes_keep_the_order(live_ground: Ground, tmp_path: Path) -> None:
    """Each is started when the one before it is written."""
    app: App = live_ground.app
    app.adopt(process_jobs.app)
    notes = tmp_path / "notes"
    jobs = await put(live_ground, [process_jobs.appends.call(str(notes), number) for number in range(10)])
    async with app.worker(config=replace(QUICK, concurrency=3)):
        await jobs.until_ended()
    assert [int(line) for line in notes.read_text().split()] == list(range(10))


async def test_long_jobs_are_not_claimed_in_long_runs(live_ground: Ground) -> None:
    """When it is known how long they take, one at a time, so that others may have the rest."""
    jobs = await put_plain(live_ground, 18, lambda _: 0.1)
    async with live_ground.app.worker(config=QUICK):
        await jobs.until_seen(14)
        assert jobs.statuses().count("running") <= 1
        await jobs.until_ended()
    assert live_ground.seen == list(range(18))


async def test_long_runs_of_few_keys_rather_than_short_ones_of_all(
    live_ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim that took all keys and had room for no more is followed by narrower ones: those find something."""
    monkeypatch.setattr(lines, "_DEPTH", 10)  # which is not too long while nobody knows how long jobs take
    claims: list[tuple[int, int]] = []

    def noted(worker_id: str, lanes: Any, limit: int, *arguments: Any, **options: Any) -> Any:
        claimed = yield from claim_jobs(worker_id, lanes, limit, *arguments, **options)
        claims.append((limit, len(claimed)))
        return claimed

    monkeypatch.setattr(fetcher, "claim_jobs", noted)
    handle = plain(live_ground, lambda _: None)
    calls = [handle.call(number=number).options(partition_key=f"k{number % 60}") for number in range(1_200)]
    await live_ground.client.enqueue_many(calls)
    async with live_ground.app.worker(config=replace(QUICK, concurrency=100, batch=300)):
        await live_ground.until(
            lambda: look(live_ground, "SELECT count(*) FROM {job} WHERE status = 'completed'") == [1_200]
        )
    assert claims[0] == (100, 300)
    assert claims[1][0] <= 30
    for key in range(60):
        assert [number for number in live_ground.seen if number % 60 == key] == list(range(key, 1_200, 60))


@ON_POSTGRES
async def test_a_locked_row_in_the_middle(live_ground: Ground) -> None:
    """Nothing behind it is written before it, not even what was on its way when it was found locked."""
    jobs = await put_plain(live_ground, 40, lambda number: 0.1 if number == 0 else 0.001)
    with psycopg.connect(live_ground.url) as connection:
        async with live_ground.app.worker(config=replace(QUICK, concurrency=40)) as worker:
            await jobs.until_seen(1)
            run = jobs.statuses().count("running")
            assert run > 5
            connection.execute(f"SELECT 1 FROM holdfast.job WHERE id = '{jobs.ids[2]}' FOR UPDATE".encode())
            await jobs.until_seen(run)
            await live_ground.until(lambda: jobs.statuses()[:2] == ["completed"] * 2)
            await asyncio.sleep(0.3)  # several rounds of writing
            assert jobs.statuses()[:run] == ["completed"] * 2 + ["running"] * (run - 2)
            assert worker.finished == 2
            connection.rollback()
            await jobs.until_ended()
    assert live_ground.seen == list(range(40))


async def test_nothing_is_remembered_of_runs_that_are_over(live_ground: Ground) -> None:
    """Of those that were finished, broken off, taken back, and given back because the slots were not free."""
    jobs = await put_plain(live_ground, 30, once(raising(ValueError("no")), at=7))
    long = await put_plain(live_ground, 5, lambda _: 0.7, name="long")
    async with live_ground.app.worker(config=QUICK) as worker:
        engine = worker._engine
        assert engine is not None
        await jobs.until_seen(3)
        live_ground.sql(
            "UPDATE {job} SET status = 'pending', leased_by = NULL, leased_until = NULL WHERE id = :id",
            id=long.ids[2],
        )
        await jobs.until_ended()
        await long.until_ended()
        await live_ground.until(lambda: not engine.outcomes._lines)
        assert engine.slots._buffer.lines._lines == {}
