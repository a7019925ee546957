"""fire_schedule: each tick enqueues once, and what was missed follows the policy."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from functools import partial

from msgspec import Raw

from holdfast.model.call import Extras
from holdfast.model.ids import new_ids
from holdfast.model.job_filter import JobFilter
from holdfast.operations.fire_schedule import find_due_schedules, fire_schedule
from holdfast.operations.list_jobs import list_jobs
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import Harness, lease_of
from holdfast.testing.conformance.scheduling import (
    APP,
    DAY,
    HOUR,
    MINUTE,
    create,
    fire,
    fire_all,
    pause,
    run,
    schedule,
    ticks,
)

CASES = Cases("fire_schedule")

_SECOND = timedelta(seconds=1)


def _hours(h: Harness, *hours: int) -> list[datetime]:
    """Of the day on which every case begins."""
    midnight = h.now.replace(year=2026, month=1, day=1, hour=0, minute=0, second=0, microsecond=0)
    return [midnight + hour * HOUR for hour in hours]


@CASES
async def a_tick_enqueues(h: Harness) -> None:
    """At its time and not before: a job with the arguments, the key and the headers of the tick."""
    headers = Raw(b'{"why":"test"}')
    created = await create(h, job={"input": {"region": "eu"}, "queue": "mail", "priority": -5, "headers": headers})
    assert (created.next_at, created.last_tick_at) == (_hours(h, 1)[0], None)
    h.clock.advance(HOUR - _SECOND)
    assert (await fire(h)).enqueued == 0
    h.clock.advance(_SECOND)
    fired = await fire(h)
    assert (fired.enqueued, fired.queues, fired.is_more) == (1, {"mail"}, False)
    (job,) = (await h.run(lambda: list_jobs(JobFilter()), read_only=True)).items
    assert (job.type_name, job.input, job.queue, job.priority) == ("sum", {"region": "eu"}, "mail", -5)
    assert job.headers == {"why": "test", "schedule": "report", "tick": "2026-01-01T01:00:00.000000Z"}
    assert job.deduplication_key == "schedule:shop/report@2026-01-01T01:00:00.000000Z"
    record = await schedule(h)
    assert (record.last_tick_at, record.next_at) == tuple(_hours(h, 1, 2))
    assert (record.last_fired_at, record.last_chain_id) == (h.now, job.id)


@CASES
async def once_each(h: Harness) -> None:
    """However often somebody asks; after the job has ended, too."""
    await create(h)
    h.clock.advance(HOUR)
    assert [(await fire(h)).enqueued for _ in range(3)] == [1, 0, 0]
    await h.complete(await h.claim_one())
    assert (await fire(h)).enqueued == 0
    h.clock.advance(HOUR)
    assert (await fire(h)).enqueued == 1
    assert await ticks(h) == _hours(h, 1, 2)


@CASES
async def many_schedulers(h: Harness) -> None:
    """Of several that try at the same moment one enqueues."""
    await create(h)
    stores = h.neighbours(4)
    for hour in range(1, 6):
        h.clock.advance(HOUR)
        fired = await asyncio.gather(*(store.run(lambda: fire_schedule(APP, "report", new_ids)) for store in stores))
        assert sum(each.enqueued for each in fired) == 1, fired
        assert await ticks(h) == _hours(h, *range(1, hour + 1))


@CASES
async def a_clock_that_steps(h: Harness) -> None:
    """Forth and back: no tick enqueues twice, and what lies behind is not made up for."""
    await create(h, catch_up="all", max_age=30 * DAY)
    h.clock.advance(3 * HOUR)
    assert await fire_all(h) == 3
    h.clock.now -= 2 * HOUR + 30 * MINUTE
    for _ in range(5):
        assert await fire_all(h) == 0
        h.clock.advance(30 * MINUTE)
    assert h.now == _hours(h, 3)[0]
    h.clock.advance(HOUR)
    assert await fire_all(h) == 1
    assert await ticks(h) == _hours(h, 1, 2, 3, 4)


@CASES
async def no_backfill(h: Harness) -> None:
    """One that is new begins with its next tick, also where it comes between two others."""
    h.clock.advance(HOUR)
    await create(h, catch_up="all", max_age=DAY)
    assert await fire_all(h) == 0
    h.clock.advance(HOUR)
    assert await fire_all(h) == 1


@CASES
async def late_is_not_missed(h: Harness) -> None:
    """A tick that comes up to a minute late enqueues whatever the policy: leaders change."""
    await create(h, cron="*/20 * * * * *")
    h.clock.advance(MINUTE + 10 * _SECOND)
    assert await fire_all(h) == 3
    assert [tick.second for tick in await ticks(h)] == [20, 40, 0]


@CASES
async def catch_up_skip(h: Harness) -> None:
    """Ticks that are more than a minute late pass, and the next one comes as ever."""
    await create(h, catch_up="skip")
    h.clock.advance(5 * HOUR + 2 * MINUTE)
    assert await fire_all(h) == 0
    assert (await schedule(h)).next_at == _hours(h, 6)[0]
    h.clock.advance(HOUR)
    assert await fire_all(h) == 0
    h.clock.advance(58 * MINUTE)
    assert await fire_all(h) == 1
    assert await ticks(h) == _hours(h, 7)


@CASES
async def catch_up_one(h: Harness) -> None:
    """One job for the latest of those missed, however many, and also where the latest has only just come."""
    await create(h, catch_up="one")
    h.clock.advance(5 * HOUR + 2 * MINUTE)
    assert await fire_all(h) == 1
    h.clock.advance(3 * HOUR - 2 * MINUTE)
    assert await fire_all(h) == 1
    assert await ticks(h) == _hours(h, 5, 8)


@CASES
async def catch_up_all(h: Harness) -> None:
    """Each of them, in their order, none older than the maximum age."""
    await create(h, catch_up="all", max_age=3 * HOUR)
    h.clock.advance(8 * HOUR + 30 * MINUTE)
    assert await fire_all(h) == 3
    assert await ticks(h) == _hours(h, 6, 7, 8)


@CASES
async def catch_up_all_of_very_many(h: Harness) -> None:
    """They are made up for in parts, and each of them once."""
    await create(h, cron="* * * * *", catch_up="all")
    h.clock.advance(4 * HOUR)
    first = await fire(h)
    assert (first.enqueued, first.is_more) == (100, True)
    assert await fire_all(h) == 140
    found = await ticks(h)
    assert len(found) == len(set(found)) == 240
    assert found == sorted(found)


@CASES
async def catch_up_one_of_an_age(h: Harness) -> None:
    """Not where even the latest of them is too old."""
    await create(h, cron="0 0 * * *", catch_up="one", max_age=HOUR)
    h.clock.advance(2 * DAY + 2 * HOUR)
    assert await fire_all(h) == 0
    h.clock.advance(3 * DAY - 2 * HOUR)
    assert await fire_all(h) == 1


@CASES
async def an_interval(h: Harness) -> None:
    """Comes at whole intervals since 1970, whenever it was created."""
    h.clock.advance(70 * _SECOND)
    await create(h, every=90)
    h.clock.advance(20 * _SECOND)
    assert await fire_all(h) == 1
    h.clock.advance(90 * _SECOND)
    assert await fire_all(h) == 1
    assert [(tick.minute, tick.second) for tick in await ticks(h)] == [(1, 30), (3, 0)]


@CASES
async def a_zone(h: Harness) -> None:
    """By the clocks of its zone: an entry with a fixed hour comes once on the day when these are put back."""
    h.clock.now = h.now.replace(month=10, day=24, hour=12)
    await create(h, cron="30 2 * * *", timezone="Europe/Vienna")
    for _ in range(2 * 48):
        h.clock.advance(30 * MINUTE)
        await fire_all(h)
    assert [tick.isoformat() for tick in await ticks(h)] == ["2026-10-25T00:30:00+00:00", "2026-10-26T01:30:00+00:00"]


@CASES
async def overlap_allowed(h: Harness) -> None:
    """A tick enqueues, whatever became of the last one's job."""
    await create(h)
    h.clock.advance(HOUR)
    await fire_all(h)
    h.clock.advance(HOUR)
    assert await fire_all(h) == 1


