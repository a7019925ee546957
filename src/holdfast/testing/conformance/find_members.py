"""find_members: who shares the buckets of a queue."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from holdfast.operations.find_members import find_members
from holdfast.operations.worker_life import WorkerIdentity, forget_workers, heartbeat, register_worker, retire_worker
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import DEAD_AFTER, Harness

CASES = Cases("find_members")


def _identity(worker: str, *queues: str, affinity: object = "ring") -> WorkerIdentity:
    return WorkerIdentity(id=worker, version="1", queues=queues, metadata={"host": "db-7", "affinity": affinity})


async def _join(h: Harness, worker: str, *queues: str, affinity: object = "ring") -> None:
    await h.run(lambda: register_worker(_identity(worker, *queues, affinity=affinity)))


async def _members(h: Harness) -> Mapping[str, set[str]]:
    found = await h.run(lambda: find_members(DEAD_AFTER), read_only=True)
    return {queue: set(workers) for queue, workers in found.items()}


@CASES
async def nobody_there(h: Harness) -> None:
    """No rings at all."""
    assert await _members(h) == {}


@CASES
async def each_queue_has_its_own(h: Harness) -> None:
    """A worker is on the rings of the queues that it serves, and on no other."""
    await _join(h, "w1", "mail", "naïve ✓")
    await _join(h, "w2", "mail")
    await _join(h, "w3", "other")
    assert await _members(h) == {"mail": {"w1", "w2"}, "naïve ✓": {"w1"}, "other": {"w3"}}


@CASES
async def only_those_who_want_to_share(h: Harness) -> None:
    """Neither workers with another affinity, nor such as have not heard of it."""
    await _join(h, "w1", "default")
    await _join(h, "w2", "default", affinity="any")
    await _join(h, "w3", "default", affinity=None)
    await h.register("w4")
    assert await _members(h) == {"default": {"w1"}}


@CASES
async def silent_at_the_limit_not_before(h: Harness) -> None:
    """As for the reaper: silent for exactly the limit is heard; a millisecond more is not, whoever has noticed it."""
    await _join(h, "w1", "mail")
    h.clock.advance(DEAD_AFTER / 2)
    await _join(h, "w2", "mail")
    h.clock.advance(DEAD_AFTER / 2)
    assert await _members(h) == {"mail": {"w1", "w2"}}
    h.clock.advance(timedelta(milliseconds=1))
    assert await _members(h) == {"mail": {"w2"}}


@CASES
async def back_again(h: Harness) -> None:
    """Whoever paused, and was marked dead, takes part again with its next heartbeat."""
    await _join(h, "w1", "mail")
    h.clock.advance(DEAD_AFTER * 2)
    await h.run(lambda: forget_workers(DEAD_AFTER))
    assert await _members(h) == {}
    await h.run(lambda: heartbeat(_identity("w1", "mail"), DEAD_AFTER, is_draining=False))
    assert await _members(h) == {"mail": {"w1"}}


@CASES
async def not_the_draining_nor_the_dead_nor_the_gone(h: Harness) -> None:
    """They own nothing new, though the draining are still heard."""
    for worker in ("w1", "w2", "w3", "w4"):
        await _join(h, worker, "mail")
    await h.run(lambda: heartbeat(_identity("w1", "mail"), DEAD_AFTER, is_draining=True))
    h.sql("UPDATE {worker} SET status = 'dead' WHERE id = 'w2'")
    await h.run(lambda: retire_worker("w3"))
    assert await _members(h) == {"mail": {"w4"}}
