"""limit_queue: what people allow of a queue, as it is kept and shown."""

from __future__ import annotations

import json

from holdfast.model.queue import QueueLimits, QueueSettings, ResumeTime
from holdfast.operations.limit_queue import limit_queue
from holdfast.operations.pause_queue import pause_queue, resume_queue
from holdfast.operations.queue_settings import read_queues
from holdfast.operations.stats import list_queues
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import Harness

CASES = Cases("limit_queue")


async def _limit(h: Harness, limits: QueueLimits, queue: str = "default", actor: str | None = None) -> QueueSettings:
    return await h.run(lambda: limit_queue(queue, limits, actor))


@CASES
async def limits_replace_limits(h: Harness) -> None:
    """What is set last holds, and nothing of what was set before."""
    assert await _limit(h, QueueLimits(5, 2.5, 10)) == QueueSettings(name="default", concurrency=5, rate=2.5, burst=10)
    assert await _limit(h, QueueLimits(7)) == QueueSettings(name="default", concurrency=7)
    assert await _limit(h, QueueLimits(None, 0.3, 1)) == QueueSettings(name="default", rate=0.3, burst=1)
    assert await _limit(h, QueueLimits()) == QueueSettings(name="default")
    assert await h.run(read_queues, read_only=True) == []


@CASES
async def pauses_and_limits_leave_each_other_alone(h: Harness) -> None:
    """Each verb changes its own."""
    await _limit(h, QueueLimits(5))
    paused = await h.run(lambda: pause_queue("default", ResumeTime(), None, None))
    assert (paused.concurrency, paused.paused_at) == (5, h.now)
    limited = await _limit(h, QueueLimits(6))
    assert (limited.concurrency, limited.paused_at) == (6, h.now)
    resumed, _ = await h.run(lambda: resume_queue("default", None))
    assert resumed == QueueSettings(name="default", concurrency=6)


@CASES
async def it_is_on_record(h: Harness) -> None:
    """Who, which queue, and which limits."""
    await _limit(h, QueueLimits(5, 2.5, 10), "mail", "ada")
    ((actor, verb, outcome, detail),) = h.sql("SELECT actor, verb, outcome, CAST(detail AS text) FROM {audit}")
    assert (actor, verb, outcome) == ("ada", "limit_queue", "limited")
    assert json.loads(detail) == {"queue": "mail", "concurrency": 5, "rate": 2.5, "burst": 10}


@CASES
async def queues_are_listed_with_what_holds_for_them(h: Harness) -> None:
    """Also those that have neither jobs nor workers; and a queue without settings is listed without."""
    await h.put(2)
    await _limit(h, QueueLimits(5, 2.5, 10), "mail")
    await h.run(lambda: pause_queue("default", ResumeTime(), "ada", "deploy"))
    first, second = await h.run(list_queues, read_only=True)
    assert (first.name, first.ready, first.paused_at, first.paused_by, first.pause_reason) == (
        *("default", 2, h.now),
        *("ada", "deploy"),
    )
    assert (second.name, second.ready, second.paused_at) == ("mail", 0, None)
    assert (second.concurrency, second.rate, second.burst) == (5, 2.5, 10)
