"""The life of a worker in the registry: registered, seen, retired, forgotten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple

from holdfast.model.clock import milliseconds
from holdfast.model.payload import from_json, to_json
from holdfast.model.settings import RetrySettings
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


class Pulse(NamedTuple):
    """What a worker hears when it is heard: whether anybody leads, as far as is known, and what is set for retries."""

    has_leader: bool
    settings: str | None = None

    @property
    def retry_settings(self) -> RetrySettings:
        return RetrySettings.of(from_json(self.settings).items() if self.settings else ())


def heartbeat(identity: WorkerIdentity, dead_after: timedelta, *, is_draining: bool) -> Operation[Pulse]:
    """Still alive; registers again if the row is gone."""
    rows = yield Statement(
        "heartbeat",
        {
            "worker": identity.id,
            "status": "draining" if is_draining else "alive",
            "dead_after_ms": milliseconds(dead_after),
        },
    )
    if not rows:
        yield from register_worker(identity)
        return Pulse(has_leader=True)
    return Pulse(bool(rows[0][1]), rows[0][2])


def retire_worker(worker_id: str) -> Operation[None]:
    """Gone in good order."""
    yield Statement("retire_worker", {"worker": worker_id})


def heard_steadily(dead_after: timedelta) -> Operation[bool]:
    """Whether somebody could reach the database all the time, so that the silent are silent by themselves."""
    rows = yield Statement("heard_steadily", {"dead_after_ms": milliseconds(dead_after)})
    return bool(rows[0][0])


def forget_workers(dead_after: timedelta) -> Operation[list[str]]:
    """Mark the silent dead; returns the ids of the newly dead."""
    rows = yield Statement("forget_workers", {"dead_after_ms": milliseconds(dead_after)})
    return [worker_id for (worker_id,) in rows]
