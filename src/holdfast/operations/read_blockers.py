"""What a job waited for."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.model.job import JobError
from holdfast.model.payload import from_json
from holdfast.model.status import Status
from holdfast.operations.look_at_chains import Sight, look_at_archive
from holdfast.operations.statement import Operation, Statement


class Blocker(msgspec.Struct, frozen=True, kw_only=True):
    """A chain that had to finish before the job could run: how it ended, and with what.

    `status` is None if the chain has been deleted since; one in the archive is still told of.
    """

    chain_id: str
    status: Status | None = None
    output: Any = None
    error: JobError | None = None


_error = msgspec.json.Decoder(JobError)
_blocker = msgspec.json.Decoder(Blocker)


def read_blockers(job_id: str) -> Operation[list[Blocker]]:
    """In the order in which they were given."""
    rows = yield Statement("read_blockers", {"id": job_id, "children": False})
    blockers = [_blocker.decode(row[0]) for row in rows]
    if missing := [blocker.chain_id for blocker in blockers if blocker.status is None]:
        archived = yield from look_at_archive(missing)
        return [_archived(blocker, archived.get(blocker.chain_id)) for blocker in blockers]
    return blockers


def _archived(blocker: Blocker, sight: Sight | None) -> Blocker:
    if sight is None or sight.status is None:
        return blocker
    return Blocker(
        chain_id=blocker.chain_id,
        status=Status(sight.status),
        output=None if sight.output is None else from_json(sight.output),
        error=None if sight.error is None else _error.decode(sight.error),
    )


class ChildState(msgspec.Struct, frozen=True, kw_only=True):
    """A chain that a job has enqueued by itself, and how it is; the output is still JSON.

    - `name`: of the step that enqueued it; `status`: None if it has been deleted since; one in the archive is still
      told of.
    - `is_resolved`: the job does not wait for it, or not any more.
    """

    chain_id: str
    name: str
    is_resolved: bool
    status: Status | None = None
    output: msgspec.Raw = msgspec.Raw(b"null")
    error: JobError | None = None


_child = msgspec.json.Decoder(ChildState)


def read_children(job_id: str) -> Operation[list[ChildState]]:
    """In the order in which they were enqueued. None of them is pruned before the job has ended.

    One that it did not get as a new chain, because a key or an id held it, may lie in the archive since before.
    """
    rows = yield Statement("read_blockers", {"id": job_id, "children": True})
    children = [_child.decode(row[0]) for row in rows]
    if missing := [child.chain_id for child in children if child.status is None]:
        archived = yield from look_at_archive(missing)
        return [_archived_child(child, archived.get(child.chain_id)) for child in children]
    return children


def _archived_child(child: ChildState, sight: Sight | None) -> ChildState:
    if sight is None or sight.status is None:
        return child
    return msgspec.structs.replace(
        child,
        status=Status(sight.status),
        output=child.output if sight.output is None else msgspec.Raw(sight.output.encode()),
        error=None if sight.error is None else _error.decode(sight.error),
    )
