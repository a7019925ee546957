"""Deadlines: on time, in any order, and without keeping what has ended."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from holdfast.worker.deadlines import Deadlines


class _Attempt:
    def __init__(self, name: str) -> None:
        self.name = name
        self.is_over = False


async def test_those_that_are_not_over_expire_in_time() -> None:
    expired: list[str] = []
    deadlines = Deadlines(lambda attempt: expired.append(attempt.name))  # type: ignore[attr-defined]  # a stand-in
    attempts: list[Any] = [_Attempt(name) for name in "abcd"]
    deadlines.add(attempts[0], 500, 4)
    deadlines.add(attempts[1], 20, 4)
    deadlines.add(attempts[2], 500, 4)
    deadlines.add(attempts[3], 500, 4)
    attempts[0].is_over = attempts[3].is_over = True
    await asyncio.sleep(0.1)
    assert expired == ["b"]
    await asyncio.sleep(0.6)
    assert expired == ["b", "c"]


async def test_a_line_that_ran_empty_serves_the_next() -> None:
    expired: list[str] = []
    deadlines = Deadlines(lambda attempt: expired.append(attempt.name))  # type: ignore[attr-defined]  # a stand-in
    for name in "ab":
        attempt: Any = _Attempt(name)
        deadlines.add(attempt, 10, 1)
        await asyncio.sleep(0.1)
    assert expired == ["a", "b"]


async def test_what_has_ended_is_not_kept_behind_what_has_not() -> None:
    deadlines = Deadlines(lambda _: None)
    first: Any = _Attempt("first")
    deadlines.add(first, 60_000, 1)
    for _ in range(10_000):
        attempt: Any = _Attempt("short")
        deadlines.add(attempt, 60_000, 2)
        attempt.is_over = True
    assert len(deadlines._lines[60_000].attempts) < 2_000
    deadlines.close()


async def test_closed_deadlines_are_silent() -> None:
    expired: list[Any] = []
    deadlines = Deadlines(expired.append)
    attempt: Any = _Attempt("late")
    deadlines.add(attempt, 10, 1)
    deadlines.close()
    await asyncio.sleep(0.05)
    assert expired == []


async def test_the_time_runs_from_when_the_attempt_began() -> None:
    expired: list[str] = []
    deadlines = Deadlines(lambda attempt: expired.append(attempt.name))  # type: ignore[attr-defined]  # a stand-in
    attempt: Any = _Attempt("a")
    deadlines.add(attempt, 60_000, 1, since=time.monotonic() - 60)
    await asyncio.sleep(0.1)
    assert expired == ["a"]
