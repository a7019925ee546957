"""What operators see: counts, throughput, queues and workers, as values."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

State = Literal["ready", "scheduled", "held", "blocked", "running", "dead_letter"]


class StateCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs of a type are in a state.

    - `is_capped`: there are at least so many; counting went no further.
    - `oldest_seconds`: for how long the oldest of them has been in that state; None if it is yet to come.
    """

    queue: str
    type_name: str
    state: State
    jobs: int
    is_capped: bool = False
    oldest_seconds: float | None = None


class ThroughputMinute(msgspec.Struct, frozen=True, kw_only=True):
    """How many attempts at jobs of a type were completed and failed in a minute, as workers reported it.

    What is older than a day is summed up by the hour: `minute` is the first one of it.
    """

    minute: datetime
    queue: str
    type_name: str
    completed: int
    failed: int


class ServiceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A service that works in the background.

    - `worker_id`: the leader that last reported it.
    - `last_success_seconds`: how long ago it was last done with a round.
    """

    name: str
    worker_id: str
    last_success_seconds: float


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a database, without the cost of counting it.

    - `age_seconds`: how old the counts are; 0 if there was no leader to keep them and they were counted just now.
    - `throughput`: oldest minute first.
    - `services`: when each was last done with a round; empty where no worker has led yet.
    """

    counts: list[StateCount]
    throughput: list[ThroughputMinute]
    age_seconds: float
    services: list[ServiceRecord] = []


class QueueRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A queue that has jobs, workers that serve it, a pause or limits.

    - `is_capped`: some of the numbers are lower bounds.
    - `oldest_ready_seconds`: for how long the first job that could run has been waiting.
    - `workers`: how many that are alive serve it.
    - `paused_at` and what follows: as in `QueueSettings`.
    """

    name: str
    ready: int = 0
    scheduled: int = 0
    held: int = 0
    blocked: int = 0
    running: int = 0
    dead_letters: int = 0
    is_capped: bool = False
    oldest_ready_seconds: float | None = None
    workers: int = 0
    paused_at: datetime | None = None
    resume_at: datetime | None = None
    paused_by: str | None = None
    pause_reason: str | None = None
    concurrency: int | None = None
    rate: float | None = None
    burst: int | None = None
    key_concurrency: int | None = None
    key_rate: float | None = None
    key_burst: int | None = None
    fair_by: str | None = None


class WorkerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A registered worker.

    - `status`: alive, draining (it is stopping) or dead (silent for too long; its jobs are taken from it).
    - `running`: how many jobs it holds.
    - `is_leader`: whether it runs the services of which a database needs one.
    - `silent_ms`: how long ago it was last heard.
    """

    id: str
    status: str
    started_at: datetime
    last_seen_at: datetime
    version: str
    queues: list[str]
    metadata: dict[str, Any]
    running: int
    is_leader: bool
    silent_ms: int


class WorkerRelease(msgspec.Struct, frozen=True, kw_only=True):
    """What was taken from a worker.

    - `is_known`: whether there was such a worker, or jobs that it held.
    - `released`: the jobs that went back.
    - `locked`: those that somebody else was just changing; try again.
    """

    worker_id: str
    is_known: bool
    released: list[str]
    locked: list[str]


class PruneCounts(msgspec.Struct, kw_only=True):
    """What retention did, in chains.

    - `seen`: how many were looked at, a chain perhaps twice.
    - `removed`, `archived`: how many are gone for good, and how many went to the archive; `jobs` they had.
    - `needed`: how many stay because an unfinished job, or one that may be retried, needs them; `locked`: because
      somebody was just changing them; `referenced`: because rows of the application refer to their jobs.
    - `closed`: what was dropped of the archive: jobs on SQLite, whole weeks on PostgreSQL.
    """

    seen: int = 0
    removed: int = 0
    archived: int = 0
    jobs: int = 0
    needed: int = 0
    locked: int = 0
    referenced: int = 0
    closed: int = 0

    def add(self, **counts: int) -> None:
        """Count more."""
        for name, count in counts.items():
            setattr(self, name, getattr(self, name) + count)


class VacuumCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What a vacuum of a SQLite file did.

    - `pages`, `free_pages`: how many there are now, and how many of them are free.
    - `freed_pages`: how many were given back to the file system.
    - `is_incremental`: whether the file can be made smaller bit by bit.
    """

    pages: int = 0
    free_pages: int = 0
    freed_pages: int = 0
    page_size: int = 0
    is_incremental: bool = True
