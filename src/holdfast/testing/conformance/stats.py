"""count_jobs, keep_stats, read_stats, report_outcomes, list_queues: what operators see without counting everything."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial

from holdfast.model.operating import QueueRecord, ServiceRecord, StateCount, Stats
from holdfast.operations.cancel_jobs import cancel_jobs
from holdfast.operations.control import Orders
from holdfast.operations.leadership import acquire_leadership
from holdfast.operations.stats import (
    KEEP_MINUTES,
    KEEP_THROUGHPUT,
    STALE,
    OutcomeCount,
    count_jobs,
    keep_stats,
    list_queues,
    read_stats,
    report_outcomes,
)
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import DEAD_AFTER, Harness, lease_of

CASES = Cases("stats")

_HOUR = timedelta(hours=1)
_MINUTE = timedelta(minutes=1)
Seen = dict[tuple[str, str, str], tuple[int, bool, float | None]]


def _seen(counts: list[StateCount]) -> Seen:
    return {(c.queue, c.type_name, c.state): (c.jobs, c.is_capped, c.oldest_seconds) for c in counts}


async def _count(h: Harness, cap: int = 1000) -> Seen:
    return _seen(await h.run(lambda: count_jobs(cap), read_only=True))


async def _keep(h: Harness, *, worker: str = "w1", term: int = 1) -> bool:
    counts = await h.run(count_jobs, read_only=True)
    return await h.run(lambda: keep_stats(worker, term, counts))


async def _lead(h: Harness, worker: str = "w1") -> None:
    assert await h.run(lambda: acquire_leadership(worker, _HOUR)) is not None


async def _read(h: Harness, within: timedelta = _HOUR) -> Stats:
    return await h.run(lambda: read_stats(within), read_only=True)


@CASES
async def an_empty_database(h: Harness) -> None:
    """Nothing to count, nothing kept, no queue."""
    assert await _count(h) == {}
    assert await _read(h) == Stats(counts=[], throughput=[], age_seconds=0)
    assert await h.run(list_queues, read_only=True) == []


@CASES
async def every_state_by_queue_and_type(h: Harness) -> None:
    """Ready and scheduled, held, blocked, running and dead; what has finished otherwise is not counted."""
    await h.put(3, type_name="sum")
    await h.put(2, type_name="report", priority=-5)
    await h.put(2, queue="mail", at=h.now + _HOUR)
    await h.put(1, queue="held")
    h.sql("UPDATE {job} SET held = true WHERE queue = 'held'")
    await h.put(1, queue="blocked")
    h.sql("UPDATE {job} SET status = 'blocked', waiting_for = 1 WHERE queue = 'blocked'")
    await h.put(3, queue="work")
    first, second, third = [lease_of(job) for job in await h.claim(queues=["work"])]
    await h.complete(first)
    await h.fail(second, is_final=True)
    (gone,) = await h.put(1, queue="gone")
    await h.run(lambda: cancel_jobs([gone], Orders()))
    h.clock.advance(10)
    assert third is not None
    assert await _count(h) == {
        ("default", "sum", "ready"): (3, False, 10),
        ("default", "report", "ready"): (2, False, 10),
        ("mail", "sum", "scheduled"): (2, False, None),
        ("held", "sum", "held"): (1, False, 10),
        ("blocked", "sum", "blocked"): (1, False, 10),
        ("work", "sum", "running"): (1, False, 10),
        ("work", "sum", "dead_letter"): (1, False, 10),
    }


@CASES
async def suspects_are_ready(h: Harness) -> None:
    """A job whose worker died waits in another line; it is counted with the others."""
    await h.register("w1")
    await h.put_and_claim(1)
    h.clock.advance(DEAD_AFTER * 2)
    await h.reap()
    h.clock.advance(60)
    await h.put(2)
    ((key, (jobs, is_capped, _)),) = (await _count(h)).items()
    assert (key, jobs, is_capped) == (("default", "sum", "ready"), 3, False)


@CASES
async def counting_ends_at_the_cap(h: Harness) -> None:
    """The number is a lower bound then, and says so; the oldest job is found all the same."""
    await h.put(1, type_name="old", priority=7)
    h.clock.advance(100)
    await h.put(20)
    await h.put(3, queue="small")
    assert await _count(h, cap=5) == {
        ("default", "sum", "ready"): (5, True, 0),
        ("default", "old", "ready"): (1, True, 100),
        ("small", "sum", "ready"): (3, False, 0),
    }
    await h.claim(queues=["default"])
    running = [count for (_, _, state), count in (await _count(h, cap=5)).items() if state == "running"]
    assert sum(jobs for jobs, _, _ in running) == 5
    assert all(is_capped for _, is_capped, _ in running)


@CASES
async def kept_counts_are_read(h: Harness) -> None:
    """As they were, with their age, however the jobs have changed since; ages of jobs go on."""
    await _lead(h)
    await h.put(3)
    h.clock.advance(5)
    assert await _keep(h)
    await h.put(4)
    h.clock.advance(20)
    stats = await _read(h)
    assert _seen(stats.counts) == {("default", "sum", "ready"): (3, False, 25)}
    assert stats.age_seconds == 20


@CASES
async def new_counts_replace_old_ones(h: Harness) -> None:
    """What is no longer there goes, what has changed is changed, what is new comes."""
    await _lead(h)
    await h.put(2, queue="a")
    await h.put(2, queue="b", at=h.now + _HOUR)
    assert await _keep(h)
    await h.claim(queues=["a"])
    await h.put(1, queue="b", at=h.now + _HOUR)
    assert await _keep(h)
    assert _seen((await _read(h)).counts) == {
        ("a", "sum", "running"): (2, False, 0),
        ("b", "sum", "scheduled"): (3, False, None),
    }


@CASES
async def only_the_leader_keeps(h: Harness) -> None:
    """Another worker, an old term, a term that has run out: nothing is written."""
    await h.put()
    assert not await _keep(h)
    await h.run(lambda: acquire_leadership("w1", timedelta(seconds=15)))
    assert not await _keep(h, worker="w2")
    assert not await _keep(h, term=2)
    h.clock.advance(15)
    assert not await _keep(h)
    assert h.count("stats") == 0
    await _lead(h, "w2")
    assert not await _keep(h)
    assert await _keep(h, worker="w2", term=2)


@CASES
async def stale_counts_are_not_believed(h: Harness) -> None:
    """When nobody keeps them any more, they are counted on the spot."""
    await _lead(h)
    await h.put(3)
    assert await _keep(h)
    await h.put(1)
    h.clock.advance(STALE)
    assert (await _read(h)).counts[0].jobs == 3
    h.clock.advance(timedelta(milliseconds=1))
    stats = await _read(h)
    assert (stats.counts[0].jobs, stats.age_seconds) == (4, 0)


@CASES
async def throughput_by_minute(h: Harness) -> None:
    """Reports of one minute add up, by queue and type; others stand beside them."""
    h.clock.now = h.now.replace(second=0, microsecond=0)
    first, second = OutcomeCount("default", "sum", 3, 1), OutcomeCount("mail", "letter", 0, 2)
    await h.run(lambda: report_outcomes([second, first]))
    h.clock.advance(59)
    await h.run(lambda: report_outcomes([first]))
    h.clock.advance(1)
    await h.run(lambda: report_outcomes([first]))
    throughput = (await _read(h)).throughput
    assert [(t.minute, t.queue, t.type_name, t.completed, t.failed) for t in throughput] == [
        (h.now - _MINUTE, "default", "sum", 6, 2),
        (h.now - _MINUTE, "mail", "letter", 0, 2),
        (h.now, "default", "sum", 3, 1),
    ]
    assert len((await _read(h, _MINUTE)).throughput) == 1


@CASES
async def old_throughput_is_dropped(h: Harness) -> None:
    """By whoever keeps the counts, and by nobody else."""
    await h.run(lambda: report_outcomes([OutcomeCount("default", "sum", 3, 1)]))
    h.clock.advance(KEEP_THROUGHPUT + _MINUTE)
    await h.run(lambda: report_outcomes([OutcomeCount("default", "sum", 3, 1)]))
    assert not await _keep(h)
    assert h.count("throughput") == 2
    await _lead(h)
    assert await _keep(h)
    assert h.count("throughput") == 1


@CASES
async def throughput_is_summed_up_by_the_hour(h: Harness) -> None:
    """After a day; an hour that is summed up stays as it is, and nothing is lost or counted twice."""
    await _lead(h)
    for _ in range(3):
        await h.run(lambda: report_outcomes([OutcomeCount("default", "sum", 3, 1), OutcomeCount("mail", "sum", 1)]))
        h.clock.advance(_MINUTE)
    assert await _keep(h)
    assert h.count("throughput") == 6
    h.clock.advance(KEEP_MINUTES + _HOUR)
    await h.run(lambda: report_outcomes([OutcomeCount("default", "sum", 5)]))
    await _lead(h)
    for _ in range(2):
        assert await _keep(h, term=2)
        found = (await h.run(lambda: read_stats(timedelta(days=3)))).throughput
        assert [(each.queue, each.completed, each.failed) for each in found] == [
            ("default", 9, 3),
            ("mail", 3, 0),
            ("default", 5, 0),
        ]
        assert (found[0].minute.minute, found[0].minute.tzinfo is not None) == (0, True)


@CASES
async def services_and_their_last_success(h: Harness) -> None:
    """As the leader reports them; the next leader's take their place."""
    assert (await _read(h)).services == []
    await _lead(h)
    ago = {"reaper": timedelta(seconds=2), "pruner": timedelta(seconds=9)}
    assert await h.run(lambda: keep_stats("w1", 1, [], ago))
    h.clock.advance(5)
    assert (await _read(h)).services == [
        ServiceRecord(name="pruner", worker_id="w1", last_success_seconds=14.0),
        ServiceRecord(name="reaper", worker_id="w1", last_success_seconds=7.0),
    ]
    assert not await h.run(lambda: keep_stats("w2", 1, [], {"reaper": timedelta()}))
    assert await h.run(lambda: keep_stats("w1", 1, [], {"reaper": timedelta()}))
    assert [each.last_success_seconds for each in (await _read(h)).services] == [14.0, 0.0]


