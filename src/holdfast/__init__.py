"""Durable work in the database you already run."""

from holdfast.app import App, JobHandle
from holdfast.client import AsyncClient, Client
from holdfast.errors import HoldfastError
from holdfast.model.call import Call
from holdfast.model.control import ControlOutcome, ControlResult, Progress
from holdfast.model.dedup import Dedup
from holdfast.model.endings import Cancel, DeadLetter, RetryAt, Snooze
from holdfast.model.job import Chain, ChainRecord, Job, JobError, Outcome, Page
from holdfast.model.job_filter import JobFilter
from holdfast.model.retry import Retry
from holdfast.model.status import Status
from holdfast.operations.read_blockers import Blocker
from holdfast.worker import Cancellation, Context, SyncContext, Worker, WorkerConfig

__all__ = [
    "App",
    "AsyncClient",
    "Blocker",
    "Call",
    "Cancel",
    "Cancellation",
    "Chain",
    "ChainRecord",
    "Client",
    "Context",
    "ControlOutcome",
    "ControlResult",
    "DeadLetter",
    "Dedup",
    "HoldfastError",
    "Job",
    "JobError",
    "JobFilter",
    "JobHandle",
    "Outcome",
    "Page",
    "Progress",
    "Retry",
    "RetryAt",
    "Snooze",
    "Status",
    "SyncContext",
    "Worker",
    "WorkerConfig",
]
