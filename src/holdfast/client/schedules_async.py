"""What is done with schedules, for async code; `schedules.py` is generated from this file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from holdfast.client.again_async import run_repeatable
from holdfast.client.control import checked_text
from holdfast.errors import UnknownJobType
from holdfast.model.call import Call
from holdfast.model.clock import Duration
from holdfast.model.identifiers import checked_name
from holdfast.model.ids import Ids
from holdfast.model.job import Chain
from holdfast.model.job_type import JobType
from holdfast.model.schedule import AppSchedules, RuleOptions, ScheduleRecord, checked_definition, checked_rule
from holdfast.notify import Hinter
from holdfast.operations.create_schedule import create_schedule, remove_schedule
from holdfast.operations.fire_schedule import run_schedule
from holdfast.operations.pause_schedule import pause_schedule, resume_schedule
from holdfast.operations.schedule_rows import list_schedules
from holdfast.operations.sync_schedules import Synced, sync_schedules
from holdfast.stores import AsyncStore
from holdfast.telemetry import Listeners
from holdfast.telemetry.verbs import enqueued

#: inside the class `list` is a method
ScheduleRecords = list[ScheduleRecord]


class AsyncSchedules:
    """`client.schedules`. Names are those of the client's app, unless another `app` is given."""

    def __init__(
        self,
        store: AsyncStore,
        hinter: Hinter,
        ids: Ids,
        job_types: Mapping[str, JobType],
        schedules: AppSchedules,
        *,
        listeners: Listeners,
    ) -> None:
        self._store = store
        self._hinter = hinter
        self._ids = ids
        self._job_types = job_types
        self._schedules = schedules
        self._listeners = listeners

    async def list(self, *, app: str | None = None) -> ScheduleRecords:
        """Every schedule in the database, or those of one app, by app and name; retired ones too."""
        whose = None if app is None else checked_name("app", app)
        await self._store.ensure_ready()
        return await self._store.run(lambda: list_schedules(whose), read_only=True)

    async def create(
        self,
        name: str,
        call: Call[Any],
        *,
        cron: str | None = None,
        every: Duration | None = None,
        replace: bool = False,
        actor: str | None = None,
        **options: Unpack[RuleOptions],
    ) -> ScheduleRecord:
        """Enqueue a call again and again, from its next tick on.

        - `call`: what is enqueued, with its options; `your_job.call(…)`.
        - `cron`: five fields, six with the second first, or `@daily` and the like; or
        - `every`: an interval of a second or more; its ticks are whole intervals since 1970 in UTC.
        - `timezone`, `catch_up`, `max_age`, `overlap`, `jitter`: as for `app.schedule`.
        - `replace` (no): change a schedule of this name that was created at run time.
        - `actor`: who wants it, for the record.

        Creating the same schedule again changes nothing. Another one of that name raises ScheduleExists.
        """
        definition = checked_definition(name, checked_rule(cron, every, options), call)
        if call.job_type.name not in self._job_types:
            raise UnknownJobType(call.job_type.name, tuple(self._job_types))
        who = None if actor is None else checked_name("actor", actor)
        app = self._schedules.app
        await self._store.ensure_ready()
        return await run_repeatable(self._store, lambda: create_schedule(app, definition, who, is_replacing=replace))

    async def pause(
        self, name: str, *, reason: str | None = None, actor: str | None = None, app: str | None = None
    ) -> ScheduleRecord:
        """Let its ticks pass until it is resumed; what it has enqueued stays."""
        whose, which = self._app(app), checked_name("name", name)
        who = None if actor is None else checked_name("actor", actor)
        why = checked_text("reason", reason)
        await self._store.ensure_ready()
        return await run_repeatable(self._store, lambda: pause_schedule(whose, which, who, why))

    async def resume(self, name: str, *, actor: str | None = None, app: str | None = None) -> ScheduleRecord:
        """Let it come again from its next tick on; those that have passed are not caught up."""
        whose, which = self._app(app), checked_name("name", name)
        who = None if actor is None else checked_name("actor", actor)
        await self._store.ensure_ready()
        return await run_repeatable(self._store, lambda: resume_schedule(whose, which, who))

    async def run(self, name: str, *, actor: str | None = None, app: str | None = None) -> Chain[Any]:
        """Enqueue its job now, beside its ticks, be it paused or not."""
        whose, which = self._app(app), checked_name("name", name)
        who = None if actor is None else checked_name("actor", actor)
        (job_id,) = self._ids.make(1)
        await self._store.ensure_ready()
        done = await run_repeatable(self._store, lambda: run_schedule(whose, which, job_id, who))
        self._hinter.hint(done.woken)
        if self._listeners.heard:
            self._listeners.tell(enqueued([(done.job, done.chain)]))
        return done.chain

    async def remove(self, name: str, *, actor: str | None = None, app: str | None = None) -> None:
        """Forget a schedule and how far it came; one in code comes back when a worker starts, as if it were new."""
        whose, which = self._app(app), checked_name("name", name)
        who = None if actor is None else checked_name("actor", actor)
        await self._store.ensure_ready()
        await run_repeatable(self._store, lambda: remove_schedule(whose, which, who))

    async def sync(self) -> Synced:
        """Make the schedules of the app those of its code, as a worker does when it starts."""
        app, definitions = self._schedules.app, self._schedules.definitions
        await self._store.ensure_ready()
        return await run_repeatable(self._store, lambda: sync_schedules(app, definitions.values()))

    def _app(self, app: str | None) -> str:
        return self._schedules.app if app is None else checked_name("app", app)
