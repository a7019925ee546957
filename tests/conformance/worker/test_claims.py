"""How often a worker asks for work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.operations.claim_jobs import claim_jobs
from holdfast.worker import fetcher
from tests.conformance.worker.conftest import BRISK, Ground, Hand

_JOBS = 40
#: a hint, and now and then a look that finds the job first, or a poll; on SQLite everybody's commits as well
_MOST_PER_JOB = {"postgres": 3, "sqlite": 6}


@pytest.fixture
def kind() -> str:
    return "async"


@pytest.fixture
def claims(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many claims were sent."""
    sent = 0

    def counted(*arguments: Any, **options: Any) -> Any:
        nonlocal sent
        sent += 1
        return claim_jobs(*arguments, **options)

    monkeypatch.setattr(fetcher, "claim_jobs", counted)
    return lambda: sent


async def test_a_job_that_was_due_is_no_reason_to_ask_for_another(
    live_ground: Ground, claims: Callable[[], int]
) -> None:
    """What a look saw, and a claim has taken since, does not make the worker claim until it may look again."""
    done: list[int] = []

    async def work(_: Hand, number: int) -> None:
        done.append(number)

    job = live_ground.job(work)
    async with live_ground.app.worker(config=BRISK):
        for number in range(_JOBS):
            await live_ground.put(job, number=number)
            await live_ground.until(lambda: len(done) > number)  # noqa: B023 - it is over before the next
            await asyncio.sleep(0.03)  # the pace of the jobs, not a wait for something
    assert claims() <= _JOBS * _MOST_PER_JOB[live_ground.app.store.dialect]
