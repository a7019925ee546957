"""Why a job does not run, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

from holdfast.model.job import Job
from holdfast.model.operating import QueueRecord, WorkerRecord
from holdfast.model.ring import ANYBODYS_AFTER, Ring, bucket_of
from holdfast.model.status import Status

#: so many of the children that a job waits for are named
_NAMED = 10


class Chainlike(Protocol):
    """A chain that is waited for, and how it is."""

    @property
    def chain_id(self) -> str: ...
    @property
    def status(self) -> Status | None: ...


class Childlike(Chainlike, Protocol):
    """A chain that the job has enqueued by itself."""

    @property
    def name(self) -> str: ...
    @property
    def is_resolved(self) -> bool: ...


class Steplike(Protocol):
    """A saved part of the job, which may be a wait."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str | None: ...
    @property
    def signal(self) -> str | None: ...
    @property
    def ends_at(self) -> datetime | None: ...
    @property
    def is_open(self) -> bool: ...
    @property
    def lease_generation(self) -> int: ...


class Joblike(Protocol):
    """A job that is in the way."""

    @property
    def id(self) -> str: ...
    @property
    def status(self) -> Status: ...


class Turnlike(Protocol):
    """How many tenants take turns, and how many jobs of its own one are in front of a job; or more than that."""

    @property
    def tenants(self) -> int: ...
    @property
    def is_more(self) -> bool: ...
    @property
    def ahead(self) -> int: ...
    @property
    def is_far(self) -> bool: ...


def reasons_not_to_run(
    job: Job,
    *,
    now: datetime,
    blockers: Sequence[Chainlike] = (),
    ahead: Joblike | None = None,
    turn: Turnlike | None = None,
    queue: QueueRecord | None = None,
    workers: Sequence[WorkerRecord] = (),
    steps: Sequence[Steplike] = (),
    children: Sequence[Childlike] = (),
) -> list[str]:
    """Everything that is in its way; nothing for a job that runs or has ended.

    - `blockers`: the chains that it waits or waited for; `ahead`: the job of its partition key that it waits for.
    - `turn`: how far it is from its turn, where tenants take turns.
    - `queue`, `workers`: its queue, and all registered workers.
    - `steps`, `children`: what its handler has saved, and enqueued.
    """
    own = current_wait(job, steps)
    if job.status is Status.BLOCKED:
        return [*_of_wait(own, now), *_of_children(children), *_of_blockers(job, blockers)]
    if job.status is not Status.PENDING:
        return []
    of_time = _of_wait(own, now) if own is not None and job.ready_at > now else _of_time(job, now)
    found = [*of_time, *_of_key(job, ahead), *_of_turn(job, turn)]
    found += [*_of_queue(job, queue), *_of_workers(job, workers)]
    if ahead is None and not job.held:
        found += _of_ring(job, workers, now)
    if queue is not None and ahead is None:
        found[:0] = _of_limits(job, queue, now)
    return found or ["nothing is in its way: the next worker with a free slot takes it"]


def current_wait(job: Job, steps: Sequence[Steplike]) -> Steplike | None:
    """What the job sleeps through or waits for, if it has given back its slot for that."""
    for step in steps:
        if step.name == job.step and step.is_open and step.lease_generation == job.lease_generation:
            return step if job.status in {Status.BLOCKED, Status.PENDING} else None
    return None


def _of_wait(wait: Steplike | None, now: datetime) -> Iterator[str]:
    if wait is None:
        return
    left = (
        ""
        if wait.ends_at is None
        else f"{_shown(wait.ends_at)}, for another {_duration((wait.ends_at - now).total_seconds())}"
    )
    if wait.kind == "sleep":
        yield f"it sleeps ({wait.name!r}) until {left}"
    elif wait.kind == "signal":
        yield f"it waits for signal {wait.signal!r}" + (f" until {left}" if left else "")


def _of_children(children: Sequence[Childlike]) -> Iterator[str]:
    awaited = [child for child in children if not child.is_resolved]
    if awaited:
        yield f"it waits for {len(awaited)} of its {len(children)} children"
    for child in awaited[:_NAMED]:
        status = "gone" if child.status is None else _worded(child.status)
        remedy = (
            "; retry that chain, or cancel this job" if child.status is not None and child.status.is_terminal else ""
        )
        yield f"child {child.name!r}, chain {child.chain_id}, is {status}{remedy}"


def _of_blockers(job: Job, blockers: Sequence[Chainlike]) -> Iterator[str]:
    for blocker in blockers:
        if blocker.status is None or blocker.status is Status.COMPLETED:
            continue
        remedy = ""
        if blocker.status.is_terminal and job.on_blocker_failure == "wait":
            remedy = "; retry that chain, or cancel this job"
        yield f"it waits for chain {blocker.chain_id}, which is {_worded(blocker.status)}{remedy}"


