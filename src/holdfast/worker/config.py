"""How a worker behaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from holdfast.errors import InvalidOption
from holdfast.model.identifiers import checked_name

_MOST_SLOTS = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerConfig:
    """Settings of one worker process.

    - `queues` (those of the app's job types): the lanes it serves.
    - `concurrency` (100; 20 if some handler is a plain function): jobs that run at once.
    - `heartbeat` (5 s), `dead_after` (20 s): a worker silent for so long is taken for dead.
    - `lease` (60 s), `renew` (20 s): how long a job is held, and how often that is extended.
    - `poll` (5 s): how often an idle worker looks without being told.
    - `stop_deadline` (30 s): how long running jobs may take after a stop was asked for.
    - `batch` (500): most jobs claimed or settled by one statement.
    - `is_notified` (yes): listen for hints; without, polling alone.
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

    def __post_init__(self) -> None:
        for queue in self.queues or ():
            checked_name("queue", queue)
        if self.queues is not None and (isinstance(self.queues, str) or not self.queues):
            raise InvalidOption("queues", self.queues, "must be a list of queue names")
        for option in ("concurrency", "batch"):
            value = getattr(self, option)
            if value is not None and not (isinstance(value, int) and 1 <= value <= _MOST_SLOTS):
                raise InvalidOption(option, value, f"must be a whole number from 1 to {_MOST_SLOTS:,}")
        # One late beat must not look like a dead worker.
        if self.heartbeat * 3 > self.dead_after:
            raise InvalidOption("dead_after", self.dead_after, "must be at least three times the heartbeat")
        if self.renew * 2 > self.lease:
            raise InvalidOption("lease", self.lease, "must be at least twice the renewal interval")
