"""Read pages of chains."""

from __future__ import annotations

from dataclasses import replace

from holdfast.model.job import ChainRecord, Page
from holdfast.model.job_filter import JobFilter
from holdfast.operations.filtering import filter_parameters
from holdfast.operations.get_chain import chain_record
from holdfast.operations.list_sources import BY_NO_STATE, choose_sources
from holdfast.operations.paging import PageRequest
from holdfast.operations.statement import Operation, Statement


def list_chains(
    chosen: JobFilter | None = None, *, limit: int = 50, cursor: str | None = None, newest_first: bool = True
) -> Operation[Page[ChainRecord]]:
    """A page in order of enqueue, which is that of the first jobs: a chain keeps its place when it goes on."""
    chosen = chosen or JobFilter()
    filters = filter_parameters(chosen)
    request = PageRequest.of("list_chains", filters, limit=limit, cursor=cursor, newest_first=newest_first)
    if chosen.ids is not None and chosen.chain_ids is not None:
        chosen = replace(chosen, ids=tuple(each for each in chosen.ids if each in chosen.chain_ids), chain_ids=None)
        filters = filter_parameters(chosen)
    if chosen.is_impossible:
        return Page([], None)
    sources = yield from choose_sources(chosen)
    if sources[0] not in BY_NO_STATE:
        del filters["status"]
    fragments = (*(name for name in filters if name != "status"), *request.filters)
    rows = yield Statement(
        "list_chains",
        {"tenant": None, **filters, **request.parameters},
        literals=request.literals,
        slots={
            "filters": fragments,
            "tail_filters": ("tail_status",) if "status" in filters else (),
            "sources": sources,
            **request.orders,
        },
    )
    return request.page([chain_record(row[0], row[1]) for row in rows[:limit]], rows)
