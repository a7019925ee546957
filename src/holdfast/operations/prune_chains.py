"""Remove chains that have ended and had their time: into the archive, or for good.

A walk goes through all that has ended, oldest end first, a page and a short transaction at a time. What somebody needs
or has locked is passed by: a later walk comes by again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

from holdfast.errors import RowReferenced
from holdfast.model.clock import milliseconds
from holdfast.model.operating import PruneCounts
from holdfast.model.payload import to_json
from holdfast.model.retention import Fate, Retention
from holdfast.operations.delete_chains import Member, delete_locked, lock_chains
from holdfast.operations.statement import ATOMICALLY, Operation, Statement, Verb

#: chains that are looked at, and at most removed, at a time
PAGE = 500


class Finished(NamedTuple):
    """The last job of a chain that has ended."""

    chain_id: str
    type_name: str
    status: str
    lease_generation: int
    age_ms: int
    is_awaited: bool
    finished_at: str
    seq: int


class Place(NamedTuple):
    """How far a walk has come."""

    finished_at: str
    seq: int


class Doomed(NamedTuple):
    """A chain that is to go, as it was seen."""

    chain_id: str
    status: str
    lease_generation: int
    finished_at: str
    is_archived: bool


@dataclass(slots=True)
class Pruned:
    """What a batch did; `jobs` counts those of the chains that went."""

    removed: int = 0
    archived: int = 0
    needed: int = 0
    locked: int = 0
    jobs: int = 0


def read_retention() -> Operation[Retention]:
    """What holds now."""
    rows = yield Statement("read_retention")
    return Retention.of([(type_name, name, value) for type_name, name, value in rows])


def find_finished(after: Place | None, keep: timedelta, limit: int = PAGE) -> Operation[list[Finished]]:
    """Chains that ended longer ago than `keep`, from a place on."""
    rows = yield Statement(
        "find_finished",
        {
            "after": None if after is None else after.finished_at,
            "after_seq": -1 if after is None else after.seq,
            "keep_ms": milliseconds(keep),
        },
        literals={"limit": limit},
    )
    return [Finished(*row) for row in rows]


def find_needed(chains: Collection[str]) -> Operation[set[str]]:
    """Of the chains those that a job waits for, or waited for and may begin anew."""
    rows = yield Statement("find_needed", {"chains": to_json(sorted(chains)).decode()})
    return {chain_id for (chain_id,) in rows}


def prune_chains(doomed: Sequence[Doomed]) -> Operation[Pruned]:
    """Archive and delete, which is one: a chain is whole in one of the two places, or gone.

    Under the locks nobody can retry a chain, or come to wait for it, so what was seen before is looked at once more.
    """
    yield ATOMICALLY
    wanted = {each.chain_id: each for each in doomed}
    locked = yield from lock_chains(wanted, patient=False)
    whole = {
        chain_id
        for chain_id in wanted.keys() & locked.members.keys() - locked.unlocked
        if _is_as_seen(wanted[chain_id], locked.tail(chain_id))
    }
    needed = (yield from find_needed(whole)) if whole else set()
    going = whole - needed
    archived = {chain_id for chain_id in going if wanted[chain_id].is_archived}
    if archived:
        jobs = sorted(member.id for chain_id in archived for member in locked.members[chain_id])
        yield Statement("archive_chains", {"jobs": to_json(jobs).decode()})
    yield from delete_locked(locked, going)
    return Pruned(
        removed=len(going - archived),
        archived=len(archived),
        needed=len(needed),
        locked=len(locked.unlocked),
        jobs=sum(len(locked.members[chain_id]) for chain_id in going),
    )


def open_archive() -> Operation[int]:
    """Before anything is archived; how many parts of it are new."""
    rows = yield Statement("open_archive")
    return int(rows[0][0])


def close_archive(keep: timedelta, limit: int = PAGE) -> Operation[int]:
    """Drop what lies in the archive for longer; as many rows, or on PostgreSQL weeks, as it answers."""
    rows = yield Statement("close_archive", {"keep_ms": milliseconds(keep)}, literals={"limit": limit})
    return int(rows[0][0])


@dataclass(frozen=True, slots=True)
class Step:
    """Something to run; `is_heavy` if others should have their turn after it."""

    verb: Verb[Any]
    is_read_only: bool = False
    is_heavy: bool = False


@dataclass(slots=True)
class Walk:
    """A walk on its way: it says what to run next, and is told what came of it, or why it failed.

    It can be left after any step and gone on with later; what it has seen is looked at once more before it goes.

    - `retention`: who has had his time.
    - `places`: how far the last walk has come for each length of time; None: from the beginning. All that ended before
      such a place was looked at when it had that age, so only what was passed by then is still there.
    - `is_dry`: look, and count what would go.
    - `closes`: whether what lies in the archive for too long goes as well.
    - `at_least`: nothing goes that ended later than so long ago.
    """

    retention: Retention
    places: dict[timedelta, Place | None] = field(default_factory=dict)
    is_dry: bool = False
    at_least: timedelta = timedelta()
    closes: bool = True
    counts: PruneCounts = field(default_factory=PruneCounts)
    #: the last chain that stays because rows of the application refer to its jobs
    referenced: str | None = None
    _fates: dict[tuple[str, str], Fate] = field(default_factory=dict)
    _steps: Generator[Step, Any, None] | None = None
    _answer: Any = None

    def next_step(self) -> Step | None:
        """None when it is done."""
        if self._steps is None:
            self._steps = self._go()
        try:
            return self._steps.send(self._answer)
        except StopIteration:
            return None

    def receive(self, answer: object) -> None:
        """What the last step returned."""
        self._answer = answer

    def count_anew(self, counts: PruneCounts) -> None:
        """What it does from now on."""
        self.counts, self.referenced = counts, None

    def _go(self) -> Generator[Step, Any, None]:
        yield from self._close()
        if self.retention.has_archive and not self.is_dry:
            yield Step(open_archive)
        oldest: Place | None = None
        for span in self.retention.spans():
            # The walk for a longer time has looked at everything before its place, whatever its time.
            place = _later(self.places.get(span), oldest)
            keep = max(span, self.at_least)
            while True:
                found: list[Finished] = yield Step(partial(find_finished, place, keep), is_read_only=True)
                if found:
                    place = Place(found[-1].finished_at, found[-1].seq)
                    yield from self._prune(found)
                self.places[span] = oldest = place
                if len(found) < PAGE:
                    break

    def _prune(self, found: Sequence[Finished]) -> Generator[Step, Any, None]:
        self.counts.seen += len(found)
        doomed = [
            Doomed(each.chain_id, each.status, each.lease_generation, each.finished_at, fate.is_archived)
            for each in found
            if (fate := self._fate(each)).keep is not None
            and max(fate.keep, self.at_least) <= timedelta(milliseconds=each.age_ms)
            and not each.is_awaited
        ]
        if not doomed:
            return
        if self.is_dry:
            needed: set[str] = yield Step(partial(find_needed, [each.chain_id for each in doomed]), is_read_only=True)
            going = Counter(each.is_archived for each in doomed if each.chain_id not in needed)
            self.counts.add(removed=going[False], archived=going[True], needed=len(needed))
            return
        yield from self._remove(doomed)

    def _remove(self, doomed: Sequence[Doomed]) -> Generator[Step, Any, None]:
        pruned: Pruned | RowReferenced = yield Step(partial(prune_chains, doomed), is_heavy=True)
        if isinstance(pruned, Pruned):
            self.counts.add(
                removed=pruned.removed,
                archived=pruned.archived,
                needed=pruned.needed,
                locked=pruned.locked,
                jobs=pruned.jobs,
            )
        elif len(doomed) == 1:
            self.counts.add(referenced=1)
            self.referenced = doomed[0].chain_id
        else:
            # Some of them are referred to: halves, until it is clear which.
            middle = len(doomed) // 2
            yield from self._remove(doomed[:middle])
            yield from self._remove(doomed[middle:])

    def _close(self) -> Generator[Step, Any, None]:
        keep = self.retention.keep_archive
        if keep is None or self.is_dry or not self.closes:
            return
        while True:
            closed: int = yield Step(partial(close_archive, keep), is_heavy=True)
            self.counts.add(closed=closed)
            if closed < PAGE:
                return

    def _fate(self, found: Finished) -> Fate:
        key = (found.type_name, found.status)
        fate = self._fates.get(key)
        if fate is None:
            fate = self._fates[key] = self.retention.fate(*key)
        return fate


def _is_as_seen(seen: Doomed, tail: Member) -> bool:
    """Whoever was cancelled, retried and cancelled again had no other lease, but ended at another time."""
    return (tail.status.value, tail.lease_generation, tail.finished_at) == (
        seen.status,
        seen.lease_generation,
        seen.finished_at,
    )


def _later(one: Place | None, other: Place | None) -> Place | None:
    """Of two places, the one further on."""
    if one is None or other is None:
        return one or other
    return max(one, other)
