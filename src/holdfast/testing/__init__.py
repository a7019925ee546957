"""Public test kit: apps on throw-away databases, contexts, clocks, draining, and the storage contract.

It stands on what users have: it runs the real worker on a real store and imitates neither.
"""

from holdfast.app import Drained
from holdfast.model.clock import FakeClock
from holdfast.testing.assertions import assert_enqueued
from holdfast.testing.contexts import (
    AttemptValues,
    FakeContext,
    FakeSyncContext,
    LoggedLine,
    Notes,
    context,
    sync_context,
)
from holdfast.testing.draining import adrain, drain
from holdfast.testing.temporary import temporary_app

__all__ = [
    "AttemptValues",
    "Drained",
    "FakeClock",
    "FakeContext",
    "FakeSyncContext",
    "LoggedLine",
    "Notes",
    "adrain",
    "assert_enqueued",
    "context",
    "drain",
    "sync_context",
    "temporary_app",
]
