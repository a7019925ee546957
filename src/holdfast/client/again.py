"""Tries again what was in somebody's way, for threads.

Generated from `again_async.py` by `python3 dev.py generate`; edit that file instead.
"""

from __future__ import annotations

import time
from typing import TypeVar

from holdfast.errors import DatabaseBusy, DatabaseUnavailable, SerializationConflict
from holdfast.operations.repeatable import Repeatable
from holdfast.operations.statement import Verb
from holdfast.stores import SyncStore

T = TypeVar("T")

_TRIES = 4
_FIRST_PAUSE = 0.05
_PATIENCE_SECONDS = 5.0


def run_again(store: SyncStore, verb: Verb[T]) -> T:
    """A verb that can simply be repeated after a conflict, or a commit that may or may not have happened."""
    pause = _FIRST_PAUSE
    give_up = time.monotonic() + _PATIENCE_SECONDS
    for _ in range(_TRIES - 1):
        try:
            return store.run(verb)
        except DatabaseBusy:
            raise
        except (DatabaseUnavailable, SerializationConflict):
            if time.monotonic() > give_up:
                raise
            time.sleep(pause)
            pause *= 4
    return store.run(verb)


def run_repeatable(store: SyncStore, verb: Verb[T]) -> T:
    """One that would answer otherwise the second time: it is asked about before it is repeated."""
    return run_again(store, Repeatable(verb).run)
