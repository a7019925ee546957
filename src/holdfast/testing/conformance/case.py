"""What a case is, and how the cases of a verb are gathered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from holdfast.testing.conformance.harness import Harness

Check = Callable[[Harness], Awaitable[None]]

BOTH = frozenset({"postgres", "sqlite"})
POSTGRES = frozenset({"postgres"})


@dataclass(frozen=True, slots=True)
class Case:
    """One claim about one verb.

    - `name`: `verb/behaviour`, unique.
    - `claim`: the same in a sentence.
    - `run`: raises AssertionError, or whatever the store raised, if the claim does not hold.
    - `dialects`: the databases for which it is made.
    - `is_on_empty`: it wants a database without Holdfast's tables; all others want a migrated one without rows.
    """

    name: str
    claim: str
    run: Check
    dialects: frozenset[str] = BOTH
    is_on_empty: bool = False


class Cases(list[Case]):
    """The cases of a verb; used as a decorator, it takes name and claim from the function."""

    def __init__(self, verb: str) -> None:
        super().__init__()
        self.verb = verb

    def __call__(self, check: Check) -> Check:
        self.add(check.__name__, check.__doc__ or "", check)
        return check

    def on_postgres(self, check: Check) -> Check:
        self.add(check.__name__, check.__doc__ or "", check, dialects=POSTGRES)
        return check

    def on_empty(self, check: Check) -> Check:
        self.add(check.__name__, check.__doc__ or "", check, is_on_empty=True)
        return check

    def add(
        self, name: str, claim: str, check: Check, *, dialects: frozenset[str] = BOTH, is_on_empty: bool = False
    ) -> None:
        self.append(Case(f"{self.verb}/{name}", claim, check, dialects, is_on_empty))