@CASES
async def racing_reports_add_up(h: Harness) -> None:
    """Race: what many workers report at the same moment is all there, in whatever order they name the types."""
    stores = h.neighbours(5)
    kinds = [OutcomeCount("default", f"type-{number}", 1, 2) for number in range(5)]
    for turn in range(5):
        reports = [kinds[turn:] + kinds[:turn], kinds[::-1]]
        await asyncio.gather(
            *(store.run(partial(report_outcomes, reports[number % 2])) for number, store in enumerate(stores))
        )
    assert {(t.completed, t.failed) for t in (await _read(h)).throughput} == {(25, 50)}


@CASES
async def queues_with_jobs_or_workers(h: Harness) -> None:
    """By name, with the sums over types, and how many living workers serve them."""
    await h.register("w1", "w2")
    h.sql("UPDATE {worker} SET status = 'dead' WHERE id = 'w2'")
    await h.put(2, queue="mail", type_name="a")
    h.clock.advance(3)
    await h.put(1, queue="mail", type_name="b")
    await h.put(1, queue="mail", type_name="b", at=h.now + _HOUR)
    assert await h.run(list_queues, read_only=True) == [
        QueueRecord(name="default", workers=1),
        QueueRecord(name="mail", ready=3, scheduled=1, oldest_ready_seconds=3),
    ]
