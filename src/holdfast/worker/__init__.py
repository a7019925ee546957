"""The engine: claims jobs, runs their handlers, keeps their leases and settles their outcomes.

It never decides what a state change means: that is the verbs' business.
"""

from holdfast.worker.batch import Batch, Item, SyncBatch
from holdfast.worker.cancellation import Cancellation
from holdfast.worker.config import WorkerConfig, WorkerSettings
from holdfast.worker.context import Context
from holdfast.worker.equipment import Equipment, Hints
from holdfast.worker.handler import Handler, Middleware
from holdfast.worker.hooks import OnDead, OnError
from holdfast.worker.sync_context import SyncContext
from holdfast.worker.worker import Worker

__all__ = [
    "Batch",
    "Cancellation",
    "Context",
    "Equipment",
    "Handler",
    "Hints",
    "Item",
    "Middleware",
    "OnDead",
    "OnError",
    "SyncBatch",
    "SyncContext",
    "Worker",
    "WorkerConfig",
    "WorkerSettings",
]
