"""A queue with a rate that does not bind goes on while the ends of its last jobs are being written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from holdfast.operations.statement import Verb
from holdfast.worker.patient_store import PatientStore
from tests.conformance.worker.conftest import BRISK, Ground, Hand

_JOBS = 400
_SLOTS = 10


@pytest.fixture
def kind() -> str:
    return "async"


@pytest.fixture
def overlaps(monkeypatch: pytest.MonkeyPatch) -> Callable[[], tuple[int, int]]:
    """How many claims were sent, and how many of them while completions were under way."""
    run = PatientStore.run
    under_way: list[str] = []
    claims = during = 0

    async def watched(self: PatientStore, verb: Verb[Any], *, read_only: bool = False) -> Any:
        nonlocal claims, during
        operation = verb()
        name = next(operation).name
        operation.close()
        if name == "claim_jobs":
            claims += 1
            during += "complete_jobs" in under_way
        under_way.append(name)
        try:
            return await run(self, verb, read_only=read_only)
        finally:
            under_way.remove(name)

    monkeypatch.setattr(PatientStore, "run", watched)
    return lambda: (claims, during)


async def test_claims_do_not_wait_for_completions(live_ground: Ground, overlaps: Callable[[], tuple[int, int]]) -> None:
    done: list[int] = []

    async def work(_: Hand, number: int) -> None:
        await asyncio.sleep(0)
        done.append(number)

    job = live_ground.job(work)
    await live_ground.client.queues.limit("default", rate=100_000, burst=10_000)
    await live_ground.client.enqueue_many([job.call(number=number) for number in range(_JOBS)])
    async with live_ground.app.worker(config=replace(BRISK, concurrency=_SLOTS)):
        await live_ground.until(lambda: len(done) == _JOBS)
    claims, during = overlaps()
    assert during > claims / 3
