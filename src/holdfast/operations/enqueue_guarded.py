"""Create jobs in whose creation other chains have a say: who holds their keys, and what they wait for.

Everything that may refuse comes before the first job is written, so that a refusal leaves nothing behind, in the
caller's transaction either:

1. the blockers are looked up and locked (`hold_blockers`);
2. the keys are taken in their order (`take_keys`); those that somebody took before are judged under their lock
   (`judge_keys`); whoever is refused gives back what this call took;
3. the jobs are written: created, replaced in place, or kept.

Equal keys of one batch act as if they were sent one after the other: in rounds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import msgspec

from holdfast.errors import BlockerCycle, DuplicateKey, InvalidOption
from holdfast.model.call import JobDocument
from holdfast.model.job import Job, Outcome
from holdfast.model.payload import to_json
from holdfast.model.status import Status
from holdfast.operations.blockers import Blocking, add_blockers, hold_blockers, refuse_cycles, refuse_cycles_within
from holdfast.operations.enqueue_jobs import enqueue_jobs
from holdfast.operations.get_job import find_job
from holdfast.operations.settle_chains import settle_chains
from holdfast.operations.statement import ATOMICALLY, Operation, Statement


@dataclass(slots=True)
class Enqueued:
    """What became of one job of a batch."""

    id: str
    status: Status = Status.PENDING
    outcome: Outcome = Outcome.CREATED
    #: the chain that had to give up the key
    superseded: str | None = None


@dataclass(slots=True)
class _Round:
    """Jobs with different keys, and what is to become of them."""

    created: list[int] = field(default_factory=list)
    replaced: list[int] = field(default_factory=list)
    #: keys that this call inserted, and keys that change their holder
    taken: list[int] = field(default_factory=list)
    pointed: list[int] = field(default_factory=list)


def enqueue_guarded(
    jobs: Sequence[JobDocument], channel: str | None, given_ids: Collection[str] = ()
) -> Operation[list[Enqueued]]:
    """Insert `jobs`, or find or replace those that hold their keys; the results are in the same order."""
    yield ATOMICALLY
    jobs = [_copy(job) for job in jobs]  # whoever repeats this after a conflict starts from what was sent
    refuse_cycles_within(jobs)
    _refuse_kept_blockers(jobs)
    rounds = _rounds(jobs)
    known = yield from _find_given(jobs, given_ids)
    blocking = yield from hold_blockers(jobs, new={job.id for job in jobs})
    results = [Enqueued(job.id, Status.BLOCKED if _is_blocked(job) else Status.PENDING) for job in jobs]
    for place, kept in known.items():
        results[place] = Enqueued(kept.id, kept.status, Outcome.KEPT)
    for number, all_places in enumerate(rounds):
        places = [place for place in all_places if place not in known]
        is_repeated = len(rounds) > 1 and number == 0
        plan = yield from _decide(jobs, places, results, is_repeated=is_repeated)
        yield from _write(jobs, plan, results, blocking, channel, given_ids)
    yield from settle_chains(blocking.failed)
    for job, result in zip(jobs, results, strict=True):
        if result.outcome is not Outcome.KEPT and blocking.cancels(job):
            result.status = Status.CANCELLED
    return results


def _find_given(jobs: Sequence[JobDocument], given_ids: Collection[str]) -> Operation[dict[int, Job]]:
    """Jobs that exist already under an id that the caller gave: they are kept, and take no key."""
    known: dict[int, Job] = {}
    for place, job in enumerate(jobs):
        if job.id in given_ids:
            found = yield from find_job(job.id)
            if found is not None:
                if (found.type_name, found.chain_index) != (job.type_name, 0):
                    raise InvalidOption("id", job.id, f"belongs to a job of {found.type_name!r}; give another one")
                known[place] = found
    return known


def _copy(job: JobDocument) -> JobDocument:
    return msgspec.structs.replace(job, more=msgspec.structs.replace(job.extras))


def _refuse_kept_blockers(jobs: Sequence[JobDocument]) -> None:
    """A job with a key may turn out to be another one, which only its enqueue tells."""
    keyed = {job.id for job in jobs if _key(job)}
    for job in jobs:
        for blocker in job.extras.blockers or ():
            if blocker in keyed:
                raise InvalidOption("blockers", blocker, "is a job of this batch with a dedup key; enqueue it first")


def _rounds(jobs: Sequence[JobDocument]) -> list[list[int]]:
    """Places by how often their key came before; what has no key goes with the first."""
    seen: dict[tuple[str, str], str] = {}
    rounds: defaultdict[int, list[int]] = defaultdict(list)
    times: defaultdict[tuple[str, str], int] = defaultdict(int)
    for place, job in enumerate(jobs):
        key = _key(job)
        if key is None:
            rounds[0].append(place)
            continue
        if key in seen and job.extras.on_conflict == "reject":
            raise DuplicateKey(*key, seen[key])
        if key in seen and job.extras.blockers:
            # It might replace what this very call has written, and a cycle would be found too late.
            raise InvalidOption("blockers", key[1], "cannot be given where the batch names a key again; send it apart")
        seen.setdefault(key, job.id)
        rounds[times[key]].append(place)
        times[key] += 1
    return [rounds[number] for number in sorted(rounds)]


def _decide(
    jobs: Sequence[JobDocument], places: Sequence[int], results: list[Enqueued], *, is_repeated: bool
) -> Operation[_Round]:
    plan = _Round(created=[place for place in places if _key(jobs[place]) is None])
    keyed = sorted((place for place in places if _key(jobs[place])), key=lambda place: _key(jobs[place]) or ("", ""))
    if not keyed:
        return plan
    rows = yield Statement("take_keys", {"keys": _keys(jobs, keyed, is_repeated=is_repeated)})
    judged: list[int] = []
    for place, chain_id, outcome in rows:
        if outcome == "taken":
            plan.taken.append(place)
            plan.created.append(place)
        elif outcome == "judge":
            judged.append(place)
        else:
            results[place] = Enqueued(chain_id, Status.PENDING, Outcome.KEPT)
    if judged:
        yield from _judge(jobs, sorted(judged), results, plan)
    kept = [place for place in keyed if results[place].outcome is Outcome.KEPT]
    yield from _read_statuses(results, kept)
    plan.created.sort()
    return plan


def _judge(
    jobs: Sequence[JobDocument], places: Sequence[int], results: list[Enqueued], plan: _Round
) -> Operation[None]:
    rows = yield Statement("judge_keys", {"keys": _keys(jobs, places)})
    for place, chain_id, is_holding, is_replaceable, _ in rows:
        job = jobs[place]
        on_conflict = job.extras.on_conflict
        if not is_holding:
            plan.pointed.append(place)
            plan.created.append(place)
        elif on_conflict == "keep":
            results[place] = Enqueued(chain_id, Status.PENDING, Outcome.KEPT)
        elif on_conflict == "reject":
            if plan.taken:
                yield Statement("return_keys", {"keys": _keys(jobs, plan.taken)})
            raise DuplicateKey(job.type_name, job.extras.deduplication_key or "", chain_id)
        elif is_replaceable:
            yield from _refuse_cycle(job, chain_id, jobs, plan)
            job.id = chain_id
            results[place] = Enqueued(chain_id, results[place].status, Outcome.REPLACED)
            plan.replaced.append(place)
            plan.pointed.append(place)
        else:
            results[place].superseded = chain_id
            plan.pointed.append(place)
            plan.created.append(place)


def _refuse_cycle(job: JobDocument, chain_id: str, jobs: Sequence[JobDocument], plan: _Round) -> Operation[None]:
    """Before anything is written; the keys that were taken so far are given back."""
    try:
        yield from refuse_cycles([job], {job.id: chain_id})
    except BlockerCycle:
        if plan.taken:
            yield Statement("return_keys", {"keys": _keys(jobs, plan.taken)})
        raise


def _write(  # noqa: PLR0917 - the parts of one enqueue
    jobs: Sequence[JobDocument],
    plan: _Round,
    results: list[Enqueued],
    blocking: Blocking,
    channel: str | None,
    given_ids: Collection[str],
) -> Operation[None]:
    replaced = [jobs[place] for place in plan.replaced]
    if plan.pointed:
        yield Statement("point_keys", {"keys": _keys(jobs, plan.pointed)})
    if replaced:
        yield Statement("replace_jobs", {"jobs": msgspec.json.encode(replaced).decode()})
        yield from add_blockers(replaced, blocking)
    if plan.created:
        created = [jobs[place] for place in plan.created]
        existing = yield from enqueue_jobs(created, channel, given_ids)
        for place in plan.created:
            if jobs[place].id in existing:
                results[place].outcome = Outcome.KEPT
                results[place].status = existing[jobs[place].id]
        yield from add_blockers([job for job in created if job.id not in existing], blocking)


def _read_statuses(results: list[Enqueued], places: Sequence[int]) -> Operation[None]:
    """Of the chains that are kept: the state of their last jobs."""
    if places:
        chains = sorted({results[place].id for place in places})
        rows = yield Statement("chain_statuses", {"chains": to_json(chains).decode()})
        statuses = {chain_id: Status(status) for chain_id, status in rows}
        for place in places:
            # A key may outlive its chain, which then has ended.
            results[place].status = statuses.get(results[place].id, Status.COMPLETED)


def _keys(jobs: Sequence[JobDocument], places: Sequence[int], *, is_repeated: bool = False) -> str:
    return to_json(
        [
            {
                "place": place,
                "type_name": jobs[place].type_name,
                "key": jobs[place].extras.deduplication_key,
                "chain_id": jobs[place].id,
                "scope": jobs[place].extras.deduplication_scope,
                "window_ms": jobs[place].extras.window_ms,
                "on_conflict": jobs[place].extras.on_conflict,
                "is_repeated": is_repeated,
            }
            for place in places
        ]
    ).decode()


def _key(job: JobDocument) -> tuple[str, str] | None:
    if job.more is None or job.more.deduplication_key is None:
        return None
    return job.type_name, job.more.deduplication_key


def _is_blocked(job: JobDocument) -> bool:
    return job.more is not None and job.more.waiting_for is not None
