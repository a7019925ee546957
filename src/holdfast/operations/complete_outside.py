"""Complete a job without a worker: seize it from whoever holds it, and end it as a holder would, in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from holdfast.errors import AlreadyFinished, ChainNotFound, JobNotFound, SerializationConflict
from holdfast.model.call import JobDocument
from holdfast.model.control import ControlOutcome
from holdfast.model.job import Job
from holdfast.model.status import Status
from holdfast.operations.blockers import hold_blockers
from holdfast.operations.complete_jobs import Completion, complete_jobs
from holdfast.operations.continue_jobs import Continuation, continue_jobs
from holdfast.operations.control import Orders, lock_jobs
from holdfast.operations.get_job import find_job, get_job
from holdfast.operations.lease import Lease
from holdfast.operations.settle_chains import settle_chains
from holdfast.operations.statement import ATOMICALLY, Operation, Statement
from holdfast.operations.tell_holders import tell_holders
from holdfast.operations.within import within


@dataclass(slots=True)
class OutsideCompletion:
    """What is to be completed, and how.

    - `id`, `is_chain`: a job, or a chain whose last job is meant.
    - `documents`: the jobs by which the chain goes on; each but the last is completed by the one after it.
    - `encode`: the output that completes the last one, by its type's name; None = it is left to run.
    """

    id: str
    is_chain: bool
    documents: Sequence[JobDocument]
    encode: Callable[[str], str | None] | None
    #: the job that it began with, as it was before
    first: Job | None = field(default=None, init=False)
    #: what a try whose answer was lost may have done
    seized: Lease | None = field(default=None, init=False)


@dataclass(frozen=True, slots=True)
class CompletedOutside:
    """The chain's last job as it stands now, and the queues that got work."""

    job: Job
    woken: set[str]


def complete_outside(what: OutsideCompletion) -> Operation[CompletedOutside]:
    """All of it or, where something is refused, nothing: what can be refused comes before the first write."""
    yield ATOMICALLY
    if (done := (yield from _done_before(what))) is not None:
        return CompletedOutside(done, set())
    job = what.first = yield from _locked(what)
    if job.status.is_terminal:
        raise AlreadyFinished(job.id, job.status)
    types = [job.type_name, *(document.type_name for document in what.documents)]
    output = None if what.encode is None else what.encode(types[-1])
    yield from hold_blockers(what.documents, waiting={document.id: job.chain_id for document in what.documents})
    is_running = job.status is Status.RUNNING
    woken: set[str] = (yield from tell_holders([job.id])) if is_running else set()
    # Where no handler ran there is no time that it took.
    duration_ms = None if is_running else 0
    current = what.seized = yield from _seize(job.id)
    for document in what.documents:
        step = Continuation(current.id, current.lease_generation, document, duration_ms, job.chain_id)
        woken |= (yield from within(continue_jobs(None, [step]))).woken
        duration_ms = 0
        is_last = document is what.documents[-1]
        current = Lease(document.id, 0) if is_last and what.encode is None else (yield from _seize(document.id))
    if what.encode is not None:
        completion = Completion(current.id, current.lease_generation, output, duration_ms)
        settlement = yield from within(complete_jobs(None, [completion]))
        woken |= settlement.woken | (yield from settle_chains(settlement.unsettled))
    return CompletedOutside((yield from get_job(current.id)), woken)


def _locked(what: OutsideCompletion) -> Operation[Job]:
    targets = yield from lock_jobs([what.id], Orders(is_chain=what.is_chain), "dependants")
    if what.id in targets.missing:
        if targets.missing[what.id].outcome is ControlOutcome.LOCKED:
            raise SerializationConflict(f"chain {what.id} went on whenever it was about to be locked; try again")
        raise ChainNotFound(what.id) if what.is_chain else JobNotFound(what.id)
    return (yield from get_job(targets.jobs[what.id].id))


def _seize(job_id: str) -> Operation[Lease]:
    rows = yield Statement("seize_job", {"id": job_id})
    return Lease(job_id, rows[0][0])


def _done_before(what: OutsideCompletion) -> Operation[Job | None]:
    """A job that nobody in particular completed under the generation that was ours was completed by us."""
    if what.seized is None:
        return None
    job = yield from find_job(what.seized.id)
    if job is None or job.status is not Status.COMPLETED or job.completed_by is not None:
        return None
    if job.lease_generation != what.seized.lease_generation:
        return None
    return (yield from get_job(what.documents[-1].id)) if what.documents else job
