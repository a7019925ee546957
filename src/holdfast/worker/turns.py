"""In which order the outcomes of a run may be written: none before those in front of it.

Completions of one run may share a statement, which completes none behind one that it has to leave out; so may those
that go back untouched. Anything else waits until everything in front of it is in the database.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from holdfast.operations.complete_jobs import Completion
from holdfast.operations.lease import Lease

T = TypeVar("T")

#: what may be on its way with others of its kind
_TOGETHER = (Completion, Lease)


@dataclass(slots=True)
class _Turn(Generic[T]):
    #: on their way, by their places
    sent: dict[int, T] = field(default_factory=dict)
    waiting: deque[tuple[int, T]] = field(default_factory=deque)
    #: somebody has the row of one of them locked
    is_stuck: bool = False

    def lets_pass(self, item: T) -> bool:
        if not self.sent:
            return True
        # Those that are on their way are of one kind, or they would not be.
        kind = type(next(iter(self.sent.values())))
        return not self.is_stuck and kind is type(item) and kind in _TOGETHER


class Turns(Generic[T]):
    """The runs of which something is not written yet, by their numbers."""

    def __init__(self) -> None:
        self._turns: dict[int, _Turn[T]] = {}

    def take(self, item: T, line: tuple[int, int]) -> bool:
        """Whether it may be sent now; if not, `written` returns it when it may."""
        number, place = line
        turn = self._turns.setdefault(number, _Turn())
        if turn.waiting or not turn.lets_pass(item):
            turn.waiting.append((place, item))
            return False
        turn.sent[place] = item
        return True

    def stuck(self, item: T, line: tuple[int, int]) -> bool:
        """It could not be written: whether it is the first of its run, to be tried again; others wait for that one."""
        number, place = line
        turn = self._turns[number]
        turn.is_stuck = True
        if place == min(turn.sent):
            return True
        del turn.sent[place]
        turn.waiting.append((place, item))
        turn.waiting = deque(sorted(turn.waiting, key=_place))
        return False

    def must_wait(self, item: T, line: tuple[int, int]) -> bool:
        """Whether one in front of it has turned out to be locked since it was sent; `written` returns it then."""
        turn = self._turns.get(line[0])
        return turn is not None and turn.is_stuck and not self.stuck(item, line)

    def written(self, line: tuple[int, int]) -> list[T]:
        """It is in the database; returns what may be sent now."""
        number, place = line
        turn = self._turns[number]
        turn.sent.pop(place, None)
        if not turn.sent:
            turn.is_stuck = False
        freed: list[T] = []
        while turn.waiting and turn.lets_pass(turn.waiting[0][1]):
            place, item = turn.waiting.popleft()
            turn.sent[place] = item
            freed.append(item)
        if not turn.sent:
            del self._turns[number]
        return freed


def _place(waiting: tuple[int, object]) -> int:
    return waiting[0]
