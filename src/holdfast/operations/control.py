"""What the verbs of people (cancel, retry, reschedule, remove, delete) have in common: orders, targets, results, audit.

Each works in the same steps: lock and read what it is about, decide here, refuse before anything is written, write, and
put it on record in the same transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.errors import BatchRefused
from holdfast.model.control import ACTS_ON, ControlOutcome, ControlResult
from holdfast.model.job import JobError
from holdfast.model.payload import to_json
from holdfast.model.status import Status
from holdfast.operations.statement import Operation, Statement

#: a chain that goes on with its next job while its tail's lock is waited for is asked for again
_LOOKS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """How a verb is to go about its work.

    - `actor`: who wants it, for the record.
    - `is_strict`: do all of it or nothing.
    - `is_patient`: wait for rows that somebody has locked; otherwise they are reported as locked.
    - `is_chain`: ids name chains, and their last jobs are meant; otherwise exactly the jobs named.
    - `is_job_only`: what is asked of a job does not go for the jobs by which its chain goes on.
    - `aliases`: by each name of a job type that has several, the others: its keys are taken under all of them.
    """

    actor: str | None = None
    is_strict: bool = False
    is_patient: bool = True
    is_chain: bool = True
    is_job_only: bool = False
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class LockedJob(NamedTuple):
    """A job that nobody else changes until the transaction ends."""

    id: str
    chain_id: str
    is_tail: bool
    status: Status
    queue: str
    attempt: int
    waiting_for: int
    lease_generation: int
    type_name: str
    tenant: str | None


@dataclass(slots=True)
class ControlBatch:
    """What a verb did, and which queues got work by it.

    - `jobs`: as they were before, by the ids asked for; `error`: what those that were cancelled have got.
    """

    results: list[ControlResult]
    woken: set[str] = field(default_factory=set)
    jobs: Mapping[str, LockedJob] = field(default_factory=dict)
    error: JobError | None = None


@dataclass(slots=True)
class Targets:
    """What could be locked, and what became of the rest, by the ids asked for."""

    jobs: dict[str, LockedJob] = field(default_factory=dict)
    missing: dict[str, ControlResult] = field(default_factory=dict)


def lock_jobs(ids: Collection[str], orders: Orders, neighbours: str = "none") -> Operation[Targets]:
    """The jobs that the ids name, locked in the order of ids together with those that the verb will touch as well."""
    targets = Targets()
    open_ids = sorted(set(ids))
    for _ in range(_LOOKS):
        rows = yield Statement(
            "lock_jobs",
            {
                "jobs": to_json(open_ids).decode(),
                "tails": orders.is_chain,
                "neighbours": neighbours,
                "patient": orders.is_patient,
            },
        )
        open_ids = []
        for asked, job_id, chain_id, is_tail, status, *rest, was_found in rows:
            if job_id is None:
                is_locked = was_found and not orders.is_patient
                targets.missing[asked] = locked_result(asked) if is_locked else unknown_result(asked)
            elif orders.is_chain and not is_tail:
                open_ids.append(asked)
            else:
                targets.jobs[asked] = LockedJob(job_id, chain_id, bool(is_tail), Status(status), *rest)
        if not open_ids:
            break
    targets.missing.update((asked, locked_result(asked)) for asked in open_ids)
    return targets


def unknown_result(asked: str) -> ControlResult:
    why = "no job has this id; it may have been deleted, or live in another database or schema"
    return ControlResult(id=asked, outcome=ControlOutcome.NOT_FOUND, why=why)


def locked_result(asked: str) -> ControlResult:
    return ControlResult(id=asked, outcome=ControlOutcome.LOCKED, why="somebody else is just changing it; try again")


def result_of(asked: str, job: LockedJob, outcome: ControlOutcome, why: str | None = None) -> ControlResult:
    return ControlResult(id=asked, outcome=outcome, chain_id=job.chain_id, job_id=job.id, why=why)


def wrong_status(verb: str, asked: str, job: LockedJob) -> ControlResult:
    """For jobs in states on which the verb does nothing."""
    states = " or ".join(sorted(ACTS_ON[verb]))
    why = f"the job is {job.status}; {verb} is for jobs that are {states}"
    return result_of(asked, job, ControlOutcome.WRONG_STATUS, why)


def in_order(ids: Iterable[str], results: Mapping[str, ControlResult]) -> list[ControlResult]:
    """One result per id, in the order asked for; an id given twice has the same result twice."""
    return [results[asked] for asked in ids]


def refusal(verb: str, orders: Orders, results: Iterable[ControlResult]) -> BatchRefused | None:
    """The error of a strict batch of which something cannot be done."""
    refused = {result.id: result.why or result.outcome for result in results if not result.is_done}
    return BatchRefused(verb, refused) if orders.is_strict and refused else None


def refuse_if_strict(verb: str, orders: Orders, results: Iterable[ControlResult]) -> None:
    """Before anything is written."""
    if refused := refusal(verb, orders, results):
        raise refused


def record_audit(
    verb: str, orders: Orders, results: Sequence[ControlResult], detail: Mapping[str, object] | None = None
) -> Operation[None]:
    """Who did what, in the transaction that did it."""
    shared = None if detail is None else dict(detail)
    entries = [
        {
            "chain_id": result.chain_id,
            "job_id": result.job_id,
            "outcome": result.outcome,
            "detail": shared if result.chain_id is not None else {**(shared or {}), "asked": result.id},
        }
        for result in dict.fromkeys(results)
        if result.outcome is not ControlOutcome.LOCKED
    ]
    if entries:
        yield Statement("record_audit", {"actor": orders.actor, "verb": verb, "entries": to_json(entries).decode()})