def _of_time(job: Job, now: datetime) -> Iterator[str]:
    if job.expires_at is not None and job.attempt == 0 and job.expires_at <= now:
        yield f"it was not started by {_shown(job.expires_at)} and is about to be cancelled"
    elif job.ready_at > now:
        seconds = (job.ready_at - now).total_seconds()
        waits_for_key = job.concurrency_key is not None and job.ready_at > job.scheduled_at
        what = "it may start at" if waits_for_key else "it is scheduled for"
        what = "its next attempt is at" if job.attempt else what
        yield f"{what} {_shown(job.ready_at)}, in {_duration(seconds)}"
    if job.crash_count:
        yield f"{job.crash_count} of its workers died: it is started when a worker has nothing else to do"


def _of_key(job: Job, ahead: Joblike | None) -> Iterator[str]:
    if ahead is not None:
        yield f"it is behind job {ahead.id} of partition key {job.partition_key!r}, which is {_worded(ahead.status)}"


def _of_turn(job: Job, turn: Turnlike | None) -> Iterator[str]:
    """Whose turn it is each worker knows for itself, and nobody else."""
    if turn is None:
        return
    if turn.tenants > 1:
        tenants = f"{turn.tenants} or more" if turn.is_more else f"{turn.tenants}"
        yield f"tenants take turns in queue {job.queue!r}, and {tenants} have jobs that are due"
    if turn.ahead:
        ahead = f"{turn.ahead} or more" if turn.is_far else f"{turn.ahead}"
        yield f"it is behind {ahead} other jobs of its tenant {job.tenant!r}"


def _of_queue(job: Job, queue: QueueRecord | None) -> Iterator[str]:
    if queue is None:
        return
    if queue.paused_at is not None:
        until = "" if queue.resume_at is None else f", until {_shown(queue.resume_at)}"
        why = "" if queue.pause_reason is None else f": {queue.pause_reason}"
        yield f"queue {job.queue!r} is paused since {_shown(queue.paused_at)}{until}{why}"
    if queue.concurrency is not None and queue.running >= queue.concurrency:
        yield f"queue {job.queue!r} may run {queue.concurrency} jobs at a time, and {queue.running} are claimed"
    if queue.rate is not None:
        yield f"queue {job.queue!r} starts at most {queue.rate:g} jobs per second"


def _of_limits(job: Job, queue: QueueRecord, now: datetime) -> Iterator[str]:
    """What its concurrency key may do, if it waits for that."""
    if job.concurrency_key is None or not (job.held or job.ready_at > now):
        return
    if queue.key_concurrency is not None and job.held:
        yield f"of concurrency key {job.concurrency_key!r} {queue.key_concurrency} jobs may run at a time"
    if queue.key_rate is not None:
        yield f"of concurrency key {job.concurrency_key!r} at most {queue.key_rate:g} jobs start per second"


def _of_workers(job: Job, workers: Sequence[WorkerRecord]) -> Iterator[str]:
    serving = _serving(job, workers)
    if not serving:
        yield f"no live worker serves queue {job.queue!r}"
        return
    knowing = [worker for worker in serving if job.type_name in _listed(worker, "types", [job.type_name])]
    if not knowing:
        yield f"no live worker of queue {job.queue!r} knows job type {job.type_name!r}"
        return
    flags = set(job.flags or ())
    asking = [worker for worker in knowing if flags and worker.metadata.get("forbidden_flags", ...) is None]
    refused = [flags.intersection(_listed(worker, "forbidden_flags", [])) for worker in knowing if worker not in asking]
    if not all(refused):
        return
    if asking:
        who = ", ".join(worker.id for worker in asking)
        yield f"a function of worker {who} decides whether flags of it are forbidden: {', '.join(sorted(flags))}"
    else:
        named = ", ".join(sorted(set.union(*refused)))
        yield f"every live worker of queue {job.queue!r} that knows its type forbids flags of it: {named}"


def _of_ring(job: Job, workers: Sequence[WorkerRecord], now: datetime) -> Iterator[str]:
    """Whose its partition key is, while all who could take it leave it to that one.

    By who is registered as alive: the workers go by who was heard lately, which may differ for some seconds.
    """
    serving = _serving(job, workers)
    left = job.ready_at + ANYBODYS_AFTER - now
    if job.partition_key is None or not timedelta() < left <= ANYBODYS_AFTER:
        return
    ring = {worker.id for worker in serving if worker.metadata.get("affinity") == "ring"}
    if len(ring) == len(serving) > 1:
        bucket = bucket_of(job.partition_key)
        owner = Ring(ring).owners[bucket]
        others = f"others take it in {_duration(left.total_seconds())}"
        yield f"its partition key is in bucket {bucket} of queue {job.queue!r}, which is worker {owner}'s; {others}"


def _serving(job: Job, workers: Sequence[WorkerRecord]) -> list[WorkerRecord]:
    return [worker for worker in workers if worker.status == "alive" and job.queue in worker.queues]


def _listed(worker: WorkerRecord, name: str, unknown: list[str]) -> list[Any]:
    """What it says of itself; workers in SQL, and older ones, say nothing."""
    value = worker.metadata.get(name)
    return value if isinstance(value, list) else unknown


def _worded(status: Status) -> str:
    return str(status).replace("_", " ")


def _shown(moment: datetime) -> str:
    return moment.isoformat(sep=" ", timespec="seconds")


def _duration(seconds: float) -> str:
    for size, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} seconds"
