"""Take jobs back from holders that are gone.

The rule: a job is reapable when its lease ran out or its worker is dead.  What becomes of it is decided in `verdict`,
and written by a fenced statement that checks the reason again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple

import msgspec

from holdfast.model.clock import milliseconds
from holdfast.model.job import JobError
from holdfast.model.retry import Retry
from holdfast.model.settings import RetrySettings
from holdfast.operations.lease import Settlement, document
from holdfast.operations.settle_chains import settle_stragglers
from holdfast.operations.statement import Operation, Statement
from holdfast.operations.worker_life import heard_steadily

#: after this many crashes of its worker a job is taken for their cause
CRASH_CAP = 3
_BATCH = 500
_NOTHING_SET = RetrySettings()


class Reapable(NamedTuple):
    """A running job without a living, punctual holder."""

    id: str
    lease_generation: int
    type_name: str
    leased_by: str
    attempt: int
    crash_count: int
    attempts_allowed: int | None
    retry: bytes | str | None
    is_owner_dead: bool
    is_unstarted: bool
    is_uncertain: bool
    queue: str
    chain_id: str
    tenant: str | None


class Verdict(msgspec.Struct, frozen=True):
    """What becomes of it."""

    id: str
    lease_generation: int
    error: JobError
    delay_ms: int = 0
    is_dead: bool = False
    is_crash: bool = False
    is_refund: bool = False


@dataclass(frozen=True, slots=True)
class ReapCounts:
    """What one round did; `jobs` are those that it took back, with what became of each: a status, and why."""

    returned: int = 0
    dead_letters: int = 0
    cancelled: int = 0
    jobs: Sequence[tuple[Reapable, str, JobError]] = field(default=(), compare=False)

    def __bool__(self) -> bool:
        return bool(self.returned or self.dead_letters or self.cancelled)


class _StoredRetry(msgspec.Struct):
    max_attempts: int = 5
    initial: float = 1.0
    factor: float = 2.0
    maximum: float = 3600.0
    jitter: float = 0.1


def reap_jobs(
    worker_id: str,
    dead_after: timedelta,
    choose: Callable[[Sequence[Reapable]], Sequence[Reapable]] = lambda found: found,
    *,
    is_steady: Callable[[], bool] = lambda: True,
    settings: RetrySettings = _NOTHING_SET,
) -> Operation[ReapCounts]:
    """One batch; `worker_id` is the reaper's own, whose jobs are left alone.

    `is_steady` and `choose` are asked when the database has answered: the question may have waited out an outage, after
    which everybody's heartbeat is old, or the process may have slept through everybody's.  One that is not steady
    itself goes by what others have left in the database. `settings`: what operators have set for retries.
    """
    found = yield from find_reapable(worker_id, dead_after)
    if found and not is_steady() and not (yield from heard_steadily(dead_after)):
        return ReapCounts()
    chosen = choose(found)
    if not chosen:
        return ReapCounts()
    verdicts = [verdict(job, settings) for job in chosen]
    reaped = yield Statement("reap_jobs", {"dead_after_ms": milliseconds(dead_after), "jobs": document(verdicts)})
    yield from settle_stragglers(Settlement.of(reaped))
    outcomes = Counter(outcome for _, outcome in reaped)
    became = {job_id: outcome for job_id, outcome in reaped if outcome not in {"woken", "unsettled"}}
    jobs = [(job, became[job.id], each.error) for job, each in zip(chosen, verdicts, strict=True) if job.id in became]
    return ReapCounts(outcomes["pending"], outcomes["dead_letter"], outcomes["cancelled"], jobs)


def find_reapable(worker_id: str, dead_after: timedelta) -> Operation[list[Reapable]]:
    """The first of those that are not the asking worker's own; reads only."""
    rows = yield Statement(
        "find_reapable",
        {"worker": worker_id, "dead_after_ms": milliseconds(dead_after)},
        literals={"limit": _BATCH},
    )
    return [Reapable(*row) for row in rows]


def verdict(job: Reapable, settings: RetrySettings = _NOTHING_SET) -> Verdict:
    """Never started: all refunded. Perhaps not started: the attempt is refunded, the crash counted.

    Else an attempt is lost, and a crash is counted only against a dead worker.
    """
    if job.is_unstarted:
        return Verdict(job.id, job.lease_generation, JobError("WorkerDied", "never started"), is_refund=True)
    is_crash = bool(job.is_owner_dead)
    stored = msgspec.structs.asdict(msgspec.json.decode(job.retry or b"{}", type=_StoredRetry))
    policy = settings.over(Retry(**stored), job.type_name)
    if is_crash and job.crash_count + 1 >= CRASH_CAP:
        message = f"killed its worker {job.crash_count + 1} times; the last one was {job.leased_by}"
        return Verdict(job.id, job.lease_generation, JobError("WorkerDied", message), is_dead=True, is_crash=True)
    if job.is_uncertain:
        # It waited in a buffer of which some had started: suspect it, but take nothing from it.
        error = JobError("WorkerDied", f"worker died (held by {job.leased_by}), perhaps before this was started")
        delay_ms = milliseconds(policy.delay(job.attempt))
        return Verdict(job.id, job.lease_generation, error, delay_ms=delay_ms, is_crash=True, is_refund=True)
    what = "worker died" if is_crash else "lease expired"
    error = JobError("WorkerDied" if is_crash else "LeaseExpired", f"{what} (held by {job.leased_by})")
    return Verdict(
        job.id,
        job.lease_generation,
        error,
        delay_ms=milliseconds(policy.delay(job.attempt)),
        is_dead=job.attempt >= (job.attempts_allowed or policy.max_attempts),
        is_crash=is_crash,
    )
