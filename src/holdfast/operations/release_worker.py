"""Take everything from a worker, because a person says so."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.model.operating import WorkerRelease
from holdfast.model.payload import to_json
from holdfast.operations.release_jobs import release_orphans
from holdfast.operations.statement import ATOMICALLY, Operation, Statement
from holdfast.operations.tell_holders import tell_holders
from holdfast.operations.worker_life import retire_worker


class ReleasedJobs(NamedTuple):
    """What became of it, and whom to tell after the commit: the queues that have work again, and the worker."""

    release: WorkerRelease
    woken: set[str]


def release_worker(worker_id: str, actor: str | None) -> Operation[ReleasedJobs]:
    """Its jobs go back untouched, and its handlers learn that their leases are lost: the fence shuts them out.

    A worker that lives stays registered, or the next jobs that it claims would be taken for those of a dead one.
    """
    yield ATOMICALLY
    rows = yield Statement("find_held", {"worker": worker_id})
    status = rows[0][3]
    held = {job_id: (chain_id, queue) for job_id, chain_id, queue, _ in rows if job_id is not None}
    letters = (yield from tell_holders(held)) if held else set()
    released, woken, _ = yield from release_orphans(worker_id, ())
    if status == "dead":
        yield from retire_worker(worker_id)
    is_known = status is not None or bool(held)
    detail = {"worker": worker_id}
    entries = [
        {"chain_id": held[job_id][0], "job_id": job_id, "outcome": "released", "detail": detail}
        for job_id in sorted(released)
        if job_id in held
    ] or [{"chain_id": None, "job_id": None, "outcome": "released" if is_known else "not_found", "detail": detail}]
    parameters = {"actor": actor, "verb": "release_workers", "entries": to_json(entries).decode()}
    yield Statement("record_audit", parameters)
    release = WorkerRelease(
        worker_id=worker_id, is_known=is_known, released=sorted(released), locked=sorted(held.keys() - set(released))
    )
    return ReleasedJobs(release, letters | woken)
