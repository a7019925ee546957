"""Create jobs, in the transaction of whoever runs this."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

import msgspec

from holdfast.errors import InvalidOption
from holdfast.model.call import JobDocument
from holdfast.model.payload import to_json
from holdfast.model.status import Status
from holdfast.operations.alike_jobs import AlikeJobs
from holdfast.operations.copied_lines import MANY, alike_lines, copied_lines
from holdfast.operations.inserted_rows import alike_rows, inserted_rows
from holdfast.operations.notify_work import notify_work
from holdfast.operations.statement import ATOMICALLY, Bulk, Operation, Statement

_ids = msgspec.json.Decoder(list[str])

#: by the name of a job type, its other names
Aliases = Mapping[str, tuple[str, ...]]


def insert_jobs(jobs: Sequence[JobDocument], channel: str | None, bulk: Bulk | None = None) -> Operation[None]:
    """`enqueue_jobs` of what `are_insertable` accepts, sent for the first time under ids that were made for it."""
    if len(jobs) == 1:
        yield _insert_job(jobs[0], channel)
    elif bulk is Bulk.ROWS and may_run_now(jobs):
        yield Statement("insert_rows", literals={"rows": 1}, rows=partial(inserted_rows, jobs))
    elif bulk is Bulk.LINES and len(jobs) >= MANY and may_run_now(jobs):
        yield from _copy_jobs(partial(copied_lines, jobs), channel, _queues(jobs))
    else:
        documents, queues = msgspec.json.encode(jobs).decode(), to_json(_queues(jobs)).decode()
        yield Statement("insert_jobs", {"jobs": documents, "queues": queues, "channel": channel})


def insert_alike(jobs: AlikeJobs, channel: str | None, bulk: Bulk | None) -> Operation[None]:
    """`insert_jobs` of what `may_go_alike` accepts."""
    if bulk is Bulk.ROWS:
        yield Statement("insert_alike", _shared(jobs.shared), literals={"rows": 1}, rows=partial(alike_rows, jobs))
    else:
        yield from _copy_jobs(partial(alike_lines, jobs), channel, [jobs.shared.queue])


def _copy_jobs(lines: Callable[[], Iterable[bytes]], channel: str | None, queues: Iterable[str]) -> Operation[None]:
    if channel is not None:
        yield ATOMICALLY
    yield Statement("copy_jobs", lines=lines)
    if channel is not None:
        yield from notify_work(channel, queues)


def _insert_job(job: JobDocument, channel: str | None) -> Statement:
    return Statement(
        "insert_job",
        {
            "id": job.id,
            "input": str(job.input, "utf-8"),
            "scheduled_at": job.scheduled_at,
            "delay_ms": job.delay_ms,
            "channel": channel,
            **_shared(job),
        },
        is_whole=True,
    )


def _shared(job: JobDocument) -> dict[str, object]:
    return {
        "type_name": job.type_name,
        "queue": job.queue,
        "priority": job.priority,
        "max_attempts": job.max_attempts,
        "timeout_ms": job.timeout_ms,
        "headers": None if job.headers is None else str(job.headers, "utf-8"),
    }


def _queues(jobs: Iterable[JobDocument]) -> list[str]:
    return list(dict.fromkeys(job.queue for job in jobs))


def are_insertable(jobs: Iterable[JobDocument]) -> bool:
    """Whether none has an option that the shorter statement does not know; a tenant's may have to take turns."""
    return not [job for job in jobs if job.more is not None or job.tenant is not None]


def may_run_now(jobs: Iterable[JobDocument]) -> bool:
    """All of them: statements that have no times for each job know one for all."""
    return not [job for job in jobs if job.scheduled_at is not None or job.delay_ms is not None]


def may_go_alike(jobs: AlikeJobs, bulk: Bulk | None) -> bool:
    """Whether they go in by `insert_alike`."""
    least = {None: math.inf, Bulk.ROWS: 2, Bulk.LINES: MANY}[bulk]
    return len(jobs.ids) >= least and are_insertable([jobs.shared]) and may_run_now([jobs.shared])


def enqueue_plain(
    jobs: Sequence[JobDocument], channel: str | None, given_ids: Collection[str] = (), aliases: Aliases | None = None
) -> Operation[dict[str, Status]]:
    """`enqueue_jobs` that writes nothing if an id that the caller gave belongs to something else."""
    if given_ids and len(jobs) > 1:
        yield ATOMICALLY
        yield from find_given(jobs, given_ids, aliases)
    return (yield from enqueue_jobs(jobs, channel, given_ids, aliases))


def enqueue_jobs(
    jobs: Sequence[JobDocument], channel: str | None, given_ids: Collection[str] = (), aliases: Aliases | None = None
) -> Operation[dict[str, Status]]:
    """Insert `jobs` in order; returns those of the ids given by the caller that existed before, with their status.

    With a channel, hints go out with the commit.
    """
    rows = yield Statement(
        "enqueue_jobs",
        {"jobs": msgspec.json.encode(jobs).decode(), "has_given_ids": bool(given_ids), "channel": channel},
    )
    existing = {job_id for job_id in _ids.decode(rows[0][0]) if job_id in given_ids}
    found = yield from find_given([job for job in jobs if job.id in existing], existing, aliases)
    return dict.fromkeys(existing, Status.PENDING) | found


def find_given(
    jobs: Iterable[JobDocument], given_ids: Collection[str], aliases: Aliases | None = None
) -> Operation[dict[str, Status]]:
    """Those that exist already, by the ids that the caller gave: the same job sent again, or an error."""
    sent = {job.id: job for job in jobs if job.id in given_ids}
    if not sent:
        return {}
    rows = yield Statement("find_given", {"jobs": to_json(sorted(sent)).decode()})
    for job_id, type_name, chain_index, _ in rows:
        own = sent[job_id].type_name
        if chain_index > 0:
            raise InvalidOption("id", job_id, f"belongs to a later job of a chain, of {type_name!r}; give another one")
        if type_name != own and type_name not in (aliases or {}).get(own, ()):
            raise InvalidOption("id", job_id, f"belongs to a job of {type_name!r}, not {own!r}; give another one")
    return {job_id: Status(status) for job_id, _, _, status in rows}
