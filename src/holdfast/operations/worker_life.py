"""The life of a worker in the registry: registered, seen, retired, forgotten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from holdfast.model.clock import milliseconds
from holdfast.model.payload import to_json
from holdfast.operations.statement import Operation, Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerIdentity:
    """What a worker says of itself."""

    id: str
    version: str
    queues: Sequence[str]
    metadata: Mapping[str, object] = field(default_factory=dict)


def register_worker(identity: WorkerIdentity) -> Operation[None]:
    """Alive, from now on."""
    yield Statement(
        "register_worker",
        {
            "worker": identity.id,
            "version": identity.version,
            "queues": to_json(list(identity.queues)).decode(),
            "metadata": to_json(dict(identity.metadata)).decode(),
        },
    )


def heartbeat(identity: WorkerIdentity, *, is_draining: bool) -> Operation[None]:
    """Still alive; registers again if the row is gone."""
    rows = yield Statement("heartbeat", {"worker": identity.id, "status": "draining" if is_draining else "alive"})
    if not rows:
        yield from register_worker(identity)


def retire_worker(worker_id: str) -> Operation[None]:
    """Gone in good order."""
    yield Statement("retire_worker", {"worker": worker_id})


def forget_workers(dead_after: timedelta) -> Operation[list[str]]:
    """Mark the silent dead; returns the ids of the newly dead."""
    rows = yield Statement("forget_workers", {"dead_after_ms": milliseconds(dead_after)})
    return [worker_id for (worker_id,) in rows]
