"""Waiting for something to be true, never for time to pass."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_SECONDS = 25.0


def wait_for(probe: Callable[[], T], what: str, *, patience: float = PATIENCE_SECONDS, pause: float = 0.01) -> T:
    """The first true answer of `probe`."""
    deadline = time.monotonic() + patience
    while True:
        if answer := probe():
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {patience:g} s: {what}")
        time.sleep(pause)
