"""What operators do with queues and workers, for async code; `operating.py` is generated from this file."""

from __future__ import annotations

from datetime import datetime

from holdfast.client.again_async import run_repeatable
from holdfast.client.control import checked_text
from holdfast.model.clock import Duration
from holdfast.model.identifiers import checked_name
from holdfast.model.operating import QueueRecord, WorkerRecord, WorkerRelease
from holdfast.model.queue import QueueLimits, QueueSettings, checked_resume_time
from holdfast.notify import Hinter
from holdfast.operations.check_origin import accept_origin
from holdfast.operations.limit_queue import limit_queue
from holdfast.operations.list_workers import list_workers
from holdfast.operations.pause_queue import pause_queue, resume_queue
from holdfast.operations.release_worker import release_worker
from holdfast.operations.stats import list_queues
from holdfast.stores import AsyncStore

#: a queue that changed concerns all who serve it, not one worker per hint
_EVERYBODY = 1_000_000
#: inside the classes `list` is a method
QueueRecords = list[QueueRecord]
WorkerRecords = list[WorkerRecord]


class AsyncQueues:
    """`client.queues`."""

    def __init__(self, store: AsyncStore, hinter: Hinter) -> None:
        self._store = store
        self._hinter = hinter

    async def list(self) -> QueueRecords:
        """Every queue that has jobs, workers that serve it, a pause or limits, by name.

        The numbers are those that the leader keeps, seconds old and counted up to 10,000 per queue and state.
        """
        await self._store.ensure_ready()
        return await self._store.run(list_queues, read_only=True)

    async def pause(
        self,
        name: str,
        *,
        resume_at: datetime | Duration | None = None,
        reason: str | None = None,
        actor: str | None = None,
    ) -> QueueSettings:
        """Give out nothing of a queue: no claim that begins after this has returned gets a job of it.

        - `resume_at` (never): when the pause ends by itself, as a datetime or as how long from now.
        - `reason`, `actor`: shown with the pause, and for the record.

        What runs is left alone, and jobs may be enqueued. A queue that is paused already gets the new end.
        """
        queue = checked_name("name", name)
        resume = checked_resume_time(resume_at)
        why = checked_text("reason", reason)
        who = None if actor is None else checked_name("actor", actor)
        await self._store.ensure_ready()
        settings = await run_repeatable(self._store, lambda: pause_queue(queue, resume, who, why))
        if settings.resume_at is not None:
            # An end that was later, or none, is what idle workers sleep for.
            self._hinter.hint({queue: _EVERYBODY})
        return settings

    async def resume(self, name: str, *, actor: str | None = None) -> QueueSettings:
        """Give out again what a pause has kept back, in the old order; a queue that is not paused stays as it is."""
        queue = checked_name("name", name)
        who = None if actor is None else checked_name("actor", actor)
        await self._store.ensure_ready()
        settings, was_paused = await run_repeatable(self._store, lambda: resume_queue(queue, who))
        if was_paused:
            self._hinter.hint({queue: _EVERYBODY})
        return settings

    async def limit(
        self,
        name: str,
        *,
        concurrency: int | None = None,
        rate: float | None = None,
        burst: int | None = None,
        key_concurrency: int | None = None,
        key_rate: float | None = None,
        key_burst: int | None = None,
        fair_by: str | None = None,
        actor: str | None = None,
    ) -> QueueSettings:
        """Say how much of a queue may run, over all workers; these limits replace what was set before.

        - `concurrency` (no limit): how many of its jobs may run at a time.
        - `rate` (no limit): how many may start per second; in any t seconds no more than `burst` + `rate` × t do.
        - `burst` (as many as in a second): how many may start at once.
        - `key_concurrency`, `key_rate`, `key_burst`: the same, of each `concurrency_key` for itself.
        - `fair_by` (nobody): with "tenant", tenants take turns: one tenant's million jobs do not delay another's ten.
          It holds for jobs that are enqueued from now on; those without a tenant count as one more tenant.
        - `actor`: who wants it, for the record.

        What runs already is left alone, also where it is more than is now allowed.
        """
        queue = checked_name("name", name)
        limits = QueueLimits.checked(
            concurrency=concurrency,
            rate=rate,
            burst=burst,
            key_concurrency=key_concurrency,
            key_rate=key_rate,
            key_burst=key_burst,
            fair_by=fair_by,
        )
        who = None if actor is None else checked_name("actor", actor)
        await self._store.ensure_ready()
        settings = await run_repeatable(self._store, lambda: limit_queue(queue, limits, who))
        self._hinter.hint({queue: _EVERYBODY})
        return settings


class AsyncWorkers:
    """`client.workers`."""

    def __init__(self, store: AsyncStore, hinter: Hinter) -> None:
        self._store = store
        self._hinter = hinter

    async def list(self) -> WorkerRecords:
        """Every registered worker, the longest-serving first."""
        await self._store.ensure_ready()
        return await self._store.run(list_workers, read_only=True)

    async def accept(self, *, actor: str | None = None) -> None:
        """Let workers work in a database that was restored from a backup, or copied.

        They start paused there, and go on by themselves within seconds after this: what the backup has pending may have
        been done after it was taken. Cancel first what must not run again.

        - `actor`: who says so, for the record.
        """
        who = None if actor is None else checked_name("actor", actor)
        await self._store.ensure_ready()
        await run_repeatable(self._store, lambda: accept_origin(self._store.place, who))

    async def release(self, worker_id: str, *, actor: str | None = None) -> WorkerRelease:
        """Take everything from a worker that is gone, or does not do its work.

        Its jobs go back untouched and may be claimed at once. A worker that lives after all is told that its leases are
        lost, and nothing that its handlers still write about these jobs is accepted. It may claim others.

        - `actor`: who wants it, for the record.
        """
        whose = checked_name("worker_id", worker_id)
        who = None if actor is None else checked_name("actor", actor)
        await self._store.ensure_ready()
        done = await run_repeatable(self._store, lambda: release_worker(whose, who))
        if done.woken:
            self._hinter.hint(done.woken)
        return done.release
