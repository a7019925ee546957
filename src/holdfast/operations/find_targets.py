"""Find the jobs, or the chains, that a verb on a filter is about, batch by batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from holdfast.model.job_filter import JobFilter
from holdfast.operations.filtering import filter_parameters
from holdfast.operations.statement import Operation, Rows, Statement

#: each batch is a transaction of its own, short enough to be in nobody's way
BATCH = 500
#: so much of the order of enqueue is looked through at once
STRETCH = 100_000


@dataclass(frozen=True, slots=True)
class SeqRange:
    """Part of the order of enqueue: behind `after`, up to and with `last`."""

    after: int
    last: int


@dataclass(frozen=True, slots=True)
class FoundTargets:
    """Ids in order of enqueue, and up to where it has been searched."""

    ids: list[str]
    after: int


Find: TypeAlias = Callable[[JobFilter, SeqRange], Operation[FoundTargets]]


def find_seq_range() -> Operation[SeqRange]:
    """Where the jobs are that exist now."""
    ((first, last),) = yield Statement("find_seq_range")
    return SeqRange(0, 0) if first is None else SeqRange(first - 1, last)


def find_targets(chosen: JobFilter, within: SeqRange) -> Operation[FoundTargets]:
    """The next jobs."""
    filters = filter_parameters(chosen)
    up_to = _up_to(chosen, within)
    rows = yield _statement("find_targets", filters, tuple(filters), within.after, up_to)
    return _found(rows, up_to)


def find_target_chains(chosen: JobFilter, within: SeqRange) -> Operation[FoundTargets]:
    """The next chains, whose status is that of their last jobs; all else is looked up in their first ones."""
    if chosen.ids is not None:
        among = chosen.ids if chosen.chain_ids is None else chosen.chain_ids
        chosen = replace(chosen, ids=None, chain_ids=tuple(each for each in chosen.ids if each in among))
    filters = filter_parameters(chosen)
    fragments = tuple("tail_status" if name == "status" else name for name in filters)
    up_to = _up_to(chosen, within)
    rows = yield _statement("find_target_chains", filters, fragments, within.after, up_to)
    return _found(rows, up_to)


def _up_to(chosen: JobFilter, within: SeqRange) -> int:
    """What is looked up by its ids needs no search."""
    is_named = chosen.ids is not None or chosen.chain_ids is not None
    return within.last if is_named else min(within.last, within.after + STRETCH)


def _statement(name: str, filters: dict[str, object], fragments: tuple[str, ...], after: int, up_to: int) -> Statement:
    parameters = {**filters, "after": after, "up_to": up_to}
    return Statement(name, parameters, literals={"limit": BATCH}, slots={"filters": fragments})


def _found(rows: Rows, up_to: int) -> FoundTargets:
    return FoundTargets([job_id for job_id, _ in rows], rows[-1][1] if len(rows) == BATCH else up_to)
