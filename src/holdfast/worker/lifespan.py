"""What handlers share for as long as a worker, or a handler process, lives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack
from typing import Any

from holdfast.errors import WorkerCannotWork
from holdfast.worker.cancel_tasks import cancel_tasks

#: makes a context manager, of either kind; what it yields is `ctx.state`
MakeLifespan = Callable[[], AbstractAsyncContextManager[Any] | AbstractContextManager[Any]]


class Lifespan:
    """Opened before the first job, closed after the last, by one task: some resources insist on that."""

    def __init__(self, make: MakeLifespan | None) -> None:
        self._make = make
        self._task: asyncio.Task[None] | None = None
        self._leaving = asyncio.Event()
        self._opened = asyncio.Event()
        self._state: Any = None

    async def open(self) -> Any:
        """What handlers find as `ctx.state`."""
        if self._make is None:
            return None
        self._task = asyncio.create_task(self._live(self._make), name="holdfast-lifespan")
        opened = asyncio.create_task(self._opened.wait())
        try:
            await asyncio.wait([self._task, opened], return_when=asyncio.FIRST_COMPLETED)
        finally:
            opened.cancel()
        if self._task.done():
            await self._task
        return self._state

    async def close(self) -> None:
        """Idempotent."""
        self._leaving.set()
        if self._task is not None:
            await asyncio.wait([self._task])
            task, self._task = self._task, None
            await task

    async def abandon(self, patience: float) -> bool:
        """Cancel what is under way; returns whether it ended within `patience` seconds."""
        if self._task is None:
            return True
        task, self._task = self._task, None
        await cancel_tasks([task], patience)
        return task.done()

    async def _live(self, make: MakeLifespan) -> None:
        async with AsyncExitStack() as stack:
            try:
                self._state = await _entered(stack, make)
            except Exception as error:
                what = f"{type(error).__name__}: {error}"
                raise WorkerCannotWork(f"the app's lifespan could not be entered: {what}") from error
            self._opened.set()
            await self._leaving.wait()


async def _entered(stack: AsyncExitStack, make: MakeLifespan) -> Any:
    manager = make()
    if isinstance(manager, AbstractAsyncContextManager):
        return await stack.enter_async_context(manager)
    if isinstance(manager, AbstractContextManager):
        return stack.enter_context(manager)
    raise TypeError(
        f"it returned {type(manager).__name__} instead of a context manager; is @asynccontextmanager missing?"
    )
