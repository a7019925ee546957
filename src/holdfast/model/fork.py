"""What must not be used on both sides of a `fork`: sockets, threads and locks of the parent.

The child forgets them, without closing: the parent goes on using its own.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forkable(Protocol):
    """Something that holds connections or threads."""

    def after_fork(self) -> None:
        """In the child: forget them, and start anew when asked."""


_known: weakref.WeakSet[Forkable] = weakref.WeakSet()


def forget_after_fork(holder: Forkable) -> None:
    """Have `holder.after_fork()` called in every child process."""
    _known.add(holder)


def _in_child() -> None:
    for holder in list(_known):
        holder.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
