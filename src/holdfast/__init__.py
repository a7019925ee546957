"""Durable work in the database you already run."""

import importlib
import typing

from holdfast.app import App, Drained, JobHandle
from holdfast.client import AsyncClient, Client
from holdfast.errors import HoldfastError
from holdfast.model.call import Call
from holdfast.model.control import ControlOutcome, ControlResult, Progress
from holdfast.model.dedup import Dedup
from holdfast.model.endings import Cancel, DeadLetter, RetryAt, Snooze, Suspended
from holdfast.model.job import Chain, ChainRecord, Job, JobError, Outcome, Page
from holdfast.model.job_filter import JobFilter
from holdfast.model.operating import (
    PruneCounts,
    QueueRecord,
    ServiceRecord,
    StateCount,
    Stats,
    ThroughputMinute,
    VacuumCounts,
    WorkerRecord,
    WorkerRelease,
)
from holdfast.model.queue import QueueSettings
from holdfast.model.retention import Keep
from holdfast.model.retry import Retry
from holdfast.model.schedule import ScheduleRecord
from holdfast.model.settings import SettingRecord
from holdfast.model.status import Status
from holdfast.operations.read_blockers import Blocker
from holdfast.telemetry import (
    AttemptEvent,
    ChainDeleted,
    Event,
    JobCancelled,
    JobCancelRequested,
    JobCompleted,
    JobContinued,
    JobDeadLettered,
    JobEnqueued,
    JobEvent,
    JobFailed,
    JobLost,
    JobReaped,
    JobRefused,
    JobReleased,
    JobReplaced,
    JobRescheduled,
    JobRetried,
    JobSnoozed,
    JobStarted,
    JobSuspended,
    WorkerEvent,
    WorkerStarted,
    WorkerStopped,
)
from holdfast.worker import Batch, Cancellation, Context, Item, SyncBatch, SyncContext, Worker, WorkerConfig

if typing.TYPE_CHECKING:
    from holdfast import testing as testing

__all__ = [
    "App",
    "AsyncClient",
    "AttemptEvent",
    "Batch",
    "Blocker",
    "Call",
    "Cancel",
    "Cancellation",
    "Chain",
    "ChainDeleted",
    "ChainRecord",
    "Client",
    "Context",
    "ControlOutcome",
    "ControlResult",
    "DeadLetter",
    "Dedup",
    "Drained",
    "Event",
    "HoldfastError",
    "Item",
    "Job",
    "JobCancelRequested",
    "JobCancelled",
    "JobCompleted",
    "JobContinued",
    "JobDeadLettered",
    "JobEnqueued",
    "JobError",
    "JobEvent",
    "JobFailed",
    "JobFilter",
    "JobHandle",
    "JobLost",
    "JobReaped",
    "JobRefused",
    "JobReleased",
    "JobReplaced",
    "JobRescheduled",
    "JobRetried",
    "JobSnoozed",
    "JobStarted",
    "JobSuspended",
    "Keep",
    "Outcome",
    "Page",
    "Progress",
    "PruneCounts",
    "QueueRecord",
    "QueueSettings",
    "Retry",
    "RetryAt",
    "ScheduleRecord",
    "ServiceRecord",
    "SettingRecord",
    "Snooze",
    "StateCount",
    "Stats",
    "Status",
    "Suspended",
    "SyncBatch",
    "SyncContext",
    "ThroughputMinute",
    "VacuumCounts",
    "Worker",
    "WorkerConfig",
    "WorkerEvent",
    "WorkerRecord",
    "WorkerRelease",
    "WorkerStarted",
    "WorkerStopped",
]

if not typing.TYPE_CHECKING:  # a checker would believe that there is every name

    def __getattr__(name: str) -> object:
        """`holdfast.testing`, loaded when somebody asks for it: a program that only enqueues does not."""
        if name == "testing":
            return importlib.import_module("holdfast.testing")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
