"""Schedules with the values that most of their cases want, and what they have enqueued."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from holdfast.model.ids import new_ids
from holdfast.model.job import Chain
from holdfast.model.job_filter import JobFilter
from holdfast.model.schedule import Definition, ScheduleRecord, checked_rule
from holdfast.operations.create_schedule import create_schedule
from holdfast.operations.fire_schedule import Fired, find_due_schedules, fire_schedule, run_schedule
from holdfast.operations.list_jobs import list_jobs
from holdfast.operations.pause_schedule import pause_schedule, resume_schedule
from holdfast.operations.schedule_rows import get_schedule
from holdfast.operations.sync_schedules import Synced, sync_schedules
from holdfast.operations.worker_life import WorkerIdentity, register_worker
from holdfast.testing.conformance.harness import Harness, document

APP = "shop"
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def definition(
    name: str = "report",
    cron: str | None = "0 * * * *",
    *,
    every: float | None = None,
    job: Mapping[str, Any] | None = None,
    **options: Any,
) -> Definition:
    """Every hour, unless something else is given."""
    template = document(id="", **(job or {}))
    template.id = ""
    return Definition(name, checked_rule(None if every else cron, every, options), template)  # type: ignore[arg-type]  # by name


async def create(h: Harness, *args: Any, replace: bool = False, **options: Any) -> ScheduleRecord:
    made = definition(*args, **options)
    return await h.run(lambda: create_schedule(APP, made, "ada", is_replacing=replace))


async def sync(h: Harness, *definitions: Definition, worker: str | None = None) -> Synced:
    """As a worker does once it is registered, or a person without one."""
    return await h.run(lambda: sync_schedules(APP, definitions, worker))


async def start_worker(h: Harness, worker: str, *definitions: Definition, app: str = APP) -> Synced:
    """A worker whose code has these schedules."""
    listed = {each.name: each.digest for each in definitions}
    metadata = {"app": app, "schedules": listed}
    identity = WorkerIdentity(id=worker, version="1.2.3", queues=["default"], metadata=metadata)
    await h.run(lambda: register_worker(identity))
    return await h.run(lambda: sync_schedules(app, definitions, worker))


async def fire(h: Harness, name: str = "report") -> Fired:
    return await h.run(lambda: fire_schedule(APP, name, new_ids))


async def fire_all(h: Harness) -> int:
    """What a scheduler does in one round; how many jobs there are by it."""
    enqueued = 0
    while due := [each for each in await h.run(lambda: find_due_schedules(HOUR)) if each.wait_ms <= 0]:
        for each in due:
            enqueued += (await fire(h, each.name)).enqueued
    return enqueued


async def run(h: Harness, name: str = "report") -> Chain[Any]:
    (job_id,) = new_ids(1)
    return (await h.run(lambda: run_schedule(APP, name, job_id, "ada"))).chain


async def pause(h: Harness, name: str = "report", reason: str | None = None) -> ScheduleRecord:
    return await h.run(lambda: pause_schedule(APP, name, "ada", reason))


async def resume(h: Harness, name: str = "report") -> ScheduleRecord:
    return await h.run(lambda: resume_schedule(APP, name, "ada"))


async def schedule(h: Harness, name: str = "report") -> ScheduleRecord:
    return await h.run(lambda: get_schedule(APP, name), read_only=True)


async def ticks(h: Harness, name: str = "report") -> list[datetime]:
    """Those that have enqueued, as the jobs tell it, in the order of enqueue."""
    page = await h.run(lambda: list_jobs(JobFilter(), limit=1000, newest_first=False), read_only=True)
    told = [job.headers for job in page.items if job.headers is not None and job.headers["schedule"] == name]
    return [datetime.fromisoformat(headers["tick"]) for headers in told if "tick" in headers]
