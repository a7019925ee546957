"""Eager tasks: over at once where nothing is waited for, and tasks like any other where something is."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import ContextVar, copy_context
from typing import Any

import pytest

from holdfast.worker.executors.eager import eager_task

_word: ContextVar[str] = ContextVar("word", default="nothing")


def _start(run: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    return eager_task(run, asyncio.get_running_loop(), copy_context())


async def test_who_never_waits_is_over_at_once() -> None:
    seen: list[object] = []

    async def run() -> None:
        seen.append(asyncio.current_task())

    outer = asyncio.current_task()
    task = _start(run())
    assert task.done()
    assert seen == [task]
    assert asyncio.current_task() is outer


async def test_outside_of_a_task_too() -> None:
    """A slot is freed by a callback as well."""
    seen: list[object] = []
    tasks: list[asyncio.Task[None]] = []

    async def run() -> None:
        seen.append(asyncio.current_task())

    loop = asyncio.get_running_loop()
    loop.call_soon(lambda: tasks.append(_start(run())))
    loop.call_soon(lambda: seen.append(asyncio.current_task()))
    await asyncio.sleep(0.01)
    assert seen == [*tasks, None]


async def test_who_waits_goes_on_in_the_same_task_and_is_seen() -> None:
    seen: list[object] = []

    async def run() -> None:
        seen.append(asyncio.current_task())
        await asyncio.sleep(0)
        seen.append(asyncio.current_task())

    task = _start(run())
    assert not task.done()
    assert task in asyncio.all_tasks()
    await task
    assert seen == [task, task]


async def test_what_it_sets_is_its_own() -> None:
    async def run(word: str) -> None:
        assert _word.get() == "nothing"
        _word.set(word)
        await asyncio.sleep(0)
        assert _word.get() == word

    await asyncio.gather(*(_start(run(word)) for word in ("one", "two")))
    assert _word.get() == "nothing"


async def test_timeouts_and_groups_that_begin_in_the_first_step() -> None:
    seen: list[str] = []

    async def run() -> None:
        try:
            async with asyncio.timeout(0.01), asyncio.TaskGroup() as group:
                group.create_task(asyncio.sleep(60))
        except TimeoutError:
            seen.append("late")

    await _start(run())
    assert seen == ["late"]


async def test_it_can_be_cancelled_while_it_waits() -> None:
    task = _start(asyncio.sleep(60))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_what_it_raises_is_its_own() -> None:
    async def run() -> None:
        raise ValueError("no")

    task = _start(run())
    assert task.done()
    with pytest.raises(ValueError, match="no"):
        await task


async def test_one_may_start_another() -> None:
    seen: list[object] = []

    async def inner() -> None:
        seen.append(asyncio.current_task())

    async def run() -> None:
        seen.append(_start(inner()))
        seen.append(asyncio.current_task())

    task = _start(run())
    assert seen == [seen[1], seen[1], task]


async def test_whoever_calls_soon_in_its_first_step_is_called_later() -> None:
    seen: list[str] = []

    async def run() -> None:
        asyncio.get_running_loop().call_soon(seen.append, "later")
        seen.append("first")

    _start(run())
    assert seen == ["first"]
    await asyncio.sleep(0)
    assert seen == ["first", "later"]
