"""Delete chains with all that belongs to them, unless somebody needs them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.errors import ChainNeeded, WrongIsolation
from holdfast.model.control import ControlOutcome, ControlResult
from holdfast.model.payload import to_json
from holdfast.model.status import Status
from holdfast.operations.control import (
    ControlBatch,
    Orders,
    locked_result,
    record_audit,
    refuse_if_strict,
    unknown_result,
)
from holdfast.operations.settle_chains import settle_chains
from holdfast.operations.statement import ATOMICALLY, Operation, Rows, Statement
from holdfast.operations.tell_holders import tell_holders

#: what goes on while its locks are waited for is looked at again
_LOOKS = 10


class Member(NamedTuple):
    """A job of a chain that is locked as a whole."""

    id: str
    chain_index: int
    is_tail: bool
    status: Status
    attempt: int
    lease_generation: int
    finished_at: str | None


class Dependant(NamedTuple):
    """A job that waits for a chain, or did."""

    id: str
    chain_id: str
    is_unfinished: bool


@dataclass(slots=True)
class LockedChains:
    """Chains that nobody else changes, continues or comes to wait for until the transaction ends.

    - `named`: the chain that each id asked for belongs to, where there is one.
    - `members`: the jobs of each chain.
    - `unlocked`: chains of which somebody else has a job locked.
    """

    named: dict[str, str] = field(default_factory=dict)
    members: dict[str, list[Member]] = field(default_factory=dict)
    unlocked: set[str] = field(default_factory=set)

    def tail(self, chain_id: str) -> Member:
        return next(member for member in self.members[chain_id] if member.is_tail)

    def receive(self, rows: Rows, *, patient: bool) -> list[str]:
        """Returns the ids whose chains went on meanwhile."""
        asked_for: dict[str, str] = {}
        found: defaultdict[str, list[Member]] = defaultdict(list)
        for asked, chain_id, job_id, chain_index, is_tail, status, *lease, sees_commits in rows:
            if not sees_commits:
                raise WrongIsolation("deletion")
            asked_for[asked] = chain_id
            if job_id is not None:
                found[chain_id].append(Member(job_id, chain_index, bool(is_tail), Status(status), *lease))
            elif not patient:
                self.unlocked.add(chain_id)
        # Of a chain that was deleted while its locks were waited for nothing was found.
        self.named.update({asked: chain_id for asked, chain_id in asked_for.items() if found[chain_id] or not patient})
        self.members.update({chain_id: members for chain_id, members in found.items() if members})
        moved = {
            chain_id
            for chain_id, members in found.items()
            if members and chain_id not in self.unlocked and not any(member.is_tail for member in members)
        }
        return [asked for asked, chain_id in asked_for.items() if chain_id in moved]


def delete_chains(
    ids: Sequence[str], orders: Orders, *, cascade: bool = False, is_partial: bool = False
) -> Operation[ControlBatch]:
    """All or nothing; with `is_partial`, chains that are needed are reported and left alone instead.

    `cascade` also deletes the chains that these waited for, unless others waited for them too.
    """
    yield ATOMICALLY
    locked, edges = yield from _lock_with_blockers(ids, cascade=cascade, patient=orders.is_patient)
    roots = {chain_id: _closure(chain_id, edges) for chain_id in locked.named.values()}
    busy = {root for root, closure in roots.items() if closure & locked.unlocked}
    dependants = yield from find_dependants(locked.members)
    needed = _needed({root: closure for root, closure in roots.items() if root not in busy}, dependants)
    if needed and not is_partial:
        raise ChainNeeded(needed, cascade=cascade)
    results = {asked: _result(asked, locked.named.get(asked), busy, needed, cascade=cascade) for asked in ids}
    refuse_if_strict("delete", orders, results.values())
    doomed = {chain for root, closure in roots.items() if root not in busy and root not in needed for chain in closure}
    woken = yield from delete_locked(locked, doomed)
    everything = [results[asked] for asked in ids]
    everything += [_deleted(chain_id, chain_id) for chain_id in sorted(doomed - roots.keys())]
    yield from record_audit("delete", orders, everything)
    # Nobody waits for them with a job of his own any more, but somebody may be waiting for their end.
    woken |= yield from settle_chains(doomed, patient=False)
    return ControlBatch(everything, woken)


def lock_chains(ids: Collection[str], *, patient: bool) -> Operation[LockedChains]:
    """Every job of the chains that the ids of jobs name, locked in the order of ids."""
    locked = LockedChains()
    open_ids = sorted(set(ids))
    for _ in range(_LOOKS):
        rows = yield Statement("lock_chains", {"chains": to_json(open_ids).decode(), "patient": patient})
        open_ids = locked.receive(rows, patient=patient)
        if not open_ids:
            break
    locked.unlocked.update(locked.named[asked] for asked in open_ids)
    return locked


def find_dependants(chains: Collection[str]) -> Operation[Mapping[str, Sequence[Dependant]]]:
    """Jobs that wait for the chains, or did, by chain."""
    found: defaultdict[str, list[Dependant]] = defaultdict(list)
    if chains:
        rows = yield Statement("find_dependants", {"chains": to_json(sorted(chains)).decode()})
        for blocked_by, job_id, chain_id, is_unfinished in rows:
            found[blocked_by].append(Dependant(job_id, chain_id, bool(is_unfinished)))
    return found


def delete_locked(locked: LockedChains, chains: Collection[str]) -> Operation[set[str]]:
    """Chains that lock_chains has locked; returns what is to be sent to the holders of their jobs, and who got work."""
    if not chains:
        return set()
    members = [member for chain_id in chains for member in locked.members[chain_id]]
    running = [member.id for member in members if member.status is Status.RUNNING]
    letters = (yield from tell_holders(running)) if running else set()
    jobs = sorted(member.id for member in members)
    rows = yield Statement(
        "delete_chains", {"chains": to_json(sorted(chains)).decode(), "jobs": to_json(jobs).decode()}
    )
    return letters | {queue for (queue,) in rows}


def _lock_with_blockers(
    ids: Sequence[str], *, cascade: bool, patient: bool
) -> Operation[tuple[LockedChains, set[tuple[str, str]]]]:
    """With cascade, also the chains that these waited for: found before they are locked, and again after."""
    seen = (yield from _find_edges(ids)) if cascade else set()
    locked = yield from lock_chains({*ids, *(blocker for _, blocker in seen)}, patient=patient)
    edges = (yield from _find_edges(ids)) if cascade else set()
    for _ in range(_LOOKS):
        if edges <= seen:
            break
        seen = edges
        locked = yield from lock_chains({*ids, *(blocker for _, blocker in seen)}, patient=patient)
        edges = yield from _find_edges(ids)
    locked.named = {asked: chain_id for asked, chain_id in locked.named.items() if asked in set(ids)}
    return locked, edges


def _find_edges(ids: Sequence[str]) -> Operation[set[tuple[str, str]]]:
    rows = yield Statement("find_blocking_chains", {"chains": to_json(sorted(set(ids))).decode()})
    return {(chain_id, blocked_by) for chain_id, blocked_by in rows}


def _closure(root: str, edges: set[tuple[str, str]]) -> set[str]:
    reached, fresh = {root}, {root}
    while fresh:
        fresh = {blocked_by for chain_id, blocked_by in edges if chain_id in fresh} - reached
        reached |= fresh
    return reached


def _needed(roots: Mapping[str, set[str]], dependants: Mapping[str, Sequence[Dependant]]) -> dict[str, list[str]]:
    """Roots that cannot go, with the jobs that need them or a chain that would go with them.

    A chain that was asked for is needed by those who have not finished; one that would only go along, by whoever else
    has waited for it. Whoever goes too needs nothing; so each that stays may keep others.
    """
    needed: dict[str, list[str]] = {}
    while True:
        going = {root: closure for root, closure in roots.items() if root not in needed}
        doomed = {chain for closure in going.values() for chain in closure}
        kept = {
            root: sorted(
                {
                    job.id
                    for chain in closure
                    for job in dependants.get(chain, ())
                    if job.chain_id not in doomed and (job.is_unfinished or chain not in roots)
                }
            )
            for root, closure in going.items()
        }
        kept = {root: jobs for root, jobs in kept.items() if jobs}
        if not kept:
            return needed
        needed |= kept


def _result(
    asked: str, chain_id: str | None, busy: set[str], needed: Mapping[str, list[str]], *, cascade: bool
) -> ControlResult:
    if chain_id is None:
        return unknown_result(asked)
    if chain_id in busy:
        return locked_result(asked)
    if chain_id in needed:
        why = ChainNeeded.sentence(chain_id, needed[chain_id], cascade=cascade)
        return ControlResult(id=asked, outcome=ControlOutcome.NEEDED, chain_id=chain_id, why=why)
    return _deleted(asked, chain_id)


def _deleted(asked: str, chain_id: str) -> ControlResult:
    return ControlResult(id=asked, outcome=ControlOutcome.DELETED, chain_id=chain_id)