@CASES
async def overlap_skipped(h: Harness) -> None:
    """While the last one's chain is unfinished, pending or running, ticks pass; then they enqueue again."""
    await create(h, overlap="skip")
    h.clock.advance(HOUR)
    assert await fire_all(h) == 1
    h.clock.advance(HOUR)
    assert (await fire(h)).overlapped == 1
    lease = lease_of((await h.claim(1))[0])
    h.clock.advance(HOUR)
    assert await fire_all(h) == 0
    await h.complete(lease)
    assert await fire_all(h) == 0
    h.clock.advance(HOUR)
    assert await fire_all(h) == 1
    assert await ticks(h) == _hours(h, 1, 4)


@CASES
async def overlap_of_dead_letters(h: Harness) -> None:
    """A chain that has failed for good is over."""
    await create(h, overlap="skip")
    h.clock.advance(HOUR)
    await fire_all(h)
    await h.fail(await h.claim_one(), is_final=True)
    h.clock.advance(HOUR)
    assert await fire_all(h) == 1


@CASES
async def overlap_among_those_missed(h: Harness) -> None:
    """Of several ticks that are made up for at once the first one enqueues."""
    await create(h, overlap="skip", catch_up="all", max_age=DAY)
    h.clock.advance(4 * HOUR)
    fired = await fire(h)
    assert (fired.enqueued, fired.overlapped) == (1, 3)
    assert await ticks(h) == _hours(h, 1)


