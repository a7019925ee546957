"""Hints that do not leave the process."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.notify.board import Board, BoardListener, BoardWaker
from holdfast.notify.letters import new_address, read, sorted_out
from holdfast.notify.sqlite import FileNotifier, FileWaker


class LocalNotifier:
    """Direct signals between the clients and workers of one app in one process; from others nothing is heard.

    On SQLite `file` sees the ends of chains and what happens to leases.
    """

    inner_channel: str | None = None

    def __init__(self, *, file: FileNotifier | None = None) -> None:
        self.board = Board()
        self._file = file
        self._address = new_address()
        self.chain_channel = None if file is not None else self._address

    def open_waker(self, queues: Iterable[str]) -> BoardWaker:
        if self._file is not None:
            return FileWaker(self.board, queues, self._file.path)
        return BoardWaker(self.board, queues, self._address)

    def open_chain_listener(self) -> BoardListener:
        return BoardListener(self.board) if self._file is None else self._file.open_chain_listener()

    def hint(self, work: Iterable[str], *, has_ridden: bool = False) -> None:  # noqa: ARG002 - nothing rides
        queues, letters = sorted_out(work)
        for queue, count in queues.items():
            self.board.tell_work(queue, count)
        for letter in letters:
            if letter.inbox == self._address:
                read(self.board, letter.text)

    def may_ride_along(self) -> bool:
        return False

    def close(self) -> None:
        """Nothing is open."""
