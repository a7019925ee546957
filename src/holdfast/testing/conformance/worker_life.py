"""register_worker, heartbeat, retire_worker, forget_workers: who is alive."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from typing import Any

from holdfast.operations.worker_life import (
    WorkerIdentity,
    forget_workers,
    heard_steadily,
    heartbeat,
    register_worker,
    retire_worker,
)
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import DEAD_AFTER, Harness

CASES = Cases("worker_life")

_W1 = WorkerIdentity(id="w1", version="1.2.3", queues=["mail", "naïve ✓"], metadata={"host": "a", "pid": 7})
_DAY = timedelta(days=1)


async def _beat(h: Harness, identity: WorkerIdentity = _W1, *, is_draining: bool = False) -> None:
    await h.run(lambda: heartbeat(identity, DEAD_AFTER, is_draining=is_draining))


async def _forget(h: Harness) -> list[str]:
    return await h.run(lambda: forget_workers(DEAD_AFTER))


def _status(h: Harness, worker: str = "w1") -> Any:
    rows = h.sql("SELECT status FROM {worker} WHERE id = :id", id=worker)
    return rows[0][0] if rows else None


@CASES
async def register_says_who_lives(h: Harness) -> None:
    """Version, queues and metadata are there for others to read."""
    await h.run(lambda: register_worker(_W1))
    text = "SELECT id, status, version, CAST(queues AS text), CAST(metadata AS text) FROM {worker}"
    assert h.sql(text) == [("w1", "alive", "1.2.3", '["mail","naïve ✓"]', '{"host":"a","pid":7}')]


@CASES
async def register_again_replaces(h: Harness) -> None:
    """The same worker registers anew: one row, alive, with what it says now."""
    await h.run(lambda: register_worker(_W1))
    h.sql("UPDATE {worker} SET status = 'dead'")
    await h.run(lambda: register_worker(WorkerIdentity(id="w1", version="2.0", queues=["other"])))
    assert h.sql("SELECT status, version, CAST(queues AS text) FROM {worker}") == [("alive", "2.0", '["other"]')]


@CASES
async def heartbeat_keeps_alive(h: Harness) -> None:
    """Whoever is heard in time is not forgotten; whoever is not, is marked dead, once."""
    await h.register("w1", "w2")
    for _ in range(5):
        h.clock.advance(DEAD_AFTER * 0.75)
        await _beat(h)
        dead = await _forget(h)
        assert "w1" not in dead
    assert (_status(h, "w1"), _status(h, "w2")) == ("alive", "dead")
    assert await _forget(h) == []


@CASES
async def dead_at_the_limit_not_before(h: Harness) -> None:
    """Silent for exactly the limit is alive; a millisecond more is not."""
    await h.register("w1")
    h.clock.advance(DEAD_AFTER)
    assert await _forget(h) == []
    h.clock.advance(timedelta(milliseconds=1))
    assert await _forget(h) == ["w1"]


@CASES
async def dead_worker_comes_back(h: Harness) -> None:
    """A worker that was only slow is alive again with its next heartbeat."""
    await h.register("w1")
    h.clock.advance(DEAD_AFTER * 2)
    await _forget(h)
    await _beat(h)
    assert _status(h) == "alive"
    h.clock.advance(DEAD_AFTER * 2)
    assert await _forget(h) == ["w1"]


@CASES
async def heartbeat_without_a_row_registers(h: Harness) -> None:
    """A worker whose row was cleaned up makes itself known again, with all it said before."""
    await _beat(h)
    assert h.sql("SELECT id, status, version FROM {worker}") == [("w1", "alive", "1.2.3")]


@CASES
async def draining_is_shown(h: Harness) -> None:
    """A worker that is stopping says so, and is still alive for the reaper's limit."""
    await h.register("w1")
    await _beat(h, is_draining=True)
    assert _status(h) == "draining"
    h.clock.advance(DEAD_AFTER * 2)
    assert await _forget(h) == ["w1"]


@CASES
async def retire_removes_the_row(h: Harness) -> None:
    """Gone in good order, without a trace; a second time is harmless; others stay."""
    await h.register("w1", "w2")
    for _ in range(2):
        await h.run(lambda: retire_worker("w1"))
        assert (_status(h, "w1"), _status(h, "w2")) == (None, "alive")


@CASES
async def the_long_dead_are_dropped(h: Harness) -> None:
    """A day after it was last seen, a dead worker that holds nothing is removed with its prefetch marks."""
    await h.register("w1")
    await h.put()
    (claimed,) = await h.claim(worker="w1", prefetch=True)
    h.clock.advance(DEAD_AFTER * 2)
    await _forget(h)
    await h.reap()
    await h.claim(worker="w9")
    h.clock.advance(_DAY - DEAD_AFTER * 3)
    await _forget(h)
    assert _status(h) == "dead"
    h.clock.advance(DEAD_AFTER * 4)
    await _forget(h)
    assert _status(h) is None
    assert h.count("prefetch") == 0
    assert claimed.claimed_at is not None