@CASES
async def overlap_with_a_run(h: Harness) -> None:
    """What a person ran counts as well."""
    await create(h, overlap="skip")
    await run(h)
    h.clock.advance(HOUR)
    assert await fire_all(h) == 0


@CASES
async def jitter(h: Harness) -> None:
    """The job may run later than its tick, by no more than was given, and by another part each time."""
    await create(h, jitter=10 * MINUTE)
    late = set()
    for hour in range(1, 11):
        h.clock.now = _hours(h, hour)[0]
        assert await fire_all(h) == 1
        page = await h.run(lambda: list_jobs(JobFilter(), limit=1), read_only=True)
        late.add(page.items[0].scheduled_at - h.now)
    assert len(late) == 10
    assert all(timedelta() <= each <= 10 * MINUTE for each in late)


@CASES
async def a_key_of_its_own(h: Harness) -> None:
    """A job that has a deduplication key keeps it: the tick finds the chain that holds it."""
    more = Extras(deduplication_key="only one", deduplication_scope="unfinished")
    await create(h, job={"more": more})
    for _ in range(2):
        h.clock.advance(HOUR)
        await fire_all(h)
    assert h.count("job") == 1
    (job,) = (await h.run(lambda: list_jobs(JobFilter()), read_only=True)).items
    assert job.deduplication_key == "only one"
    assert (await schedule(h)).last_chain_id == job.id


@CASES
async def paused_or_gone(h: Harness) -> None:
    """A schedule that is paused enqueues nothing, nor does one that there is not."""
    await create(h)
    await pause(h)
    h.clock.advance(HOUR)
    assert await fire_all(h) == 0
    assert (await fire(h)).enqueued == 0
    assert (await fire(h, "nobody's")).enqueued == 0
    assert h.count("job") == 0


@CASES
async def found_when_due(h: Harness) -> None:
    """The earliest first, with how long it is until then; nothing that is further away than was asked for."""
    await create(h, "hourly")
    await create(h, "quarterly", "*/15 * * * *")
    await create(h, "daily", "0 0 * * *")
    await create(h, "paused", "*/5 * * * *")
    await pause(h, "paused")
    found = await h.run(lambda: find_due_schedules(HOUR), read_only=True)
    assert [(each.name, each.wait_ms) for each in found] == [("quarterly", 900_000), ("hourly", 3_600_000)]
    h.clock.advance(HOUR)
    found = await h.run(lambda: find_due_schedules(timedelta()), read_only=True)
    assert [(each.app, each.name, each.wait_ms) for each in found] == [
        (APP, "quarterly", -2_700_000),
        (APP, "hourly", 0),
    ]


@CASES
async def the_last_tick_survives(h: Harness) -> None:
    """A scheduler that comes after all others have gone knows from the row alone what has been dealt with."""
    await create(h, catch_up="all", max_age=DAY)
    h.clock.advance(2 * HOUR)
    await fire_all(h)
    h.clock.advance(2 * HOUR)
    (other,) = h.neighbours(1)
    while (await other.run(partial(fire_schedule, APP, "report", new_ids))).enqueued:
        pass
    assert await ticks(h) == _hours(h, 1, 2, 3, 4)
