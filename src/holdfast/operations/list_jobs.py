"""Read pages of jobs."""

from __future__ import annotations

import base64
import hashlib
from typing import Annotated

import msgspec

from holdfast.errors import InvalidCursor, InvalidOption
from holdfast.model.job import Job, Page
from holdfast.model.job_filter import JobFilter
from holdfast.model.payload import to_json
from holdfast.operations.filtering import filter_parameters
from holdfast.operations.statement import Operation, Statement

_MOST = 1000
_job = msgspec.json.Decoder(Job)


class _Cursor(msgspec.Struct):
    seq: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    query: str


def list_jobs(
    chosen: JobFilter | None = None, *, limit: int = 50, cursor: str | None = None, newest_first: bool = True
) -> Operation[Page[Job]]:
    """A page in order of enqueue; the cursor belongs to the query that returned it."""
    if type(limit) is not int or not 1 <= limit <= _MOST:
        raise InvalidOption("limit", limit, f"must be a whole number from 1 to {_MOST:,}")
    filters = filter_parameters(chosen or JobFilter())
    query = _fingerprint(filters, newest_first=newest_first)
    fragments = list(filters)
    if cursor is not None:
        filters["seq"] = _read_cursor(cursor, query)
        fragments.append("below" if newest_first else "above")
    order = "newest_first" if newest_first else "oldest_first"
    rows = yield Statement(
        "list_jobs",
        filters,
        literals={"limit": limit + 1},
        slots={"filters": tuple(fragments), "order": (order,)},
    )
    jobs = [_job.decode(row[0]) for row in rows[:limit]]
    return Page(jobs, _write_cursor(jobs[-1].seq, query) if len(rows) > limit else None)


def _fingerprint(filters: dict[str, object], *, newest_first: bool) -> str:
    return hashlib.sha256(to_json([filters, newest_first])).hexdigest()[:12]


def _write_cursor(seq: int, query: str) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(_Cursor(seq, query))).decode().rstrip("=")


def _read_cursor(cursor: str, query: str) -> int:
    try:
        decoded = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        found = msgspec.json.decode(decoded, type=_Cursor)
    except (ValueError, TypeError, msgspec.MsgspecError):
        raise InvalidCursor(cursor) from None
    if found.query != query:
        raise InvalidCursor(cursor)
    return found.seq
