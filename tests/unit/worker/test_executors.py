"""Calls that do not come about: each of them comes back all the same, for its slot and its permit hang on that."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from holdfast import App
from holdfast.operations.claim_jobs import ClaimedJob
from holdfast.operations.complete_jobs import Completion
from holdfast.worker.attempt import Attempt, Ending
from holdfast.worker.cancellation import Cancellation
from holdfast.worker.executors import threads
from holdfast.worker.executors.process_line import ProcessPlan
from holdfast.worker.executors.processes import ProcessExecutor
from holdfast.worker.executors.threads import ThreadExecutor
from holdfast.worker.handler import Handler


def _nothing(*_: object) -> None: ...


class _Done:
    """What came back, by the job's id."""

    def __init__(self) -> None:
        self.endings: dict[str, Ending] = {}
        self._all = asyncio.Event()

    def __call__(self, attempts: Sequence[Attempt], endings: Sequence[Ending]) -> None:
        assert not self.endings.keys() & {attempt.job.id for attempt in attempts}
        self.endings |= {attempt.job.id: ending for attempt, ending in zip(attempts, endings, strict=True)}
        self._all.set()

    async def wait(self, count: int) -> None:
        async with asyncio.timeout(10):
            while len(self.endings) < count:
                self._all.clear()
                await self._all.wait()


def _attempt(name: str, handler: Handler) -> Attempt:
    values: dict[str, Any] = dict.fromkeys(ClaimedJob._fields)
    values |= {"id": name, "lease_generation": 1, "type_name": "work", "attempt": 1, "queue": "a", "input": "{}"}
    return Attempt(ClaimedJob(**values), handler, "w")


@pytest.fixture
def handler() -> Iterator[Handler]:
    app = App("sqlite:////nowhere/at/all.db")

    @app.job()
    def work() -> None: ...

    yield app._registry.handlers["work"]
    app.close()


async def test_a_process_call_that_is_not_wanted_before_its_first_step(handler: Handler) -> None:
    """No process is started for it, and its job goes back."""
    done = _Done()
    plan = ProcessPlan(command=["/nowhere/at/all"], app={})
    equipment: Any = None
    executor = ProcessExecutor(plan, equipment, _nothing, _nothing, done)
    attempt = _attempt("1", handler)
    executor.start([attempt], handler)
    attempt.cancelled = Cancellation.STOPPING
    executor.interrupt(attempt)
    await done.wait(1)
    assert done.endings == {"1": attempt.lease}
    await executor.close()


async def test_calls_wait_where_no_thread_is_to_be_had(handler: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a container has as many as it may: those that are there serve all, and the first is asked for again."""
    start = threading.Thread.start
    refusals = 0

    def refuse(thread: threading.Thread) -> None:
        nonlocal refusals
        refusals += 1
        if refusals != 2:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threads, "_THREAD_SECONDS", 0.01)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    done = _Done()
    equipment: Any = None
    executor = ThreadExecutor(10, equipment, _nothing, done)
    for name in "123":
        executor.start([_attempt(name, handler)], handler)
    await done.wait(3)
    assert {type(ending) for ending in done.endings.values()} == {Completion}
    assert executor.busy == 0
    await executor.close()
