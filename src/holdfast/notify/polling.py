"""Waiting without hints: what lies below every notifier."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.notify.base import Silence
from holdfast.notify.board import Board, BoardListener, BoardWaker


class PollingNotifier(Silence):
    """Wakes by time alone, or when poked."""

    chain_channel: str | None = None

    def open_waker(self, queues: Iterable[str]) -> BoardWaker:
        return BoardWaker(Board(), queues)

    def open_chain_listener(self) -> BoardListener:
        return BoardListener(Board())
