"""Chains that wait for each other: seen before somebody closes the circle, and broken where a race has closed it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from holdfast.model.job import JobError
from holdfast.model.payload import to_json
from holdfast.model.status import Status
from holdfast.operations.control import LockedJob, Orders, lock_jobs
from holdfast.operations.settle_chains import settle_chains
from holdfast.operations.statement import ATOMICALLY, Operation, Statement


class Wait(NamedTuple):
    """A blocked job of a chain, and one of the chains that it waits for."""

    chain_id: str
    job_id: str
    blocked_by: str


class Broken(NamedTuple):
    """The job that was ended for it, if the cycle still stood, and the queues that got work by that."""

    job_id: str | None
    woken: set[str]
    job: LockedJob | None = None
    error: JobError | None = None


def find_waits(chain_ids: Collection[str], limit: int) -> Operation[list[Wait]]:
    """What blocked jobs of these chains wait for, and of those chains, and so on; the nearest, up to the limit."""
    if not chain_ids:
        return []
    chains = {"chains": to_json(sorted(chain_ids)).decode()}
    rows = yield Statement("find_waits", chains, literals={"limit": limit})
    return [Wait(*row) for row in rows]


def reaches(starts: Iterable[str], goal: str, waits: Mapping[str, Collection[str]]) -> bool:
    """Whether one of these chains is the goal, or waits for it, over however many others."""
    open_, seen = list(starts), set[str]()
    while open_:
        chain_id = open_.pop()
        if chain_id == goal:
            return True
        if chain_id not in seen:
            seen.add(chain_id)
            open_.extend(waits.get(chain_id, ()))
    return False


def find_cycles(known: Sequence[Wait], limit: int) -> Operation[list[list[Wait]]]:
    """The cycles that `known` are part of, as far as a walk over `limit` waits shows; none shares a chain."""
    found = yield from find_waits({wait.blocked_by for wait in known}, limit)
    return list(cycles_among([*known, *found]))


def cycles_among(waits: Iterable[Wait]) -> Iterator[list[Wait]]:
    """Each with its waits in order; chains of one cycle are left out of the next."""
    onward: dict[str, dict[str, Wait]] = {}
    for wait in waits:
        onward.setdefault(wait.chain_id, {})[wait.blocked_by] = wait
    done: set[str] = set()
    for start, ways in onward.items():
        path: list[Wait] = []
        place = {start: 0}
        branches = [iter(() if start in done else ways.values())]
        while branches:
            onto = next(branches[-1], None)
            if onto is None:
                branches.pop()
                done.add(path.pop().blocked_by if path else start)
            elif onto.blocked_by in done:
                continue
            elif onto.blocked_by in place:
                yield [*path[place[onto.blocked_by] :], onto]
                # Whatever else leads through it waits for the next look.
                done.update(place)
                break
            else:
                path.append(onto)
                place[onto.blocked_by] = len(path)
                branches.append(iter(onward.get(onto.blocked_by, {}).values()))


def break_cycle(cycle: Sequence[Wait]) -> Operation[Broken]:
    """Make one of its jobs a dead letter, always the same one, if all of them still wait as they were seen to."""
    yield ATOMICALLY
    jobs = {wait.job_id for wait in cycle}
    targets = yield from lock_jobs(jobs, Orders(is_patient=False, is_chain=False))
    if any(job_id not in targets.jobs or targets.jobs[job_id].status is not Status.BLOCKED for job_id in jobs):
        return Broken(None, set())
    chosen = max(cycle, key=lambda wait: wait.job_id)
    error = JobError("BlockerCycle", _message(chosen, cycle))
    rows = yield Statement(
        "break_cycle",
        {
            "job": chosen.job_id,
            "links": to_json([{"job_id": wait.job_id, "chain_id": wait.blocked_by} for wait in cycle]).decode(),
            "error": to_json(error).decode(),
        },
    )
    if not rows:
        return Broken(None, set())
    woken = yield from settle_chains({chosen.chain_id}, patient=False)
    return Broken(chosen.job_id, woken, targets.jobs[chosen.job_id], error)


def _message(chosen: Wait, cycle: Sequence[Wait]) -> str:
    place = cycle.index(chosen)
    ways = [wait.blocked_by for wait in (*cycle[place:], *cycle[:place])]
    named = 10
    more = f" and {len(ways) - named} more" if len(ways) > named else ""
    return (
        f"this job waited for itself, over the chains {', '.join(ways[:named])}{more}; "
        f"complete one of these from outside, then retry this one"
    )
