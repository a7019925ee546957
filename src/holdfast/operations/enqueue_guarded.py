"""Create jobs in whose creation other chains have a say: who holds their keys, and what they wait for.

Everything that may refuse comes before the first job is written, so that a refusal leaves nothing behind, in the
caller's transaction either:

1. the keys are taken in their order (`take_keys`); those that somebody took before are judged under their lock
   (`judge_keys`); whoever is refused, here or below, gives back what this call took;
2. what the jobs wait for is looked up and locked (`hold_blockers`), for those only that will be written;
3. the jobs are written: created, replaced in place, or kept.

Keys before jobs, as the verbs of people lock them.

Equal keys of one batch act as if they were sent one after the other: in rounds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import cast

import msgspec

from holdfast.errors import BlockerCycle, ChainNotFound, DuplicateKey, InvalidOption
from holdfast.model.call import JobDocument
from holdfast.model.job import Outcome
from holdfast.model.payload import to_json
from holdfast.model.status import Status
from holdfast.operations.blockers import Blocking, add_blockers, hold_blockers, refuse_cycles, refuse_cycles_within
from holdfast.operations.enqueue_jobs import Aliases, enqueue_jobs, find_given
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
    #: entries of keys that this call inserted, as they were sent
    taken: list[dict[str, object]] = field(default_factory=list)
    #: places of jobs whose keys change their holder
    pointed: list[int] = field(default_factory=list)
    #: jobs that were not started in time and whose keys go to others, with their chains
    overdue: dict[str, str] = field(default_factory=dict)

    def give_back(self, places: Collection[int] | None = None) -> Operation[None]:
        """What was taken for jobs that will not be written, or at these places."""
        entries = [entry for entry in self.taken if places is None or entry["place"] in places]
        if entries:
            yield Statement("return_keys", {"keys": to_json(entries).decode()})


def enqueue_guarded(
    jobs: Sequence[JobDocument],
    channel: str | None,
    given_ids: Collection[str] = (),
    aliases: Aliases | None = None,
    *,
    woken: set[str] | None = None,
) -> Operation[list[Enqueued]]:
    """Insert `jobs`, or find or replace those that hold their keys; the results are in the same order.

    - `woken` gets the queues that got work because other jobs gave way; and, where there is a channel, those of jobs
      that were replaced: a hint goes out with the commit for what is inserted only.
    """
    yield ATOMICALLY
    woken = set() if woken is None else woken
    jobs = [_copy(job) for job in jobs]  # whoever repeats this after a conflict starts from what was sent
    refuse_cycles_within(jobs)
    _refuse_kept_blockers(jobs)
    names = aliases or {}
    yield from _refuse_repeated(jobs, names)
    rounds = _rounds(jobs)
    known = yield from find_given(jobs, given_ids, names)
    new = {job.id for job in jobs}
    blocking = Blocking()
    results = [Enqueued(job.id) for job in jobs]
    for result in results:
        if result.id in known:
            result.status, result.outcome = known[result.id], Outcome.KEPT
    for number, all_places in enumerate(rounds):
        places = [place for place in all_places if jobs[place].id not in known]
        is_repeated = len(rounds) > 1 and number == 0
        plan = yield from _decide(jobs, places, results, names, is_repeated=is_repeated)
        if number == 0:  # who comes later in the batch with the same key has no blockers
            blocking = yield from _hold(jobs, plan, results, new)
        woken |= yield from _make_room(jobs, plan, blocking, names)
        if channel is not None:
            woken.update(jobs[place].queue for place in plan.replaced)
        yield from _create(jobs, plan, results, blocking, channel, given_ids, names)
    woken |= yield from settle_chains(blocking.failed, ended_here=False)
    for job, result in zip(jobs, results, strict=True):
        if result.outcome is not Outcome.KEPT and blocking.cancels(job):
            result.status = Status.CANCELLED
    return results


def _copy(job: JobDocument) -> JobDocument:
    return msgspec.structs.replace(job, more=msgspec.structs.replace(job.extras))


def _refuse_kept_blockers(jobs: Sequence[JobDocument]) -> None:
    """A job with a key may turn out to be another one, which only its enqueue tells."""
    keyed = {job.id for job in jobs if _key(job)}
    for job in jobs:
        for blocker in job.extras.blockers or ():
            if blocker in keyed:
                raise InvalidOption("blockers", blocker, "is a job of this batch with a dedup key; enqueue it first")


def _refuse_repeated(jobs: Sequence[JobDocument], aliases: Aliases) -> Operation[None]:
    """A job that rejects, behind another one of the batch with its key: the chain that would hold the key by then."""
    firsts: dict[tuple[str, str], int] = {}
    for place, job in enumerate(jobs):
        key = _key(job)
        if key is None:
            continue
        first = firsts.setdefault(key, place)
        if first != place and job.extras.on_conflict == "reject":
            # Asked without a wish, because a holder that is to be replaced would be locked.
            entries = [{**entry, "on_conflict": None} for entry in _entries(jobs, [first], aliases)]
            rows = yield Statement("judge_keys", {"keys": to_json(entries).decode()})
            is_replacing = jobs[first].extras.on_conflict.startswith("replace")
            holders = [
                chain_id
                for _, chain_id, is_holding, is_replaceable, *_ in rows
                if is_holding and (is_replaceable or not is_replacing)
            ]
            raise DuplicateKey(*key, min(holders, default=None))


def _rounds(jobs: Sequence[JobDocument]) -> list[list[int]]:
    """Places by how often their key came before; what has no key goes with the first."""
    seen: set[tuple[str, str]] = set()
    rounds: defaultdict[int, list[int]] = defaultdict(list)
    times: defaultdict[tuple[str, str], int] = defaultdict(int)
    for place, job in enumerate(jobs):
        key = _key(job)
        if key is None:
            rounds[0].append(place)
            continue
        if key in seen and job.extras.blockers:
            # It might replace what this very call has written, and a cycle would be found too late.
            raise InvalidOption("blockers", key[1], "cannot be given where the batch names a key again; send it apart")
        seen.add(key)
        rounds[times[key]].append(place)
        times[key] += 1
    return [rounds[number] for number in sorted(rounds)]


def _decide(
    jobs: Sequence[JobDocument], places: Sequence[int], results: list[Enqueued], aliases: Aliases, *, is_repeated: bool
) -> Operation[_Round]:
    plan = _Round(created=[place for place in places if _key(jobs[place]) is None])
    keyed = sorted((place for place in places if _key(jobs[place])), key=lambda place: _key(jobs[place]) or ("", ""))
    if not keyed:
        return plan
    entries = _entries(jobs, keyed, aliases, is_repeated=is_repeated)
    rows = yield Statement("take_keys", {"keys": to_json(entries).decode()})
    outcomes: defaultdict[int, set[str]] = defaultdict(set)
    for place, chain_id, outcome in rows:
        outcomes[place].add(outcome)
        if outcome == "kept":
            results[place] = Enqueued(chain_id, Status.PENDING, Outcome.KEPT)
    # An entry that was there before has another chain's id, so it does no harm among those to be given back.
    plan.taken = [entry for entry in entries if "taken" in outcomes[cast("int", entry["place"])]]
    plan.created += [place for place, found in outcomes.items() if found == {"taken"}]
    judged = sorted(place for place, found in outcomes.items() if "judge" in found and "kept" not in found)
    if judged:
        yield from _judge(jobs, judged, results, plan, aliases)
    kept = [place for place in keyed if results[place].outcome is Outcome.KEPT]
    yield from plan.give_back(kept)
    yield from _read_statuses(results, kept)
    plan.created.sort()
    return plan


def _judge(
    jobs: Sequence[JobDocument], places: Sequence[int], results: list[Enqueued], plan: _Round, aliases: Aliases
) -> Operation[None]:
    asked = Statement("judge_keys", {"keys": to_json(_entries(jobs, places, aliases)).decode()})
    rows = yield asked
    if any(tail_status is None for _, _, _, _, tail_status, _ in rows):
        # Gone, or it went on with its next job while its lock was waited for, which only a later look can see.
        rows = yield asked
    holders: dict[int, tuple[str, bool]] = {}
    for place, chain_id, is_holding, is_replaceable, _, overdue_id in rows:
        if overdue_id is not None and not is_holding:
            plan.overdue[overdue_id] = chain_id
        if is_holding and chain_id != jobs[place].id:
            # Where a type that was renamed has two, from before its names were one, the older is meant.
            holders[place] = min(holders.get(place, (chain_id, is_replaceable)), (chain_id, is_replaceable))
    for place in places:
        job = jobs[place]
        on_conflict = job.extras.on_conflict
        chain_id, is_replaceable = holders.get(place, (None, False))
        if chain_id is None:
            plan.pointed.append(place)
            plan.created.append(place)
        elif on_conflict == "keep":
            results[place] = Enqueued(chain_id, Status.PENDING, Outcome.KEPT)
        elif on_conflict == "reject":
            yield from plan.give_back()
            raise DuplicateKey(job.type_name, job.extras.deduplication_key or "", chain_id)
        elif is_replaceable:
            job.id = chain_id
            results[place] = Enqueued(chain_id, Status.PENDING, Outcome.REPLACED)
            plan.replaced.append(place)
            plan.pointed.append(place)
        else:
            results[place].superseded = chain_id
            plan.pointed.append(place)
            plan.created.append(place)


def _hold(
    jobs: Sequence[JobDocument], plan: _Round, results: Sequence[Enqueued], new: Collection[str]
) -> Operation[Blocking]:
    """What those wait for that will be written; before they are, and whoever is refused gives back the keys."""
    places = (*plan.created, *plan.replaced)
    written = [jobs[place] for place in places]
    try:
        blocking = yield from hold_blockers(written, new=new, ending=set(plan.overdue.values()))
        if any(jobs[place].extras.blockers for place in plan.replaced):
            # Older chains are put behind others: only now it is known which chain each job of the batch will be.
            yield from refuse_cycles(written, {jobs[place].id: jobs[place].id for place in plan.replaced})
    except (ChainNotFound, BlockerCycle):
        yield from plan.give_back()
        raise
    for place in places:
        if _is_blocked(jobs[place]):
            results[place].status = Status.BLOCKED
    return blocking


def _make_room(jobs: Sequence[JobDocument], plan: _Round, blocking: Blocking, aliases: Aliases) -> Operation[set[str]]:
    """What holds the keys gives them up, or becomes what is sent; the queues that got work by that."""
    woken: set[str] = set()
    replaced = [jobs[place] for place in plan.replaced]
    if plan.overdue:
        # Now rather than by the next sweep: a claim that began in time must not start it beside its successor.
        freed = yield Statement("expire_holders", {"jobs": to_json(sorted(plan.overdue)).decode()})
        woken.update(queue for (queue,) in freed)
        woken |= yield from settle_chains(set(plan.overdue.values()), patient=False)
    if plan.pointed:
        yield Statement("point_keys", {"keys": to_json(_entries(jobs, plan.pointed, aliases)).decode()})
    if replaced:
        rows = yield Statement("replace_jobs", {"jobs": msgspec.json.encode(replaced).decode()})
        woken.update(left_queue for _, _, left_queue in rows if left_queue is not None)
        yield from add_blockers(replaced, blocking)
    return woken


def _create(  # noqa: PLR0917 - the parts of one enqueue
    jobs: Sequence[JobDocument],
    plan: _Round,
    results: list[Enqueued],
    blocking: Blocking,
    channel: str | None,
    given_ids: Collection[str],
    aliases: Aliases,
) -> Operation[None]:
    if plan.created:
        created = [jobs[place] for place in plan.created]
        existing = yield from enqueue_jobs(created, channel, given_ids, aliases)
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


def _entries(
    jobs: Sequence[JobDocument], places: Sequence[int], aliases: Aliases, *, is_repeated: bool = False
) -> list[dict[str, object]]:
    """One for each name of the job's type: whoever knows it by one of them only meets the others there."""
    return [
        {
            "place": place,
            "type_name": name,
            "key": jobs[place].extras.deduplication_key,
            "chain_id": jobs[place].id,
            "scope": jobs[place].extras.deduplication_scope,
            "window_ms": jobs[place].extras.window_ms,
            "on_conflict": jobs[place].extras.on_conflict,
            "is_repeated": is_repeated,
        }
        for place in places
        for name in (jobs[place].type_name, *aliases.get(jobs[place].type_name, ()))
    ]


def _key(job: JobDocument) -> tuple[str, str] | None:
    if job.more is None or job.more.deduplication_key is None:
        return None
    return job.type_name, job.more.deduplication_key


def _is_blocked(job: JobDocument) -> bool:
    return job.more is not None and job.more.waiting_for is not None
