"""How Ctrl-C, SIGTERM or a closed terminal ends a command that starts processes, without leaving anything behind."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruption:
    """The first signal raises KeyboardInterrupt; later ones are ignored, so that the cleaning up comes to its end."""

    def __init__(self) -> None:
        self._is_wanted = False
        self._is_deferred = False

    def __enter__(self) -> Self:
        self._before = [signal.signal(number, self._interrupt) for number in _SIGNALS]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in zip(_SIGNALS, self._before, strict=True):
            signal.signal(number, handler)

    def _interrupt(self, _number: int, _frame: object) -> None:
        self._is_wanted = True
        if not self._is_deferred:
            self.close()
            raise KeyboardInterrupt

    def check(self) -> None:
        """Raise what was deferred, or what came inside a finaliser, where an exception is only printed."""
        if self._is_wanted:
            self.close()
            raise KeyboardInterrupt

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Until the block has written down what it began."""
        self._is_deferred = True
        try:
            yield
        finally:
            self._is_deferred = False
        self.check()

    @contextmanager
    def over(self) -> Iterator[None]:
        """From the end of the block on, nothing is interrupted any more."""
        try:
            yield
        finally:
            self.close()

    def close(self) -> None:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)
