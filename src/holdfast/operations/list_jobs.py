"""Read pages of jobs."""

from __future__ import annotations

import msgspec

from holdfast.model.job import Job, Page
from holdfast.model.job_filter import JobFilter
from holdfast.operations.filtering import filter_parameters
from holdfast.operations.list_sources import BY_NO_STATE, choose_sources
from holdfast.operations.paging import PageRequest
from holdfast.operations.statement import Operation, Statement

_job = msgspec.json.Decoder(Job)


def list_jobs(
    chosen: JobFilter | None = None, *, limit: int = 50, cursor: str | None = None, newest_first: bool = True
) -> Operation[Page[Job]]:
    """A page in order of enqueue; the cursor belongs to the query that returned it."""
    chosen = chosen or JobFilter()
    filters = filter_parameters(chosen)
    request = PageRequest.of("list_jobs", filters, limit=limit, cursor=cursor, newest_first=newest_first)
    if chosen.is_impossible:
        return Page([], None)
    sources = yield from choose_sources(chosen)
    if sources[0] not in BY_NO_STATE:
        del filters["status"]
    rows = yield Statement(
        "list_jobs",
        {"tenant": None, **filters, **request.parameters},
        literals=request.literals,
        slots={"filters": (*filters, *request.filters), "sources": sources, **request.orders},
    )
    return request.page([_job.decode(row[0]) for row in rows[:limit]], rows)


def list_chain_jobs(
    chain_id: str, *, limit: int = 50, cursor: str | None = None, newest_first: bool = False
) -> Operation[Page[Job]]:
    """The jobs of a chain; none, if there is no such chain."""
    chosen = JobFilter(chain_ids=(chain_id,))
    return (yield from list_jobs(chosen, limit=limit, cursor=cursor, newest_first=newest_first))


def list_blocked_jobs(
    chain_id: str, *, limit: int = 50, cursor: str | None = None, newest_first: bool = False
) -> Operation[Page[Job]]:
    """The jobs that cannot start before the chain has ended."""
    request = PageRequest.of(
        "list_blocked_jobs", {"id": chain_id}, limit=limit, cursor=cursor, newest_first=newest_first
    )
    rows = yield Statement(
        "list_blocked_jobs",
        {"id": chain_id, **request.parameters},
        literals=request.literals,
        slots={"filters": request.filters, **request.orders},
    )
    return request.page([_job.decode(row[0]) for row in rows[:limit]], rows)
