"""Hints that cannot be relied on: by a seed they are dropped, delayed or doubled, whatever carries them."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from holdfast.notify.board import Board, Subscriber
from tests.crew.fault import Fault, Point


@dataclass(frozen=True)
class Flaky(Fault):
    """A fault that is there all the time."""

    name: str = "hints"
    point: Point = Point.BEFORE
    seed: int = 0
    drop: float = 0.5
    delay: float = 0.2
    double: float = 0.2

    def arm(self) -> None:
        dice = random.Random(self.seed)  # noqa: S311 - repeatable, not secret
        tell = Board._tell

        def flaky(chosen: Iterable[Subscriber], what: Callable[[Subscriber], None]) -> None:
            chosen = list(chosen)
            if dice.random() < self.drop:
                return
            if dice.random() < self.delay:
                later = threading.Timer(dice.uniform(0.01, 1.0), tell, (chosen, what))
                later.daemon = True
                later.start()
            else:
                tell(chosen, what)
            if dice.random() < self.double:
                tell(chosen, what)

        Board._tell = staticmethod(flaky)  # type: ignore[method-assign]  # that is the point
