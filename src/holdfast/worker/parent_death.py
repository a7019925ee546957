"""The signal that the kernel sends a process when the one that started it ends."""

from __future__ import annotations

import contextlib
import ctypes
import sys

_PR_SET_PDEATHSIG = 1


def set_parent_death_signal(number: int) -> None:
    """0 for none; nothing happens where the system has no such signal.

    It reaches those who listen to nobody: a process that is still importing, a handler that holds the interpreter.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
