"""What jobs wait for: looked up and locked before they are written, written down after."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.errors import BlockerCycle, ChainNotFound
from holdfast.model.call import JobDocument
from holdfast.model.payload import to_json
from holdfast.model.status import Status
from holdfast.operations.statement import Operation, Statement

#: a chain that goes on with its next job while we look drops out of the answer for once
_LOOKS = 5


@dataclass(slots=True)
class Blocking:
    """The state of every chain that is waited for; those that are written by the same batch count as pending."""

    statuses: dict[str, Status] = field(default_factory=dict)
    #: ended without success, and somebody wants to hear of it
    failed: set[str] = field(default_factory=set)

    def is_resolved(self, chain_id: str, on_failure: str | None) -> bool:
        status = self.statuses[chain_id]
        return status is Status.COMPLETED or (status.is_terminal and on_failure == "run")

    def cancels(self, job: JobDocument) -> bool:
        """Whether the job asked to be cancelled when one of these fails, and one has."""
        return job.extras.on_blocker_failure == "cancel" and not self.failed.isdisjoint(_blockers(job))


def hold_blockers(
    jobs: Sequence[JobDocument], *, new: Collection[str] = (), waiting: Mapping[str, str] | None = None
) -> Operation[Blocking]:
    """Look up what `jobs` wait for, and note in each how much of it has not ended.

    `new` are chains of the same batch, which need not be there yet; `waiting` names the chain of each job that is part
    of an older one, which must not wait for itself.
    """
    missing = {chain_id for job in jobs for chain_id in _blockers(job)}
    blocking = Blocking()
    for _ in range(_LOOKS):
        if not missing:
            break
        rows = yield Statement("hold_chains", {"chains": to_json(sorted(missing)).decode()})
        blocking.statuses.update((chain_id, Status(status)) for chain_id, status in rows)
        missing -= blocking.statuses.keys()
        blocking.statuses.update((chain_id, Status.PENDING) for chain_id in missing.intersection(new))
        missing -= blocking.statuses.keys()
    if missing:
        raise ChainNotFound(min(missing))
    for job in jobs:
        if blockers := _blockers(job):
            on_failure = job.extras.on_blocker_failure
            job.extras.waiting_for = sum(not blocking.is_resolved(each, on_failure) for each in blockers) or None
            if on_failure == "cancel":
                ended = {each for each in blockers if blocking.statuses[each].is_terminal}
                blocking.failed |= {each for each in ended if blocking.statuses[each] is not Status.COMPLETED}
    if waiting:
        yield from refuse_cycles(jobs, waiting)
    return blocking


def refuse_cycles(jobs: Iterable[JobDocument], waiting: Mapping[str, str]) -> Operation[None]:
    """No chain may wait for itself, over however many others."""
    for job in jobs:
        chain_id = waiting.get(job.id)
        blockers = _blockers(job)
        if chain_id is not None and blockers:
            rows = yield Statement("find_awaited", {"chains": to_json(sorted(blockers)).decode()})
            if any(found == chain_id for (found,) in rows):
                raise BlockerCycle(chain_id)


def refuse_cycles_within(jobs: Sequence[JobDocument]) -> None:
    """The same among the chains of one batch, before anything is sent."""
    edges = {job.id: set(_blockers(job)) for job in jobs}
    while edges:
        free = {job_id for job_id, blockers in edges.items() if not blockers & edges.keys()}
        if not free:
            raise BlockerCycle(min(edges))
        for job_id in free:
            del edges[job_id]


def add_blockers(jobs: Sequence[JobDocument], blocking: Blocking) -> Operation[None]:
    """For jobs that this transaction has written."""
    rows = [
        {
            "job_id": job.id,
            "chain_id": chain_id,
            "index": index,
            "is_resolved": blocking.is_resolved(chain_id, job.extras.on_blocker_failure),
        }
        for job in jobs
        for index, chain_id in enumerate(_blockers(job))
    ]
    if rows:
        yield Statement("add_blockers", {"rows": to_json(rows).decode()})


def _blockers(job: JobDocument) -> list[str]:
    return (job.more.blockers if job.more else None) or []
