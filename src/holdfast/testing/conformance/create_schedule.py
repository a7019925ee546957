"""create_schedule, remove_schedule, run_schedule: what people and programs do with schedules at run time."""

from __future__ import annotations

from datetime import timedelta

from holdfast.errors import InvalidOption, ScheduleExists, ScheduleNotFound
from holdfast.operations.create_schedule import remove_schedule
from holdfast.operations.schedule_rows import list_schedules
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import Harness, refused
from holdfast.testing.conformance.scheduling import (
    APP,
    HOUR,
    create,
    definition,
    fire_all,
    pause,
    run,
    schedule,
    sync,
    ticks,
)

CASES = Cases("create_schedule")


@CASES
async def created_again(h: Harness) -> None:
    """The same one is the same one, with what it has come to."""
    await create(h)
    h.clock.advance(HOUR)
    await fire_all(h)
    before = await schedule(h)
    assert await create(h) == before


@CASES
async def another_of_that_name(h: Harness) -> None:
    """Is refused, unless it is to take its place."""
    await create(h)
    error = await refused(ScheduleExists, create(h, cron="5 * * * *"))
    assert error.name == "report"
    assert (await schedule(h)).cron == "0 * * * *"
    assert (await create(h, cron="5 * * * *", replace=True)).cron == "5 * * * *"
    assert h.count("schedule") == 1


@CASES
async def one_of_the_code(h: Harness) -> None:
    """Is the code's, unless the code has given it up."""
    await sync(h, definition())
    await refused(ScheduleExists, create(h, cron="5 * * * *", replace=True))
    await sync(h)
    assert (await create(h, cron="5 * * * *")).origin == "client"


@CASES
async def removed(h: Harness) -> None:
    """It enqueues nothing more, what it has enqueued stays, and the second time it is not there."""
    await create(h)
    h.clock.advance(HOUR)
    await fire_all(h)
    await h.run(lambda: remove_schedule(APP, "report", "ada"))
    h.clock.advance(HOUR)
    assert await fire_all(h) == 0
    assert h.count("job") == 1
    await refused(ScheduleNotFound, h.run(lambda: remove_schedule(APP, "report", "ada")))


@CASES
async def run_now(h: Harness) -> None:
    """Its job, beside its ticks and without one; the next tick comes as ever."""
    await create(h, job={"queue": "mail"})
    h.clock.advance(timedelta(minutes=10))
    chain = await run(h)
    job = await h.job(chain.id)
    assert (job.queue, job.headers, job.deduplication_key) == ("mail", {"schedule": "report"}, None)
    record = await schedule(h)
    assert (record.last_chain_id, record.last_tick_at) == (chain.id, None)
    h.clock.advance(timedelta(minutes=50))
    assert await fire_all(h) == 1
    assert len(await ticks(h)) == 1


@CASES
async def run_while_paused(h: Harness) -> None:
    """A person who runs a schedule means it; one that is retired cannot be run."""
    await create(h)
    await pause(h)
    await run(h)
    await sync(h, definition("old"))
    await sync(h)
    await refused(InvalidOption, run(h, "old"))
    await refused(ScheduleNotFound, run(h, "nobody's"))
    assert h.count("job") == 1


@CASES
async def listed(h: Harness) -> None:
    """By app and name, all of them or those of one app."""
    await create(h, "b")
    await create(h, "a")
    found = await h.run(list_schedules, read_only=True)
    assert [(each.app, each.name) for each in found] == [(APP, "a"), (APP, "b")]
    assert await h.run(lambda: list_schedules("nobody's"), read_only=True) == []
    assert [each.minute for each in found[0].upcoming(3, after=h.now)] == [0, 0, 0]


@CASES
async def it_is_on_record(h: Harness) -> None:
    """Who did what to which schedule."""
    await create(h)
    await run(h)
    await h.run(lambda: remove_schedule(APP, "report", "bob"))
    rows = h.sql("SELECT actor, verb, outcome FROM {audit} ORDER BY seq")
    assert [tuple(row) for row in rows] == [
        ("ada", "create_schedule", "created"),
        ("ada", "run_schedule", "created"),
        ("bob", "remove_schedule", "removed"),
    ]
