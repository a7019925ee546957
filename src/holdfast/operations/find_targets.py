"""Find the jobs, or the chains, that a verb on a filter is about, batch by batch."""

from __future__ import annotations

from dataclasses import dataclass, replace

from holdfast.model.job_filter import JobFilter
from holdfast.operations.filtering import filter_parameters
from holdfast.operations.statement import Operation, Rows, Statement

#: each batch is a transaction of its own, short enough to be in nobody's way
BATCH = 500


@dataclass(frozen=True, slots=True)
class FoundTargets:
    """Ids in order of enqueue, where the last of them stands, and where the search ends."""

    ids: list[str]
    after: int
    last: int


def find_targets(chosen: JobFilter, after: int = 0, last: int | None = None) -> Operation[FoundTargets]:
    """The next jobs behind `after`, up to `last`, or to the last that there is now."""
    filters = filter_parameters(chosen)
    rows = yield _statement("find_targets", filters, tuple(filters), after, last)
    return _found(rows, after, last)


def find_target_chains(chosen: JobFilter, after: int = 0, last: int | None = None) -> Operation[FoundTargets]:
    """The same for chains, whose status is that of their last jobs; all else is looked up in their first ones."""
    if chosen.ids is not None:
        among = chosen.ids if chosen.chain_ids is None else chosen.chain_ids
        chosen = replace(chosen, ids=None, chain_ids=tuple(each for each in chosen.ids if each in among))
    filters = filter_parameters(chosen)
    fragments = tuple("tail_status" if name == "status" else name for name in filters)
    rows = yield _statement("find_target_chains", filters, fragments, after, last)
    return _found(rows, after, last)


def _statement(
    name: str, filters: dict[str, object], fragments: tuple[str, ...], after: int, last: int | None
) -> Statement:
    return Statement(
        name,
        {**filters, "after": after, "last": last},
        literals={"limit": BATCH},
        slots={"filters": fragments},
    )


def _found(rows: Rows, after: int, last: int | None) -> FoundTargets:
    if not rows:
        return FoundTargets([], after, last or after)
    return FoundTargets([job_id for job_id, _, _ in rows], rows[-1][1], rows[0][2] if last is None else last)
