"""What a worker can say of its health, to probes, to its supervisor and to systemd."""

from __future__ import annotations

from collections.abc import Callable

import msgspec


class Vitals(msgspec.Struct, frozen=True, kw_only=True):
    """A moment's state.

    - `is_live`: the event loop runs (or nobody could have asked) and heartbeats are acknowledged.
    - `is_ready`: registered, claims jobs, is not about to stop.
    - `is_leader`: does the housekeeping for all.
    - `summary`: a line for people.
    """

    is_live: bool
    is_ready: bool
    is_leader: bool
    summary: str


TakeVitals = Callable[[], Vitals]


def worker_vitals(
    worker_id: str, *, is_started: bool, is_stopping: bool, is_heard: bool, is_leader: bool, is_paused: bool = False
) -> Vitals:
    """Those of one worker; one that waits for its database to begin with is live and not ready."""
    if is_stopping:
        state = "stopping"
    elif is_paused:
        state = "paused: the database was restored or copied, see `holdfast workers accept`"
    elif not is_started:
        state = "starting"
    else:
        state = "working" if is_heard else "heartbeats are not acknowledged"
    return Vitals(
        is_live=is_heard,
        is_ready=is_heard and is_started and not is_stopping,
        is_leader=is_leader,
        summary=f"worker {worker_id}: {state}",
    )
