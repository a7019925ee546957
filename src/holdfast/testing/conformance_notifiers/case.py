"""What a case is, and how cases are gathered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from holdfast.testing.conformance_notifiers.stand import Stand

Check = Callable[[Stand], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Case:
    """One claim about notifiers.

    - `name`: `subject/behaviour`, unique.
    - `claim`: the same in a sentence.
    - `run`: raises AssertionError if the claim does not hold.
    - `is_for`: the stands for which it is made.
    """

    name: str
    claim: str
    run: Check
    is_for: Callable[[Stand], bool]


class Cases(list[Case]):
    """The cases of a subject; the result of calling it is a decorator that takes name and claim from the function."""

    def __init__(self, subject: str) -> None:
        super().__init__()
        self.subject = subject

    def __call__(self, is_for: Callable[[Stand], bool] = lambda _: True) -> Callable[[Check], Check]:
        def add(check: Check) -> Check:
            self.append(Case(f"{self.subject}/{check.__name__}", check.__doc__ or "", check, is_for))
            return check

        return add
