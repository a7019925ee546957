"""The kernel's word that a file has been written to: inotify, where the system has it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import sys
from collections.abc import Iterable
from typing import Self

_IN_MODIFY = 0x2
_IN_NONBLOCK, _IN_CLOEXEC = os.O_NONBLOCK, getattr(os, "O_CLOEXEC", 0)


class FileEvents:
    """Tells when one of some files has been written to; what was written may not be visible yet."""

    def __init__(self, libc: ctypes.CDLL, descriptor: int, paths: Iterable[str]) -> None:
        self._libc = libc
        self._descriptor = descriptor
        self._paths = [os.fsencode(path) for path in paths]
        self._stirred, self._stir = os.pipe()
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)
        self._poll.register(self._stirred, select.POLLIN)

    @classmethod
    def of(cls, paths: Iterable[str]) -> Self | None:
        """None where the system has no such thing, or no more of it."""
        if not sys.platform.startswith("linux"):
            return None
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            descriptor = libc.inotify_init1(_IN_NONBLOCK | _IN_CLOEXEC)
        except (OSError, AttributeError):
            return None
        return None if descriptor < 0 else cls(libc, descriptor, paths)

    def take(self) -> bool:
        """Whether something was written since the last call; files that have appeared since are watched from now on."""
        for path in self._paths:
            self._libc.inotify_add_watch(self._descriptor, path, _IN_MODIFY)
        is_written = False
        with contextlib.suppress(BlockingIOError):
            while os.read(self._descriptor, 65_536):
                is_written = True
        return is_written

    def wait(self, seconds: float) -> None:
        """Until something is written, at most so many seconds."""
        self._poll.poll(seconds * 1000)

    def interrupt(self) -> None:
        """Make `wait` return, now and for ever; from any thread."""
        with contextlib.suppress(OSError):
            os.write(self._stir, b"!")

    def close(self) -> None:
        for descriptor in (self._descriptor, self._stirred, self._stir):
            os.close(descriptor)
