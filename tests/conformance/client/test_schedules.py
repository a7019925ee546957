"""`@app.schedule` and `client.schedules`, from the decorator to the job that runs."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast import App, Context, WorkerConfig
from holdfast.errors import (
    InvalidInput,
    InvalidOption,
    InvalidPayload,
    ScheduleExists,
    ScheduleNotFound,
    UnknownJobType,
)
from holdfast.testing import FakeClock, adrain, temporary_app
from tests.conformance.client.conftest import Place, settled

PATIENCE = 30
BRISK = WorkerConfig(heartbeat=timedelta(seconds=0.3), dead_after=timedelta(seconds=6), poll=timedelta(seconds=0.3))


async def test_a_worker_fires_what_its_code_has(place: Place) -> None:
    """Registered at its start, fired every second, with the arguments given and the tick in the headers."""
    ran: list[tuple[str, dict[str, str] | None]] = []
    enough = asyncio.Event()

    async def report(ctx: Context, region: str) -> None:
        ran.append((region, ctx.job.headers))
        if len(ran) >= 3:
            enough.set()

    job = place.app.job()(report)
    place.app.schedule("* * * * * *", name="each second", arguments={"region": "eu"})(job)
    async with place.app.worker(config=BRISK):
        (schedule,) = await settled(place.client.schedules.list())
        assert (schedule.app, schedule.name, schedule.origin) == ("app", "each second", "code")
        async with asyncio.timeout(PATIENCE):
            await enough.wait()
    ticks = [headers["tick"] for _, headers in ran if headers is not None]
    assert len(set(ticks)) == len(ran)
    assert {(region, headers["schedule"]) for region, headers in ran if headers is not None} == {("eu", "each second")}


async def test_created_at_run_time(place: Place) -> None:
    """With the options of the call; paused, resumed, run, listed and removed."""
    ran: list[int] = []

    async def count(n: int) -> None:
        ran.append(n)

    job = place.app.job()(count)
    schedules = place.client.schedules
    call = job.call(n=7).options(queue="reports", priority=-3, headers={"why": "test"})
    created = await settled(
        schedules.create("weekly", call, cron="0 7 * * mon", timezone="Europe/Vienna", catch_up="one", actor="ada")
    )
    assert (created.origin, created.type_name, created.queue) == ("client", "count", "reports")
    assert created.next_at > datetime.now(UTC)
    assert [tick.astimezone(UTC).weekday() for tick in created.upcoming(2)] == [0, 0]
    again = schedules.create("weekly", call, cron="0 7 * * mon", timezone="Europe/Vienna", catch_up="one")
    assert await settled(again) == created
    with pytest.raises(ScheduleExists):
        await settled(schedules.create("weekly", call, every=60))
    changed = await settled(schedules.create("weekly", call, every=timedelta(hours=1), replace=True))
    assert (changed.interval_ms, changed.cron) == (3_600_000, None)

    paused = await settled(schedules.pause("weekly", reason="holidays", actor="ada"))
    assert (paused.paused_by, paused.pause_reason, paused.is_active) == ("ada", "holidays", False)
    chain = await settled(schedules.run("weekly", actor="ada"))
    found = await settled(place.client.get_job(chain.id))
    assert (found.queue, found.priority, found.headers) == ("reports", -3, {"why": "test", "schedule": "weekly"})
    assert (await settled(schedules.resume("weekly"))).is_active
    await adrain(place.app, queues=["reports"])
    assert ran == [7]
    assert [each.name for each in await settled(schedules.list(app="app"))] == ["weekly"]
    assert await settled(schedules.list(app="another")) == []
    await settled(schedules.remove("weekly"))
    assert await settled(schedules.list()) == []


async def test_bad_input_leaves_nothing(place: Place) -> None:
    """Each error names the value, and there is no row afterwards."""

    async def greet(name: str) -> None: ...

    job = place.app.job()(greet)
    schedules, call = place.client.schedules, job.call(name="Ada")
    await settled(place.client.list_jobs())
    attempts: list[tuple[type[Exception], str, dict[str, Any]]] = [
        (InvalidInput, "cron", {"cron": "61 * * * *"}),
        (InvalidInput, "cron", {}),
        (InvalidInput, "cron", {"cron": "@daily", "every": 60}),
        (InvalidOption, "every", {"every": 0}),
        (InvalidOption, "timezone", {"cron": "@daily", "timezone": "Europe/Wien"}),
        (InvalidOption, "catch_up", {"cron": "@daily", "catch_up": "maybe"}),
        (InvalidOption, "max_age", {"cron": "@daily", "catch_up": "all", "max_age": float("inf")}),
        (InvalidOption, "overlap", {"cron": "@daily", "overlap": True}),
        (InvalidOption, "jitter", {"cron": "@daily", "jitter": "5m"}),
        (InvalidOption, "actor", {"cron": "@daily", "actor": ""}),
    ]
    for kind, word, options in attempts:
        with pytest.raises(kind, match=word):
            await settled(schedules.create("s", call, **options))
    for bad_call, kind in (("greet", InvalidOption), (job, InvalidOption)):
        with pytest.raises(kind, match="call"):
            await settled(schedules.create("s", bad_call, cron="@daily"))
    unknown = App("sqlite:///elsewhere.db").job(name="unknown")(greet)
    with pytest.raises(UnknownJobType, match="unknown"):
        await settled(schedules.create("s", unknown.call(name="x"), cron="@daily"))
    with pytest.raises(InvalidPayload, match="name"):
        await settled(schedules.create("s", job.call(), cron="@daily"))  # type: ignore[call-arg]  # wrong
    with pytest.raises(InvalidOption, match="no time zone"):
        await settled(schedules.create("s", job.call(name="x").options(at=datetime(2026, 1, 1)), cron="@daily"))  # noqa: DTZ001 - wrong
    with pytest.raises(InvalidOption, match="name"):
        await settled(schedules.create("", call, cron="@daily"))
    for verb in (schedules.pause, schedules.resume, schedules.run, schedules.remove):
        with pytest.raises(ScheduleNotFound, match="nobody's"):
            await settled(verb("nobody's"))
    assert await settled(schedules.list()) == []


async def test_upcoming_wants_an_aware_time(place: Place) -> None:
    """And a number that makes sense."""

    async def greet() -> None: ...

    job = place.app.job()(greet)
    created = await settled(place.client.schedules.create("s", job.call(), cron="@daily"))
    with pytest.raises(InvalidOption, match="no time zone"):
        created.upcoming(after=datetime(2026, 1, 1))  # noqa: DTZ001 - that is the point
    for count in (0, -1, 1001, True):
        with pytest.raises(InvalidOption, match="count"):
            created.upcoming(count)


async def test_drains_leave_schedules_alone() -> None:
    """They neither write nor fire them, however late it is."""
    clock = FakeClock()
    with temporary_app(clock=clock) as app:

        @app.schedule("@hourly", catch_up="all")
        @app.job()
        async def report() -> None: ...

        async with app.async_client() as client:
            assert (await adrain(app)).completed == 0
            assert await client.schedules.list() == []
            assert (await client.schedules.sync()).created == ["report"]
            clock.advance(7200)
            assert (await adrain(app)).completed == 0
            await client.schedules.run("report")
            assert (await adrain(app)).completed == 1