@CASES
async def the_dead_that_hold_jobs_are_kept(h: Harness) -> None:
    """A dead worker's row and marks stay while it still holds a job: the reaper needs them."""
    await h.register("w1")
    await h.put()
    await h.claim(worker="w1", prefetch=True)
    h.clock.advance(_DAY * 3)
    await _forget(h)
    await _forget(h)
    assert _status(h) == "dead"
    assert h.count("prefetch") == 1


@CASES
async def marks_of_the_retired_are_dropped(h: Harness) -> None:
    """A worker that retired after giving back its prefetched jobs leaves no mark for ever."""
    await h.register("w1")
    await h.put()
    (claimed,) = await h.claim(worker="w1", prefetch=True)
    from holdfast.testing.conformance.harness import lease_of

    await h.release(lease_of(claimed))
    await h.run(lambda: retire_worker("w1"))
    h.clock.advance(_DAY * 2)
    await _forget(h)
    assert h.count("prefetch") == 0


@CASES
async def marks_of_the_living_are_kept(h: Harness) -> None:
    """A mark of a worker that is alive stays, however old."""
    await h.register("w1")
    await h.put()
    await h.claim(worker="w1", prefetch=True)
    h.clock.advance(_DAY * 2)
    await _beat(h)
    await _forget(h)
    assert h.count("prefetch") == 1


@CASES
async def racing_forgetters_report_once(h: Harness) -> None:
    """Race: of several workers that notice a death, one reports it."""
    stores = h.neighbours(5)
    for number in range(10):
        await h.register(f"gone-{number}")
        h.clock.advance(DEAD_AFTER * 2)
        answers = await asyncio.gather(*(store.run(lambda: forget_workers(DEAD_AFTER)) for store in stores))
        assert sorted(worker for answer in answers for worker in answer) == [f"gone-{number}"]


async def _is_steady(h: Harness) -> bool:
    return await h.run(lambda: heard_steadily(DEAD_AFTER))


@CASES
async def steady_after_the_limit_not_before(h: Harness) -> None:
    """One worker, heard all the time, shows that the database could be reached: for exactly as long as the limit."""
    assert not await _is_steady(h)
    await h.register("w1")
    for _ in range(4):
        assert not await _is_steady(h)
        h.clock.advance(DEAD_AFTER / 4)
        await _beat(h)
    assert await _is_steady(h)


@CASES
async def steady_by_turns(h: Harness) -> None:
    """Workers that live for a shorter time than the limit, some left and some killed, show it together."""
    for turn in range(5):
        identity = WorkerIdentity(id=f"turn{turn}", version="1", queues=[])
        await h.run(partial(register_worker, identity))
        assert await _is_steady(h) == (turn == 4), turn
        if turn % 2:
            await h.run(partial(retire_worker, identity.id))
        h.clock.advance(DEAD_AFTER / 4)


@CASES
async def not_steady_with_a_gap(h: Harness) -> None:
    """After a gap nobody can judge, neither by those from before it nor with one that has just begun."""
    await _be_steady(h)
    h.clock.advance(DEAD_AFTER / 2 + timedelta(milliseconds=1))
    assert not await _is_steady(h)
    await h.register("w2")
    assert not await _is_steady(h)
    await _beat(h)
    for _ in range(3):
        h.clock.advance(DEAD_AFTER / 4)
        await _beat(h)
        assert not await _is_steady(h)
    h.clock.advance(DEAD_AFTER / 4)
    assert await _is_steady(h)


@CASES
async def steady_with_short_gaps(h: Harness) -> None:
    """Half of the limit is not a gap: whoever lives has been heard by then."""
    await _be_steady(h)
    h.clock.advance(DEAD_AFTER / 2)
    assert await _is_steady(h)
    await h.register("w2")
    assert await _is_steady(h)


@CASES
async def retired_are_remembered_for_an_hour(h: Harness) -> None:
    """That they were heard is worth something for `dead_after`, so they need not pile up."""
    await h.register("w1", "w2")
    await h.run(lambda: retire_worker("w1"))
    await h.run(lambda: retire_worker("w1"))
    assert h.sql("SELECT worker_id FROM {retired}") == [("w1",)]
    h.clock.advance(timedelta(hours=1, milliseconds=1))
    await h.run(lambda: retire_worker("w2"))
    assert h.sql("SELECT worker_id FROM {retired}") == [("w2",)]
    await h.run(lambda: retire_worker("nobody"))
    assert h.count("retired") == 0


async def _be_steady(h: Harness) -> None:
    await h.register("w1")
    for _ in range(4):
        h.clock.advance(DEAD_AFTER / 4)
        await _beat(h)
    assert await _is_steady(h)
