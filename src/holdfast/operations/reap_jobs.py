"""Take jobs back from holders that are gone.

The rule: a job is reapable when its lease ran out or its worker is dead.  What becomes of it is decided in `verdict`,
and written by a fenced statement that checks the reason again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import NamedTuple

import msgspec

from holdfast.model.clock import milliseconds
from holdfast.model.job import JobError
from holdfast.model.retry import Retry
from holdfast.operations.lease import Settlement, document
from holdfast.operations.settle_chains import settle_stragglers
from holdfast.operations.statement import Operation, Statement

#: after this many crashes of its worker a job is taken for their cause
CRASH_CAP = 3
_BATCH = 500


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


class Verdict(msgspec.Struct, frozen=True):
    """What becomes of it."""

    id: str
    lease_generation: int
    error: JobError
    delay_ms: int = 0
    is_dead: bool = False
    is_crash: bool = False
    is_refund: bool = False


class ReapCounts(NamedTuple):
    """What one round did."""

    returned: int = 0
    dead_letters: int = 0
    cancelled: int = 0


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
) -> Operation[ReapCounts]:
    """One batch; `worker_id` is the reaper's own, whose jobs are left alone.

    `choose` is asked when the database has answered: the question may have waited out an outage, after which
    everybody's heartbeat is old, or the process may have slept through everybody's.
    """
    rows = yield Statement(
        "find_reapable",
        {"worker": worker_id, "dead_after_ms": milliseconds(dead_after)},
        literals={"limit": _BATCH},
    )
    chosen = choose([Reapable(*row) for row in rows])
    if not chosen:
        return ReapCounts()
    verdicts = [verdict(job) for job in chosen]
    reaped = yield Statement("reap_jobs", {"dead_after_ms": milliseconds(dead_after), "jobs": document(verdicts)})
    yield from settle_stragglers(Settlement.of(reaped))
    outcomes = Counter(outcome for _, outcome in reaped)
    return ReapCounts(outcomes["pending"], outcomes["dead_letter"], outcomes["cancelled"])


def verdict(job: Reapable) -> Verdict:
    """Never started: all refunded. Perhaps not started: the attempt is refunded, the crash counted.

    Else an attempt is lost, and a crash is counted only against a dead worker.
    """
    if job.is_unstarted:
        return Verdict(job.id, job.lease_generation, JobError("WorkerDied", "never started"), is_refund=True)
    is_crash = bool(job.is_owner_dead)
    policy = Retry(**msgspec.structs.asdict(msgspec.json.decode(job.retry or b"{}", type=_StoredRetry)))
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
