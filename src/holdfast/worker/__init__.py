"""The engine: claims jobs, runs their handlers, keeps their leases and settles their outcomes.

It never decides what a state change means: that is the verbs' business.
"""

from holdfast.worker.config import WorkerConfig
from holdfast.worker.context import Cancellation, Context, SyncContext
from holdfast.worker.handler import Handler
from holdfast.worker.worker import Worker

__all__ = ["Cancellation", "Context", "Handler", "SyncContext", "Worker", "WorkerConfig"]
