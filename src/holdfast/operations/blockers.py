"""What jobs wait for: looked up and locked before they are written, written down after."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.errors import BlockerCycle, ChainNotFound
from holdfast.model.call import JobDocument
from holdfast.model.payload import to_json
from holdfast.model.status import Status
from holdfast.operations.cycles import find_waits, reaches
from holdfast.operations.look_at_chains import look_at_archive
from holdfast.operations.statement import Operation, Statement

#: a chain that goes on with its next job while we look drops out of the answer for once
_LOOKS = 5

#: a cycle of more waits than this is left to the sweep
_WALK = 100_000

_SNAPSHOT = (
    "it may be newer than the snapshot of this transaction, which at REPEATABLE READ and SERIALIZABLE is that of its "
    "first statement; enqueue the blocker in the same transaction or begin after its commit, or use READ COMMITTED"
)


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
    jobs: Sequence[JobDocument],
    *,
    new: Collection[str] = (),
    ending: Collection[str] = (),
    waiting: Mapping[str, str] | None = None,
) -> Operation[Blocking]:
    """Look up what `jobs` wait for, and note in each how much of it has not ended.

    `new` are chains of the same batch, which need not be there yet; `ending` those that it will cancel, because nobody
    started them in time; `waiting` names the chain of each job that is part of an older one, which must not wait for
    itself.
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
        archived = yield from look_at_archive(missing)
        blocking.statuses.update((chain_id, Status(str(sight.status))) for chain_id, sight in archived.items())
        missing -= archived.keys()
    if missing:
        ((sees_commits,),) = yield Statement("sees_commits")
        raise ChainNotFound(min(missing), None if sees_commits else _SNAPSHOT)
    blocking.statuses.update((chain_id, Status.CANCELLED) for chain_id in blocking.statuses.keys() & set(ending))
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


def refuse_cycles(jobs: Sequence[JobDocument], waiting: Mapping[str, str]) -> Operation[None]:
    """No chain may wait for itself, over however many others, those of the same batch among them.

    `waiting` as above; whatever their chains wait for now, they will not when these are written.
    """
    waits: defaultdict[str, set[str]] = defaultdict(set)
    for job in jobs:
        waits[waiting.get(job.id, job.id)].update(_blockers(job))
    found = yield from find_waits(set().union(*waits.values()), _WALK)
    changing = set(waiting.values())
    for wait in found:
        if wait.chain_id not in changing:
            waits[wait.chain_id].add(wait.blocked_by)
    for job in jobs:
        if (chain_id := waiting.get(job.id)) is not None and reaches(_blockers(job), chain_id, waits):
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
