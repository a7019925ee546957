"""Retention by itself: the leader removes what has had its time, and holds up nobody."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from holdfast import JobFilter, Keep
from holdfast.errors import JobNotFound
from holdfast.worker.maintenance import pruner
from tests.conformance.worker.conftest import BRISK, Ground, Hand


async def test_nothing_is_kept(live_ground: Ground) -> None:
    """With 0, a chain goes within seconds of its end, without anybody asking; others stay."""

    async def fleeting(hand: Hand) -> None: ...

    async def lasting(hand: Hand) -> None: ...

    gone = await live_ground.put(live_ground.job(fleeting, keep=0))
    kept = await live_ground.put(live_ground.job(lasting))

    async def is_gone() -> bool:
        try:
            await live_ground.get(gone)
        except JobNotFound:
            return True
        return False

    async with live_ground.app.worker(config=BRISK):
        await live_ground.until(is_gone, 60)
        await live_ground.until_status(kept, "completed")


async def test_workers_go_on_meanwhile(live_ground: Ground) -> None:
    """Thousands go while jobs run: each of these is completed, and none runs twice."""

    async def old(hand: Hand) -> None: ...

    async def work(hand: Hand, n: int) -> None:
        hand.ground.seen.append(n)

    ancient, running = live_ground.job(old, keep=Keep(cancelled=0)), live_ground.job(work)
    client = live_ground.client
    await client.enqueue_many([ancient.call() for _ in range(5000)])
    await client.cancel(JobFilter(type_name="old"))

    async def is_over() -> bool:
        unfinished = await client.list_jobs(status=["pending", "running"], limit=1)
        left = await client.list_jobs(type_name="old", limit=1)
        return not unfinished.items and not left.items

    async with live_ground.app.worker(config=BRISK):
        await client.enqueue_many([running.call(n=n) for n in range(500)])
        await live_ground.until(is_over, 90)
    assert sorted(live_ground.seen) == list(range(500))


@contextmanager
def referring(ground: Ground) -> Iterator[None]:
    """Rows of the application refer to every job that there is."""
    id_type = "text" if ground.app.store.dialect == "sqlite" else "uuid"
    ground.sql(f"CREATE TABLE note (job_id {id_type} REFERENCES {{job}} (id))")
    try:
        ground.sql("INSERT INTO note SELECT id FROM {job}")
        yield
    finally:
        ground.sql("DROP TABLE note")


async def fleeting(hand: Hand) -> None: ...


async def cancelled(ground: Ground, count: int) -> None:
    """So many chains whose time has come; nothing else ever goes."""
    for status, keep in (("completed", "forever"), ("dead_letter", "forever"), ("cancelled", 0)):
        await ground.client.settings.set(f"keep_{status}", keep)
    if "fleeting" not in ground.app.job_types:
        ground.job(fleeting)
    await ground.client.enqueue_many([ground.app.call("fleeting") for _ in range(count)])
    await ground.client.cancel(JobFilter(status="pending"))
    assert ground.clock is not None
    ground.clock.advance(60)


async def test_what_cannot_go_is_passed_by(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Rounds that are too short for a page go on within it; each says what stays by a count and one example."""
    monkeypatch.setattr(pruner, "_ROUND_SECONDS", 0)
    await cancelled(ground, 8)
    store = ground.app.store.asynchronous()
    done: Counter[str] = Counter()
    try:
        with referring(ground):
            await cancelled(ground, 1)
            service = pruner.Pruner(store)
            for _ in range(40):
                done.update(await service.run_once())
    finally:
        await store.close()
    assert (done["removed"], done["referenced"]) == (1, 8)
    said = [record.getMessage() for record in caplog.records if "refer to" in record.getMessage()]
    assert len(said) == 8
    assert all(re.fullmatch(r"1 chains .* one is [0-9a-f-]{36}", line) for line in said)


async def test_what_is_due_goes_first(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the pruner looks back at what it passed by, however much that is, nobody waits for that."""
    await cancelled(ground, 8)
    store = ground.app.store.asynchronous()
    done: Counter[str] = Counter()
    try:
        with referring(ground):
            service = pruner.Pruner(store)
            assert (await service.run_once())["referenced"] == 8
            assert (await service.run_once())["referenced"] == 0
            monkeypatch.setattr(pruner, "_ROUND_SECONDS", 0)
            monkeypatch.setattr(pruner, "_LOOK_BACK_SECONDS", -1)
            for _ in range(4):
                assert (await service.run_once())["removed"] == 0
            await cancelled(ground, 1)
            for _ in range(4):
                done.update(await service.run_once())
            assert (done["removed"], done["referenced"] < 8) == (1, True)
            for _ in range(40):
                done.update(await service.run_once())
            assert (done["removed"], done["referenced"] >= 8) == (1, True)
    finally:
        await store.close()


async def test_the_record_goes_when_it_is_said_to(ground: Ground) -> None:
    """After a year; an operator's word is heard without a restart."""
    ground.sql("DELETE FROM {audit}")
    await cancelled(ground, 3)
    ((before,),) = ground.sql("SELECT count(*) FROM {audit}")
    assert ground.clock is not None
    ground.clock.advance(timedelta(days=366))
    await ground.client.settings.set("keep_audit", "forever")
    store = ground.app.store.asynchronous()
    try:
        service = pruner.Pruner(store)
        assert (await service.run_once())["entries"] == 0
        await ground.client.settings.unset("keep_audit")
        assert (await service.run_once())["entries"] == before
        assert (await service.run_once())["entries"] == 0
    finally:
        await store.close()
