"""What a case may do with a store: run verbs, move the clock, and look behind the scenes.

The cases are async functions; behind this facade the same case runs on a store's async face or, each verb in a thread,
on its sync face.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from types import TracebackType
from typing import Any, Final, Literal, Protocol, Self, TypeVar

import msgspec

from holdfast.errors import HoldfastError, SerializationConflict
from holdfast.model.call import JobDocument
from holdfast.model.clock import FakeClock, iso, milliseconds
from holdfast.model.ids import new_id, new_ids
from holdfast.model.job import AttemptRecord, Job, JobError
from holdfast.model.payload import to_json
from holdfast.model.scan_position import Instant, Lane, ScanPosition
from holdfast.model.status import Status
from holdfast.operations.claim_jobs import Claim, ClaimedJob, claim_jobs, claim_suspect, find_lanes
from holdfast.operations.complete_jobs import Completion, complete_jobs
from holdfast.operations.enqueue_jobs import enqueue_jobs
from holdfast.operations.fail_jobs import FailSettlement, Failure, fail_jobs
from holdfast.operations.get_job import find_job, get_job, list_attempts
from holdfast.operations.lease import Lease, Settlement
from holdfast.operations.migrate import Migration
from holdfast.operations.reap_jobs import Reapable, ReapCounts, reap_jobs
from holdfast.operations.release_jobs import release_jobs
from holdfast.operations.renew_leases import renew_leases
from holdfast.operations.statement import Verb
from holdfast.operations.worker_life import WorkerIdentity, register_worker
from holdfast.stores import AsyncStore, Store, StoreConfig, SyncStore, open_store

T = TypeVar("T")
E = TypeVar("E", bound=HoldfastError)

Face = Literal["sync", "async"]

LEASE: Final = timedelta(seconds=60)
DEAD_AFTER: Final = timedelta(seconds=20)
ERROR: Final = JobError("ValueError", "no such order", "Traceback …")

_TABLES = (
    "job",
    "job_type",
    "job_attempt",
    "worker",
    "retired",
    "prefetch",
    "setting",
    "queue",
    "queue_share",
    "limited_key",
    "migration",
    "job_status",
    "job_blocker",
    "job_step",
    "job_signal",
    "job_log",
    "deduplication",
    "processed",
    "audit",
    "waiter",
    "leader",
    "origin",
    "stats",
    "throughput",
    "schedule",
    "job_archive",
    "service",
)
_THREADS = 24


class Backdoor(Protocol):
    """Plain SQL on the database under test, past the store: whoever runs the suite brings it.

    Texts have `:name` parameters and no other colons; their tables are already filled in.
    """

    def execute(self, text: str, parameters: Mapping[str, object]) -> Sequence[Sequence[Any]]:
        """Run and commit."""
        ...

    def holding(self, text: str, parameters: Mapping[str, object]) -> AbstractContextManager[None]:
        """Run, keep the transaction open for the block, then roll it back."""
        ...


class _InThreads:
    """A sync store where an async one is expected; verbs that are gathered really run side by side."""

    def __init__(self, store: SyncStore, threads: ThreadPoolExecutor) -> None:
        self._store = store
        self._threads = threads

    async def run(self, verb: Verb[T], *, read_only: bool = False) -> T:
        return await self._in_thread(lambda: self._store.run(verb, read_only=read_only))

    async def ensure_ready(self) -> None:
        await self._in_thread(self._store.ensure_ready)

    async def migrate(self) -> Sequence[Migration]:
        return await self._in_thread(self._store.migrate)

    async def close(self) -> None:
        await self._in_thread(self._store.close)

    def _in_thread(self, work: Callable[[], T]) -> Awaitable[T]:
        return asyncio.get_running_loop().run_in_executor(self._threads, work)


class Harness:
    """A store under test, with one of its faces; an async context manager that closes what it opened.

    - `url`, `config`: where the database is; the config's clock is replaced by the harness's own.
    - `face`: which face of the store runs the verbs.
    - `backdoor`: see `Backdoor`.
    - `store` (made from url and config): to test a store that somebody else made, such as an app's, on `clock`.
    """

    def __init__(
        self,
        url: str,
        face: Face,
        backdoor: Backdoor,
        *,
        config: StoreConfig | None = None,
        store: Store | None = None,
        clock: FakeClock | None = None,
    ) -> None:
        self.url = url
        self.face: Face = face
        self.clock = clock or FakeClock()
        self.config = replace(config or StoreConfig(), clock=self.clock)
        self.store = store or open_store(url, self.config)
        self.backdoor = backdoor
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="conformance")
        self._opened: list[_InThreads | AsyncStore] = []
        self._main = self.open(self.store)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for face in self._opened:
            await face.close()
        self._threads.shutdown()

    @property
    def dialect(self) -> str:
        return self.store.dialect

    @property
    def now(self) -> datetime:
        return self.clock.now

    @property
    def claims_plainly(self) -> bool:
        return self.face == "sync" and self.dialect == "postgres"

    # --- faces --------------------------------------------------------------------------------------------------------

    def open(self, store: Store) -> _InThreads | AsyncStore:
        """The chosen face of a store, closed with the harness."""
        face = _InThreads(store.sync(), self._threads) if self.face == "sync" else store.asynchronous()
        self._opened.append(face)
        return face

    def neighbours(self, count: int, **changes: Any) -> list[_InThreads | AsyncStore]:
        """Stores that share only the database with this one, as other processes would; `changes` go into the config."""
        # SQLite's writer is shared per config, so a differing pool size, which SQLite ignores, keeps them apart.
        configs = (replace(self.config, pool_size=2 + number, **changes) for number in range(count))
        return [self.open(open_store(self.url, config)) for config in configs]

    def sibling(self, **changes: Any) -> Harness:
        """The same database through another config; enter it too."""
        config = replace(self.config, **changes)
        return Harness(self.url, self.face, self.backdoor, config=config, clock=self.clock)

    async def run(self, verb: Verb[T], *, read_only: bool = False) -> T:
        return await self._main.run(verb, read_only=read_only)

    async def ensure_ready(self) -> None:
        await self._main.ensure_ready()

    async def migrate(self) -> Sequence[Migration]:
        return await self._main.migrate()

    # --- behind the scenes --------------------------------------------------------------------------------------------

    def sql(self, text: str, **parameters: object) -> Sequence[Sequence[Any]]:
        """Plain SQL, committed; `{job}` and the like stand for the tables."""
        return self.backdoor.execute(text.format_map(self._tables()), parameters)

    def holding(self, text: str, **parameters: object) -> AbstractContextManager[None]:
        """Plain SQL in a transaction that stays open for the block."""
        return self.backdoor.holding(text.format_map(self._tables()), parameters)

    def count(self, table: str) -> int:
        return int(self.sql("SELECT count(*) FROM {" + table + "}")[0][0])  # noqa: S608 - one of our tables

    def _tables(self) -> dict[str, str]:
        if self.dialect == "postgres":
            return {name: f'"{self.config.schema}"."{self.config.prefix or ""}{name}"' for name in _TABLES}
        prefix = "holdfast_" if self.config.prefix is None else self.config.prefix
        return {name: f'"{prefix}{name}"' for name in _TABLES}

    # --- verbs with the values that most cases want -------------------------------------------------------------------

    async def enqueue(self, *documents: JobDocument) -> dict[str, Status]:
        """As if the caller had given every id."""
        given = {document.id for document in documents}
        return await self.run(lambda: enqueue_jobs(documents, None, given))

    async def put(self, count: int = 1, **fields: Any) -> list[str]:
        """Enqueue `count` jobs that differ only in their ids; returns these."""
        ids = new_ids(count)
        documents = [document(id=job_id, **fields) for job_id in ids]
        assert await self.run(lambda: enqueue_jobs(documents, None)) == {}
        return ids

    async def put_one(self, **fields: Any) -> str:
        (job_id,) = await self.put(1, **fields)
        return job_id

    async def lanes(self, *queues: str) -> list[Lane]:
        """From the beginning, as a worker that has just looked back would start."""
        position = ScanPosition()
        found = await self.run(lambda: find_lanes(queues or ("default",)), read_only=True)
        position.look_back((lane for lane in found if not lane.is_suspect and not lane.is_fair), 0, 0)
        return position.lanes

    async def claim(
        self,
        limit: int = 1000,
        *,
        worker: str = "w1",
        queues: Sequence[str] = ("default",),
        lanes: Sequence[Lane] | None = None,
        prefetch: bool = False,
        start: Instant | None = None,
        drops: Sequence[Instant] = (),
        run: int = 0,
        room: int = 0,
    ) -> Claim:
        """A sync face tries the short way for plain jobs first, so that every case is seen both ways."""
        chosen = await self.lanes(*queues) if lanes is None else lanes
        return await self.run(
            lambda: claim_jobs(
                worker, chosen, limit, LEASE, prefetch=prefetch, start=start, drops=drops, run=run, room=room,
                plain=self.claims_plainly,
            )
        )  # fmt: skip

    async def try_claim(self, store: _InThreads | AsyncStore, lanes: Sequence[Lane], worker: str) -> Claim:
        """Through another store; a claim that met another one in a partition key has nothing."""
        try:
            return await store.run(lambda: claim_jobs(worker, lanes, 100, LEASE))
        except SerializationConflict:
            return Claim()

    async def claim_suspect(self, *, worker: str = "w1", queues: Sequence[str] = ("default",)) -> list[ClaimedJob]:
        return await self.run(lambda: claim_suspect(worker, queues, LEASE))

    async def claim_one(self, *, worker: str = "w1") -> Lease:
        """The next job, which must exist."""
        (job,) = await self.claim(1, worker=worker)
        return lease_of(job)

    async def put_and_claim(self, count: int = 1, *, worker: str = "w1", **fields: Any) -> list[Lease]:
        await self.put(count, **fields)
        claimed = await self.claim(worker=worker)
        assert len(claimed) == count
        return [lease_of(job) for job in claimed]

    async def complete(self, *leases: Lease, output: str | None = None, worker: str | None = "w1") -> Settlement:
        jobs = [Completion(lease.id, lease.lease_generation, output) for lease in leases]
        return await self.run(lambda: complete_jobs(worker, jobs))

    async def fail(
        self,
        *leases: Lease,
        error: JobError = ERROR,
        delay: timedelta = timedelta(),
        is_final: bool = False,
        max_attempts: int = 5,
        worker: str = "w1",
    ) -> FailSettlement:
        jobs = [
            Failure(lease.id, lease.lease_generation, error, milliseconds(delay), is_final, max_attempts)
            for lease in leases
        ]
        return await self.run(lambda: fail_jobs(worker, jobs))

    async def release(self, *leases: Lease) -> Settlement:
        return await self.run(lambda: release_jobs(leases))

    async def renew(self, *leases: Lease, lease: timedelta = LEASE) -> Settlement:
        return await self.run(lambda: renew_leases(leases, lease))

    async def reap(self, *, worker: str = "reaper") -> ReapCounts:
        return await self.run(lambda: reap_jobs(worker, DEAD_AFTER))

    async def register(self, *workers: str) -> None:
        for worker in workers:
            identity = WorkerIdentity(id=worker, version="1.2.3", queues=["default"], metadata={"host": "db-7"})
            await self.run(partial(register_worker, identity))

    async def job(self, job_id: str) -> Job:
        return await self.run(lambda: get_job(job_id), read_only=True)

    async def find(self, job_id: str) -> Job | None:
        return await self.run(lambda: find_job(job_id), read_only=True)

    async def attempts(self, job_id: str) -> list[AttemptRecord]:
        return await self.run(lambda: list_attempts(job_id), read_only=True)

    async def state(self, job_id: str) -> tuple[Job | None, list[AttemptRecord]]:
        """All that a write by a holder could change."""
        return await self.find(job_id), await self.attempts(job_id)

    def set_setting(self, name: str, value: object) -> None:
        text = "INSERT INTO {setting} (name, value, changed_at) VALUES (:name, :value, :now)"
        self.sql(text, name=name, value=to_json(value).decode(), now=iso(self.now))


def document(*, id: str | None = None, input: object = None, at: datetime | None = None, **fields: Any) -> JobDocument:  # noqa: A002 - the columns' names
    """A job on its way into the database; what is not given has a value that no case depends on."""
    payload = msgspec.Raw(to_json({} if input is None else input))
    chosen: dict[str, Any] = {"type_name": "sum", "queue": "default"} | fields
    return JobDocument(id=id or new_id(), input=payload, scheduled_at=None if at is None else iso(at), **chosen)


def lease_of(job: ClaimedJob) -> Lease:
    return Lease(job.id, job.lease_generation)


def ids_of(jobs: Iterable[ClaimedJob | Job | Lease | Reapable]) -> list[str]:
    return [job.id for job in jobs]


async def refused(kind: type[E], action: Awaitable[object]) -> E:
    """The error that the action must raise."""
    try:
        found = await action
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}, but {found!r}")
