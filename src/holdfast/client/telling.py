"""What the two faces share for telling of what was done in a caller's transaction: after its commit, or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from holdfast.stores.borrowed import AsyncBorrowed, AsyncOwnTransaction, Borrowed, OwnTransaction
from holdfast.telemetry import Event, Listeners


def tell_with_commit(
    listeners: Listeners, tx: Any, borrowed: Borrowed | AsyncBorrowed, events: Iterable[Event]
) -> None:
    """Nobody knows when most drivers' connections commit: of what is done on these, nothing is told."""
    tell = partial(listeners.tell, list(events))
    if isinstance(tx, OwnTransaction | AsyncOwnTransaction):
        tx.after_commit(tell)
    else:
        borrowed.on_commit(tell)
