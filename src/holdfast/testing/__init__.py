"""Public test kit: apps on throw-away databases, contexts, clocks, draining, and the storage contract.

It stands on what users have: it runs the real worker on a real store and imitates neither.
"""

from holdfast.model.clock import FakeClock
from holdfast.testing.temporary import temporary_app

__all__ = ["FakeClock", "temporary_app"]
