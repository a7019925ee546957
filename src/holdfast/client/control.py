"""What the two faces share for the verbs of people: from what was named to batches of ids, from answers to results.

A verb on ids is one transaction. A verb on a filter works its way through in order of enqueue, a short transaction per
batch, and passes by what somebody has locked or needs; to that it comes back in the end.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Protocol, TypedDict

from holdfast.errors import InvalidOption
from holdfast.model.clock import Duration, checked_duration, checked_instant
from holdfast.model.control import ACTS_ON, ControlOutcome, ControlResult, Progress
from holdfast.model.dedup import Dedup
from holdfast.model.identifiers import checked_name
from holdfast.model.ids import Ids
from holdfast.model.job import Chain, Job
from holdfast.model.job_filter import JobFilter
from holdfast.model.job_type import JobType
from holdfast.model.status import Status
from holdfast.operations.control import ControlBatch, Orders
from holdfast.operations.deduplication_keys import Key
from holdfast.operations.find_targets import (
    BATCH,
    Find,
    FoundTargets,
    SeqRange,
    find_seq_range,
    find_target_chains,
    find_targets,
)
from holdfast.operations.remove_job import remove_job
from holdfast.operations.statement import Operation, Verb

NamedChain = Chain[Any] | Job | str | uuid.UUID
Chains = NamedChain | Iterable[NamedChain] | JobFilter
OnProgress = Callable[[Progress], object]

#: before each further try at jobs that somebody had locked
_PAUSES = (0.05, 0.2, 0.5, 1.0, 2.0)
_LONGEST_TEXT = 2000
#: what a filter comes back to in the end: others may have let go of it, or have gone themselves
_LATER = frozenset({ControlOutcome.LOCKED, ControlOutcome.NEEDED})


class NamedType(Protocol):
    """A registered job type."""

    @property
    def name(self) -> str: ...


class Apply(Protocol):
    """A verb, ready but for the ids."""

    def __call__(self, ids: Sequence[str], orders: Orders) -> Operation[ControlBatch]: ...


@dataclass(frozen=True, slots=True)
class Step:
    """Something to run; only reading, or in a transaction."""

    verb: Verb[Any]
    is_read_only: bool = False
    pause: float = 0.0


class ControlWork:
    """A verb on its way: it says what to run next, and is told what came of it.

    - `verb`: its name; `apply`: what it does to a batch of ids.
    - `chains` (ids or a filter), `job` (exactly this one) or `key`: what it is about.
    - `job_types`: by all their names, where it is about keys.
    """

    def __init__(  # noqa: PLR0917 - made by the clients only
        self,
        verb: str,
        apply: Apply,
        ids: Ids,
        chains: Chains | None = None,
        job: NamedChain | None = None,
        actor: str | None = None,
        strict: bool = False,  # noqa: FBT001, FBT002 - as above
        progress: OnProgress | None = None,
        key: str | None = None,
        job_types: Mapping[str, JobType] | None = None,
    ) -> None:
        self.results: list[ControlResult] = []
        self._verb = verb
        self._apply = apply
        self._ids = ids
        self._progress = progress
        self._woken: set[str] = set()
        self._done: list[ControlBatch] = []
        self._answer: Any = None
        if [chains, job, key].count(None) != 2:  # noqa: PLR2004 - all but one
            raise InvalidOption("chains", chains, f"give chains or job=, one of them, to {verb}")
        orders = Orders(
            actor=None if actor is None else checked_name("actor", actor),
            is_strict=strict,
            is_chain=job is None,
            is_job_only=job is not None,
            aliases=_other_names(job_types or {}),
        )
        if isinstance(chains, JobFilter):
            self._steps = self._by_filter(self._narrowed(chains, orders), orders)
        elif key is not None:
            self._steps = self._by_id([key], orders)
        else:
            self._steps = self._by_id(_several(job if chains is None else chains, ids, by_chain=job is None), orders)

    def next_step(self) -> Step | None:
        """None when it is done."""
        try:
            return self._steps.send(self._answer)
        except StopIteration:
            return None

    def receive(self, answer: object) -> None:
        """What the last step returned."""
        self._answer = answer

    def take_woken(self) -> set[str]:
        """Queues that got work since this was last asked."""
        woken, self._woken = self._woken, set()
        return woken

    def take_done(self) -> list[ControlBatch]:
        """What was done since this was last asked."""
        done, self._done = self._done, []
        return done

    def _by_id(self, ids: list[str], orders: Orders) -> Generator[Step, Any, None]:
        if ids:
            self._keep((yield Step(partial(self._apply, ids, orders))))

    def _by_filter(self, chosen: JobFilter, orders: Orders) -> Generator[Step, Any, None]:
        orders = replace(orders, is_patient=False, is_chain=False)
        find: Find = find_target_chains if self._verb == "delete" else find_targets
        locked: list[ControlResult] = []
        needed: list[ControlResult] = []
        whole: SeqRange = yield Step(find_seq_range, is_read_only=True)
        left = whole
        while left.after < left.last:
            found: FoundTargets = yield Step(partial(find, chosen, left), is_read_only=True)
            left = replace(left, after=found.after)
            if found.ids:
                later = self._keep((yield Step(partial(self._apply, found.ids, orders))), _LATER)
                locked += [result for result in later if result.outcome is ControlOutcome.LOCKED]
                needed += [result for result in later if result.outcome is ControlOutcome.NEEDED]
            self._report(len(locked) + len(needed), (left.after - whole.after) / (whole.last - whole.after))
        for pause in _PAUSES:
            again, locked = [result.id for result in locked], []
            for begin in range(0, len(again), BATCH):
                step = Step(partial(self._apply, again[begin : begin + BATCH], orders), pause=0.0 if begin else pause)
                later = self._keep((yield step), _LATER if pause != _PAUSES[-1] else _LATER - {ControlOutcome.LOCKED})
                locked += [result for result in later if result.outcome is ControlOutcome.LOCKED]
                needed += [result for result in later if result.outcome is ControlOutcome.NEEDED]
        yield from self._without_dependants(needed, orders)
        self._report(0, 1.0)

    def _without_dependants(self, needed: list[ControlResult], orders: Orders) -> Generator[Step, Any, None]:
        """What others needed that have gone in later batches; the latest first, since they wait for the earlier."""
        while needed:
            again, left = [result.id for result in reversed(needed)], []
            for begin in range(0, len(again), BATCH):
                batch = yield Step(partial(self._apply, again[begin : begin + BATCH], orders))
                left += self._keep(batch, frozenset({ControlOutcome.NEEDED}))
            if len(left) == len(needed):
                self.results += left
                return
            needed = left[::-1]

    def _keep(self, batch: ControlBatch, come_back: AbstractSet[ControlOutcome] = frozenset()) -> list[ControlResult]:
        """Keep the results but those to come back to, which are returned."""
        self._woken |= batch.woken
        self._done.append(batch)
        self.results += [result for result in batch.results if result.outcome not in come_back]
        return [result for result in batch.results if result.outcome in come_back]

    def _report(self, waiting: int, share: float) -> None:
        if self._progress is not None:
            self._progress(Progress(len(self.results) + waiting, share))

    def _narrowed(self, chosen: JobFilter, orders: Orders) -> JobFilter:
        """To the states on which the verb does something; everything there is must be asked for by its states."""
        if orders.is_strict:
            raise InvalidOption(
                "strict", orders.is_strict, "a filter is worked through in batches; name ids to be strict"
            )
        if chosen.is_empty:
            raise InvalidOption(
                "chains", chosen, f"would {self._verb} every job there is; say which, if only by status="
            )
        chosen = chosen.with_ids(self._ids.check)
        if self._verb not in ACTS_ON:
            return chosen
        asked = {*Status} if chosen.status is None else {*chosen.status}
        return replace(chosen, status=tuple(sorted(asked & ACTS_ON[self._verb])))


class NewTime(TypedDict):
    """One of the two is None."""

    at: datetime | None
    delay: timedelta | None


def checked_time(at: datetime | None, delay: Duration | None) -> NewTime:
    """When to run instead."""
    if (at is None) == (delay is None):
        raise InvalidOption("at", at, "give at= or delay=, one of them")
    return NewTime(
        at=None if at is None else checked_instant("at", at),
        delay=None if delay is None else checked_duration("delay", delay),
    )


def remover(job_type: str | NamedType) -> Apply:
    """`remove` for keys of a job type, given by its name or as `@app.job` made it."""
    type_name = checked_name("job_type", getattr(job_type, "name", job_type))

    def remove(ids: Sequence[str], orders: Orders) -> Operation[ControlBatch]:
        return remove_job(Key(type_name, ids[0]), orders)

    return remove


def checked_key(key: object) -> str:
    """The text of a deduplication key."""
    if not isinstance(key, str):
        raise InvalidOption("key", key, "must be the text of a deduplication key")
    return Dedup(key).key


def checked_text(option: str, value: object) -> str | None:
    """Text that both databases can keep."""
    if value is None:
        return None
    hint = f"must be text of 1 to {_LONGEST_TEXT:,} characters without U+0000 and lone surrogates"
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_TEXT or "\x00" in value:
        raise InvalidOption(option, value, hint)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidOption(option, value, hint) from None
    return value


def _several(named: object, ids: Ids, *, by_chain: bool) -> list[str]:
    if isinstance(named, str | uuid.UUID) or hasattr(named, "id"):
        return [_id(named, ids, by_chain=by_chain)]
    if by_chain and isinstance(named, Iterable):
        return [_id(each, ids, by_chain=by_chain) for each in named]
    raise InvalidOption(
        "chains" if by_chain else "job", named, "must be a chain, an id, a list of these, or a JobFilter"
    )


def _id(named: object, ids: Ids, *, by_chain: bool) -> str:
    if isinstance(named, Job):
        return named.chain_id if by_chain else named.id
    return ids.check(getattr(named, "id", named))


def _other_names(job_types: Mapping[str, JobType]) -> dict[str, tuple[str, ...]]:
    """By each name of a type that has several, the others."""
    return {
        known_as: tuple(name for name in (job_type.name, *job_type.aliases) if name != known_as)
        for known_as, job_type in job_types.items()
        if job_type.aliases
    }
