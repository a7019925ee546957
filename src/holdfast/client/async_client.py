"""The client for async code; `client.py` is generated from this file by `python3 dev.py generate`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

from holdfast.client.admin_async import AsyncAdmin
from holdfast.client.again_async import run_again, run_repeatable
from holdfast.client.attendance import Attendance, aresult_of
from holdfast.client.batch import Batch
from holdfast.client.completing import outside_completion
from holdfast.client.control import (
    Chains,
    ControlWork,
    NamedType,
    OnProgress,
    checked_key,
    checked_text,
    checked_time,
    remover,
)
from holdfast.client.operating_async import AsyncQueues, AsyncWorkers
from holdfast.client.reading import AnyChain, AnyJob, chain_id_of, job_id_of, refuse_lock_without_transaction
from holdfast.client.schedules_async import AsyncSchedules
from holdfast.client.settings_async import AsyncSettings
from holdfast.client.telling import tell_with_commit
from holdfast.client.waiting import Wait
from holdfast.model.call import Call, EnqueueOptions
from holdfast.model.clock import Duration, checked_duration
from holdfast.model.control import ControlResult
from holdfast.model.explanation import reasons_not_to_run
from holdfast.model.identifiers import checked_name
from holdfast.model.ids import Ids
from holdfast.model.job import AttemptRecord, Chain, ChainRecord, Job, Page
from holdfast.model.job_filter import JobFilter, JobFilterFields
from holdfast.model.job_type import JobType
from holdfast.model.operating import Stats
from holdfast.model.payload import PayloadCodec
from holdfast.model.schedule import AppSchedules
from holdfast.model.status import Status
from holdfast.notify import Hinter
from holdfast.operations.cancel_jobs import cancel_jobs
from holdfast.operations.complete_outside import OutsideCompletion, complete_outside
from holdfast.operations.delete_chains import delete_chains
from holdfast.operations.drive import adrive
from holdfast.operations.find_ahead import find_ahead
from holdfast.operations.find_turn import find_turn
from holdfast.operations.get_chain import find_chain, get_chain
from holdfast.operations.get_job import find_job, get_job, list_attempts
from holdfast.operations.list_chains import list_chains
from holdfast.operations.list_jobs import list_blocked_jobs, list_chain_jobs, list_jobs
from holdfast.operations.look_at_chains import look_at_chain
from holdfast.operations.migrate import Migration
from holdfast.operations.notify_work import notify_work
from holdfast.operations.paging import check_page
from holdfast.operations.read_blockers import Blocker, read_blockers, read_children
from holdfast.operations.reschedule_jobs import reschedule_jobs
from holdfast.operations.retry_jobs import retry_jobs
from holdfast.operations.save_step import StepRecord, list_steps
from holdfast.operations.signal_chain import signal_chain
from holdfast.operations.statement import Verb
from holdfast.operations.stats import read_stats
from holdfast.operations.write_logs import LogRecord, list_logs
from holdfast.stores import AsyncStore
from holdfast.stores.borrowed import AsyncBorrowed, AsyncTransaction
from holdfast.telemetry import Listeners
from holdfast.telemetry.verbs import completed_outside, controlled, enqueued

R = TypeVar("R")
T = TypeVar("T")

#: how long a wait that is over waits for its listener to close
_LEAVING_SECONDS = 2.0


class AsyncClient:
    """Enqueues and reads jobs; made by `app.async_client()`, safe to share between tasks of one event loop."""

    def __init__(
        self,
        store: AsyncStore,
        hinter: Hinter,
        ids: Ids,
        job_types: Mapping[str, JobType],
        attendance: Attendance,
        *,
        schedules: AppSchedules,
        listeners: Listeners,
    ) -> None:
        self._store = store
        self._hinter = hinter
        self._ids = ids
        self._job_types = job_types
        self._attendance = attendance
        self._listeners = listeners
        #: it was made for handlers, and waits nowhere
        self.is_for_handlers = False
        self.queues = AsyncQueues(store, hinter)
        self.workers = AsyncWorkers(store, hinter)
        self.admin = AsyncAdmin(store)
        self.settings = AsyncSettings(store)
        self.schedules = AsyncSchedules(store, hinter, ids, job_types, schedules, listeners=listeners)

    async def __aenter__(self) -> Self:
        # Now rather than inside the caller's first transaction, which may hold the lock that a migration needs.
        if self._store.migrates_itself:
            await self._store.ensure_ready()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Give back connections; idempotent."""
        await self._store.close()

    async def enqueue(
        self, call: Call[R], *, tx: AsyncTransaction | None = None, **options: Unpack[EnqueueOptions]
    ) -> Chain[R]:
        """Create a job: with `tx`, if and only if the caller's transaction commits."""
        chains = await self.enqueue_many([call], tx=tx, **options)
        return chains[0]

    async def enqueue_many(
        self, calls: Iterable[Call[R]], *, tx: AsyncTransaction | None = None, **options: Unpack[EnqueueOptions]
    ) -> list[Chain[R]]:
        """Create jobs in order, all or none; options are for all, those of `call.options(…)` win."""
        batch = Batch(calls, options, self._ids, self._job_types)
        if not batch.calls:
            return []
        if tx is None:
            await self._store.ensure_ready()
            rides = batch.is_all_told and self._hinter.may_ride_along()
            channel = self._hinter.inner_channel if rides else None
            chains = await run_again(self._store, lambda: batch.write(channel, self._store.bulk))
            self._hinter.hint(batch.work, has_ridden=channel is not None)
            if batch.woken:
                self._hinter.hint(batch.woken)
            if self._listeners.heard:
                self._listeners.tell(enqueued(zip(batch.documents, chains, strict=True)))
        else:
            borrowed = await self._store.borrow(tx)
            is_hooked = borrowed.on_commit(partial(self._hinter.hint, batch.work))
            channel = None if is_hooked or not batch.is_all_told else self._hinter.inner_channel
            chains = await adrive(batch.write(channel), borrowed.execute)
            if channel is None and not is_hooked and batch.work:
                await self._hint_with_commit(borrowed, set(batch.work))
            await self._hint_with_commit(borrowed, batch.woken)
            if self._listeners.heard:
                tell_with_commit(self._listeners, tx, borrowed, enqueued(zip(batch.documents, chains, strict=True)))
            for chain in chains:
                chain.is_tentative = True
        return chains

    @overload
    async def wait(self, chain: Chain[R], timeout: Duration | None = None) -> R: ...
    @overload
    async def wait(self, chain: AnyChain, timeout: Duration | None = None) -> Any: ...
    async def wait(self, chain: AnyChain, timeout: Duration | None = None) -> Any:
        """The output of a chain, as soon as there is one.

        - `timeout` (none): seconds or timedelta; after it WaitTimeout is raised, and the chain goes on.

        The output has the type that the last job of the chain declares: where the chain was completed from outside by
        a call of another type, that one's. What does not fit that declaration any more raises InvalidPayload.

        Raises ChainFailed for a dead letter, ChainCancelled, ChainDeleted, ChainNotFound, and ChainNotCommitted inside
        the transaction that enqueues; WaitRefused in a handler, whose slot the chain may need.
        """
        wait = Wait(chain, timeout, self._ids, is_in_handler=self.is_for_handlers)
        with self._attendance.present():
            wait.see(await self._read(lambda: look_at_chain(wait.chain_id)))
            while (pause := wait.pause_alone(self._attendance.crowd)) is not None:
                await asyncio.sleep(pause)
                wait.see(await self._read(lambda: look_at_chain(wait.chain_id)))
            if wait.goes_on:
                ticket = self._attendance.join(wait.chain_id)
                try:
                    sight = await aresult_of(ticket.sight, wait.seconds_left)
                    wait.see(sight or ticket.last)
                finally:
                    await aresult_of(self._attendance.leave(ticket), _LEAVING_SECONDS)
        return wait.result(self._job_types)

    async def complete_job(self, job: AnyJob, output: object = None, *, tx: AsyncTransaction | None = None) -> Job:
        """Complete a job without a worker, whether it is blocked, pending or running.

        - `output`: checked against the job type's, if this app knows it; or a call, with which the chain goes on.

        The handler of a running job is told to stop. A job that has finished raises AlreadyFinished.
        Returns the chain's last job as it stands then: the one completed, or the next one.
        """
        job_id = job_id_of(job, self._ids)
        what = outside_completion(job_id, [output], self._ids, self._job_types, is_chain=False)
        return await self._complete(what, tx)

    async def complete_chain(self, chain: AnyChain, *outputs: object, tx: AsyncTransaction | None = None) -> Job:
        """Complete the last job of a chain, and with several `outputs` the next ones too, all in one transaction.

        Each of `outputs` is a call, which becomes the chain's next job, and the last one may be the chain's output:
        `client.complete_chain(chain, charge.call(order_id=1), "paid")`. Else as `complete_job`.
        """
        chain_id = chain_id_of(chain, self._ids)
        what = outside_completion(chain_id, outputs, self._ids, self._job_types, is_chain=True)
        return await self._complete(what, tx)

    async def signal(
        self,
        chain: AnyChain,
        name: str,
        payload: object = None,
        *,
        tx: AsyncTransaction | None = None,
    ) -> None:
        """Say something to a chain: the next `ctx.wait_signal` of the name, in whichever of its jobs, gets the payload.

        - `payload` (None): any JSON value.
        - `tx`: said if and only if the caller's transaction commits; until then nobody else can say something to the
          chain, and its job cannot go on to another state.

        A signal is kept until it is taken or the chain has ended; several of one name are taken in their order.
        ChainNotFound, and AlreadyFinished for a chain that has ended: nothing is written.
        """
        chain_id = chain_id_of(chain, self._ids)
        checked_name("signal", name)
        text = PayloadCodec(f"signal {name}", Any).encode(payload).decode()
        if tx is None:
            await self._store.ensure_ready()
            woken = await run_repeatable(self._store, lambda: signal_chain(chain_id, name, text))
            if woken:
                self._hinter.hint(woken)
        else:
            borrowed = await self._store.borrow(tx)
            woken = await adrive(signal_chain(chain_id, name, text), borrowed.execute)
            await self._hint_with_commit(borrowed, woken)

    async def get_job(self, job_id: AnyJob, *, lock: bool = False, tx: AsyncTransaction | None = None) -> Job:
        """The job, or JobNotFound.

        - `tx`: read in the caller's transaction, and see what it has written.
        - `lock`: nobody else changes or deletes the job until that transaction ends; on SQLite, nobody writes at all.
        """
        refuse_lock_without_transaction(lock=lock, tx=tx)
        checked = job_id_of(job_id, self._ids)
        return await self._read(lambda: get_job(checked, lock=lock), tx, lock=lock)

    async def find_job(self, job_id: AnyJob, *, lock: bool = False, tx: AsyncTransaction | None = None) -> Job | None:
        """The job, or None; parameters as for `get_job`."""
        refuse_lock_without_transaction(lock=lock, tx=tx)
        checked = job_id_of(job_id, self._ids)
        return await self._read(lambda: find_job(checked, lock=lock), tx, lock=lock)

    async def list_attempts(self, job_id: AnyJob) -> list[AttemptRecord]:
        """The attempts that did not complete the job, oldest first."""
        checked = job_id_of(job_id, self._ids)
        return await self._read(lambda: list_attempts(checked))

    async def list_steps(self, job_id: AnyJob) -> list[StepRecord]:
        """The steps that handlers of the job have saved, in the order of their saving."""
        checked = job_id_of(job_id, self._ids)
        return [step.record() for step in await self._read(lambda: list_steps(checked))]

    async def list_logs(self, job_id: AnyJob) -> list[LogRecord]:
        """What handlers of the job wrote with `ctx.log`, oldest first; the first thousand lines."""
        checked = job_id_of(job_id, self._ids)
        return await self._read(lambda: list_logs(checked))

    async def get_blockers(self, job_id: AnyJob, *, tx: AsyncTransaction | None = None) -> list[Blocker]:
        """The chains that a job waits or waited for, in the order given, each with its status, output and error."""
        checked = job_id_of(job_id, self._ids)
        return await self._read(lambda: read_blockers(checked), tx)

    async def explain(self, job_id: AnyJob) -> list[str]:
        """Why the job does not run, in words: everything that is in its way. Empty if it runs or has ended.

        Its time, what it waits for, the job in front of it in its partition key, its queue's pause and limits, how many
        tenants take turns there, whether a live worker serves its queue, knows its type and takes its flags, and which
        one its partition key belongs to where they share keys out.
        """
        job = await self.get_job(job_id)
        if job.status not in {Status.BLOCKED, Status.PENDING}:
            return []
        ahead = None if job.partition_key is None else await self._read(lambda: find_ahead(job.id))
        queues = {queue.name: queue for queue in await self.queues.list()}
        was_started = job.lease_generation > 0
        return reasons_not_to_run(
            job,
            now=datetime.now(UTC),
            blockers=await self.get_blockers(job.id),
            steps=await self._read(lambda: list_steps(job.id)) if was_started else (),
            children=await self._read(lambda: read_children(job.id)) if was_started else (),
            ahead=ahead,
            turn=None if job.tenant is None else await self._read(lambda: find_turn(job.id, job.queue)),
            queue=queues.get(job.queue),
            workers=await self.workers.list(),
        )

    async def get_chain(
        self,
        chain: AnyChain,
        *,
        lock: bool = False,
        tx: AsyncTransaction | None = None,
    ) -> ChainRecord:
        """The chain as it stands, or ChainNotFound.

        With `lock`, nobody else ends, continues or deletes it until the transaction `tx` ends.
        """
        refuse_lock_without_transaction(lock=lock, tx=tx)
        checked = chain_id_of(chain, self._ids)
        return await self._read(lambda: get_chain(checked, lock=lock), tx, lock=lock)

    async def find_chain(
        self, chain: AnyChain, *, lock: bool = False, tx: AsyncTransaction | None = None
    ) -> ChainRecord | None:
        """The chain as it stands, or None; parameters as for `get_chain`."""
        refuse_lock_without_transaction(lock=lock, tx=tx)
        checked = chain_id_of(chain, self._ids)
        return await self._read(lambda: find_chain(checked, lock=lock), tx, lock=lock)

    async def list_jobs(
        self,
        *,
        limit: int = 50,
        cursor: str | None = None,
        newest_first: bool = True,
        **filters: Unpack[JobFilterFields],
    ) -> Page[Job]:
        """A page of jobs in order of enqueue; pass `next_cursor` back as `cursor` for the next one.

        The filters are those of `JobFilter`.
        """
        chosen = JobFilter(**filters).with_ids(self._ids.check)
        return await self._read(lambda: list_jobs(chosen, limit=limit, cursor=cursor, newest_first=newest_first))

    async def iter_jobs(
        self, *, newest_first: bool = True, page_size: int = 500, **filters: Unpack[JobFilterFields]
    ) -> AsyncIterator[Job]:
        """Every job that matches, read page by page; oldest first, what is enqueued meanwhile comes at the end."""
        chosen = JobFilter(**filters).with_ids(self._ids.check)
        check_page(page_size, newest_first, option="page_size")
        cursor: str | None = None
        while True:
            verb = partial(list_jobs, chosen, limit=page_size, cursor=cursor, newest_first=newest_first)
            page = await self._read(verb)
            for job in page.items:
                yield job
            if (cursor := page.next_cursor) is None:
                return

    async def list_chains(
        self,
        *,
        limit: int = 50,
        cursor: str | None = None,
        newest_first: bool = True,
        **filters: Unpack[JobFilterFields],
    ) -> Page[ChainRecord]:
        """A page of chains in order of enqueue; a chain keeps its place however long it goes on.

        The filters are those of `JobFilter`: `status` is that of the last job, all others are about the first one.
        """
        chosen = JobFilter(**filters).with_ids(self._ids.check)
        return await self._read(lambda: list_chains(chosen, limit=limit, cursor=cursor, newest_first=newest_first))

    async def list_chain_jobs(
        self, chain: AnyChain, *, limit: int = 50, cursor: str | None = None, newest_first: bool = False
    ) -> Page[Job]:
        """A page of the jobs of a chain, the first one first; an empty one if there is no such chain."""
        checked = chain_id_of(chain, self._ids)
        verb = partial(list_chain_jobs, checked, limit=limit, cursor=cursor, newest_first=newest_first)
        return await self._read(verb)

    async def list_blocked_jobs(
        self, chain: AnyChain, *, limit: int = 50, cursor: str | None = None, newest_first: bool = False
    ) -> Page[Job]:
        """A page of the jobs that cannot start before this chain has ended, in order of enqueue."""
        checked = chain_id_of(chain, self._ids)
        verb = partial(list_blocked_jobs, checked, limit=limit, cursor=cursor, newest_first=newest_first)
        return await self._read(verb)

    async def cancel(
        self,
        chains: Chains | None = None,
        *,
        job: Job | str | None = None,
        reason: str | None = None,
        actor: str | None = None,
        strict: bool = False,
        progress: OnProgress | None = None,
        tx: AsyncTransaction | None = None,
    ) -> list[ControlResult]:
        """Cancel chains: what waits ends at once, what runs is asked to stop.

        - `chains`: a chain or its id, a list of these, or a JobFilter; the last job of each chain is meant. `job` names
          exactly one job instead.
        - `reason`, `actor`: for the record; the reason becomes the job's error.
        - `strict`: all or nothing; BatchRefused names what cannot be cancelled.
        - `progress`: called while a filter is worked through.

        Returns what happened to each, in the order given.
        """
        apply = partial(cancel_jobs, reason=checked_text("reason", reason))
        work = ControlWork("cancel", apply, self._ids, chains, job, actor, strict, progress)
        return await self._control(work, tx)

    async def retry(
        self,
        chains: Chains | None = None,
        *,
        job: Job | str | None = None,
        actor: str | None = None,
        strict: bool = False,
        progress: OnProgress | None = None,
        tx: AsyncTransaction | None = None,
    ) -> list[ControlResult]:
        """Let dead letters and cancelled jobs begin anew; what still waits for others is blocked again.

        A deduplication key is taken back if it is free, else the outcome is `key_taken`. Parameters as for `cancel`.
        """
        work = ControlWork(
            "retry", retry_jobs, self._ids, chains, job, actor, strict, progress, job_types=self._job_types
        )
        return await self._control(work, tx)

    async def reschedule(
        self,
        chains: Chains | None = None,
        *,
        at: datetime | None = None,
        delay: Duration | None = None,
        job: Job | str | None = None,
        actor: str | None = None,
        strict: bool = False,
        progress: OnProgress | None = None,
        tx: AsyncTransaction | None = None,
    ) -> list[ControlResult]:
        """Give chains that wait another time: `at`, or `delay` from now; the past means now. Else as `cancel`."""
        apply = partial(reschedule_jobs, **checked_time(at, delay))
        work = ControlWork("reschedule", apply, self._ids, chains, job, actor, strict, progress)
        return await self._control(work, tx)

    async def remove(
        self,
        job_type: str | NamedType,
        key: str,
        *,
        actor: str | None = None,
        strict: bool = False,
        tx: AsyncTransaction | None = None,
    ) -> ControlResult:
        """Delete the chain that holds a deduplication key, if its first job waits, be it for another attempt.

        One that runs or has gone on gives up the key and is not tried again. Nobody holds it: `not_found`.
        """
        work = ControlWork(
            "remove",
            remover(job_type),
            self._ids,
            key=checked_key(key),
            actor=actor,
            strict=strict,
            job_types=self._job_types,
        )
        return (await self._control(work, tx))[0]

    async def delete_chains(
        self,
        chains: Chains,
        *,
        cascade: bool = False,
        actor: str | None = None,
        strict: bool = False,
        progress: OnProgress | None = None,
        tx: AsyncTransaction | None = None,
    ) -> list[ControlResult]:
        """Delete chains with their jobs, steps, logs, attempts and keys, except keys held for ever.

        - `cascade`: also the chains that these waited for, unless others waited for them too.

        All or nothing: ChainNeeded names the jobs that need one of them. By a filter, chains that are needed are left
        alone and reported as `needed`. The handler of a running job learns that its lease is lost. Else as `cancel`.
        """
        apply = partial(delete_chains, cascade=cascade, is_partial=isinstance(chains, JobFilter))
        work = ControlWork("delete", apply, self._ids, chains, None, actor, strict, progress)
        return await self._control(work, tx)

    async def stats(self, *, within: Duration = 3600) -> Stats:
        """How many jobs are in which state, for how long, and how many were completed and failed of late.

        - `within` (an hour): how far back the throughput goes; a day of it is kept.

        The counts are those that the leader keeps, seconds old; where no worker runs, they are taken now. Either way
        counting stops at 10,000 jobs per queue and state, and what has finished is not counted at all.
        """
        period = checked_duration("within", within)
        return await self._read(lambda: read_stats(period))

    async def migrate(self) -> Sequence[Migration]:
        """Bring the schema up to date; returns what was applied."""
        return await self._store.migrate()

    async def _read(self, verb: Verb[T], tx: AsyncTransaction | None = None, *, lock: bool = False) -> T:
        if tx is not None:
            borrowed = await self._store.borrow(tx, read_only=not lock)
            return await adrive(verb(), borrowed.execute)
        await self._store.ensure_ready()
        return await self._store.run(verb, read_only=True)

    async def _complete(self, what: OutsideCompletion, tx: AsyncTransaction | None) -> Job:
        if tx is None:
            await self._store.ensure_ready()
            done = await run_again(self._store, lambda: complete_outside(what))
            if done.woken:
                self._hinter.hint(done.woken)
            if self._listeners.heard:
                self._listeners.tell(completed_outside(what, done))
        else:
            borrowed = await self._store.borrow(tx)
            done = await adrive(complete_outside(what), borrowed.execute)
            await self._hint_with_commit(borrowed, done.woken)
            if self._listeners.heard:
                tell_with_commit(self._listeners, tx, borrowed, completed_outside(what, done))
        return done.job

    async def _hint_with_commit(self, borrowed: AsyncBorrowed, queues: set[str]) -> None:
        channel = self._hinter.inner_channel
        if queues and not borrowed.on_commit(partial(self._hinter.hint, queues)) and channel is not None:
            await adrive(notify_work(channel, queues), borrowed.execute)

    async def _control(self, work: ControlWork, tx: AsyncTransaction | None) -> list[ControlResult]:
        """Step by step, each a short transaction of its own, or all in the caller's."""
        borrowed = None if tx is None else await self._store.borrow(tx)
        if borrowed is None:
            await self._store.ensure_ready()
        while (step := work.next_step()) is not None:
            if borrowed is None:
                self._tell_of(work)
            if step.pause:
                await asyncio.sleep(step.pause)
            if borrowed is not None:
                work.receive(await adrive(step.verb(), borrowed.execute))
            elif step.is_read_only:
                work.receive(await self._store.run(step.verb, read_only=True))
            else:
                work.receive(await run_repeatable(self._store, step.verb))
        # Of the last step too: its answer is taken in when the next one is asked for.
        if borrowed is not None:
            await self._hint_with_commit(borrowed, work.take_woken())
            if self._listeners.heard:
                tell_with_commit(self._listeners, tx, borrowed, controlled(work.take_done()))
        else:
            self._tell_of(work)
        return work.results

    def _tell_of(self, work: ControlWork) -> None:
        """What is committed of it since this was last called."""
        if queues := work.take_woken():
            self._hinter.hint(queues)
        done = work.take_done()
        if self._listeners.heard:
            self._listeners.tell(controlled(done))
