"""How a worker behaves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal, TypedDict, cast, get_args

from holdfast.errors import InvalidOption
from holdfast.model.clock import Duration, checked_duration
from holdfast.model.flags import checked_flags
from holdfast.model.identifiers import checked_name
from holdfast.model.queue_order import QueueOrder, checked_queue_order

#: which jobs of its queues a worker prefers
Affinity = Literal["any", "ring"]
#: flags of jobs that a worker leaves to others, or what says which these are now
ForbiddenFlags = Iterable[str] | Callable[[], Iterable[str]]

_MOST_SLOTS = 10_000
_LAST_PORT = 65_535
#: what is shorter keeps worker and database busy with nothing else, or cannot be kept up
_SHORTEST = {
    "heartbeat": timedelta(milliseconds=50),
    "dead_after": timedelta(milliseconds=150),
    "lease": timedelta(milliseconds=100),
    "renew": timedelta(milliseconds=50),
    "poll": timedelta(milliseconds=10),
    "stop_deadline": timedelta(),
}


class WorkerSettings(TypedDict, total=False):
    """The fields of `WorkerConfig`, as keywords."""

    queues: Sequence[str] | None
    concurrency: int | None
    heartbeat: Duration
    dead_after: Duration
    lease: Duration
    renew: Duration
    poll: Duration
    stop_deadline: Duration
    batch: int
    is_notified: bool
    max_jobs: int | None
    max_rss: int | None
    until_idle: bool
    health_port: int | None
    health_host: str
    affinity: Affinity
    forbidden_flags: ForbiddenFlags
    queue_order: QueueOrder


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerConfig:
    """Settings of one worker process; durations are timedeltas, or numbers of seconds, which become such.

    - `queues` (those of the app's job types): the lanes it serves.
    - `concurrency` (100; 20 if some handler is a plain function): jobs that run at once.
    - `heartbeat` (5 s), `dead_after` (20 s): a worker silent for so long is taken for dead.
    - `lease` (60 s), `renew` (20 s): how long a job is held, and how often that is extended.
    - `poll` (5 s): how often an idle worker looks without being told.
    - `stop_deadline` (30 s): how long running jobs may take after a stop was asked for.
    - `batch` (500): most jobs claimed or settled by one statement.
    - `is_notified` (yes): listen for hints; without, polling alone.
    - `max_jobs`, `max_rss` (none): after so many jobs, or with so many bytes of memory, it ends as if told to stop.
    - `until_idle` (no): it ends when nothing is due in its queues and nothing of them runs.
    - `health_port` (none), `health_host` ("127.0.0.1"): where it answers /live, /ready and /leader over HTTP.
    - `affinity` ("any"): with "ring", the workers of a queue share its partition keys out among themselves.
    - `forbidden_flags` (none): jobs with one of these flags are left to others; a function is asked before every claim.
    - `queue_order` ("priority"): the best priority of all its queues first, then what has waited longest; or "strict":
      a queue only when those named before it have nothing due; or weights: `{"mail": 3, "web": 1}`.
    """

    queues: Sequence[str] | None = None
    concurrency: int | None = None
    heartbeat: timedelta = timedelta(seconds=5)
    dead_after: timedelta = timedelta(seconds=20)
    lease: timedelta = timedelta(seconds=60)
    renew: timedelta = timedelta(seconds=20)
    poll: timedelta = timedelta(seconds=5)
    stop_deadline: timedelta = timedelta(seconds=30)
    batch: int = 500
    is_notified: bool = True
    max_jobs: int | None = None
    max_rss: int | None = None
    until_idle: bool = False
    health_port: int | None = None
    health_host: str = "127.0.0.1"
    affinity: Affinity = "any"
    forbidden_flags: ForbiddenFlags = ()
    queue_order: QueueOrder = "priority"

    def __post_init__(self) -> None:
        for queue in self.queues or ():
            checked_name("queue", queue)
        if self.queues is not None and (isinstance(self.queues, str) or not self.queues):
            raise InvalidOption("queues", self.queues, "must be a list of queue names")
        for option in ("concurrency", "batch"):
            value = getattr(self, option)
            if value is not None and not (isinstance(value, int) and 1 <= value <= _MOST_SLOTS):
                raise InvalidOption(option, value, f"must be a whole number from 1 to {_MOST_SLOTS:,}")
        for option in ("max_jobs", "max_rss"):
            value = getattr(self, option)
            if value is not None and not (type(value) is int and value > 0):
                raise InvalidOption(option, value, "must be a whole number above zero")
        if self.health_port is not None and not (type(self.health_port) is int and 0 <= self.health_port <= _LAST_PORT):
            raise InvalidOption("health_port", self.health_port, f"must be a whole number from 0 to {_LAST_PORT}")
        if self.affinity not in get_args(Affinity):
            raise InvalidOption("affinity", self.affinity, "must be 'any' or 'ring'")
        if not callable(self.forbidden_flags):
            object.__setattr__(self, "forbidden_flags", tuple(checked_flags("forbidden_flags", self.forbidden_flags)))
        object.__setattr__(self, "queue_order", checked_queue_order(self.queue_order))
        self._check_durations()

    def _check_durations(self) -> None:
        for option, shortest in _SHORTEST.items():
            given = getattr(self, option)
            duration = checked_duration(option, given)
            if duration < shortest:
                raise InvalidOption(option, given, f"must be at least {shortest.total_seconds():g} s")
            object.__setattr__(self, option, duration)
        # One late beat must not look like a dead worker.
        if self.heartbeat * 3 > self.dead_after:
            raise InvalidOption(
                "dead_after",
                self.dead_after,
                f"must be at least three times heartbeat={self.heartbeat.total_seconds():g} s; "
                f"make it longer (--dead-after), or let the heart beat more often (--heartbeat)",
            )
        if self.renew * 2 > self.lease:
            raise InvalidOption(
                "lease",
                self.lease,
                f"must be at least twice renew={self.renew.total_seconds():g} s; make it longer (--lease)",
            )


def with_settings(config: WorkerConfig, settings: WorkerSettings) -> WorkerConfig:
    """Some of its fields replaced."""
    return replace(config, **cast("dict[str, Any]", settings))
