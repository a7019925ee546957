"""Tasks that take their first step at once: one that never waits is over when it is made."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any

if sys.version_info >= (3, 12):

    def eager_task(
        run: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop, context: Context
    ) -> asyncio.Task[None]:
        """For our own tasks only: a factory of the loop would change those of the handlers too."""
        return asyncio.Task(run, loop=loop, eager_start=True, context=context)

else:
    # Documented for those who make tasks of their own.
    from asyncio.tasks import _enter_task, _leave_task

    def eager_task(
        run: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop, context: Context
    ) -> asyncio.Task[None]:
        """The same, by hand: a task leaves its first step with `loop.call_soon`, so we stand there while it is made."""
        steps: list[Callable[[], object]] = []
        call_soon = loop.call_soon

        def keep(callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.Handle | None:
            if context is not own:  # of a destructor, say, that came in between
                return call_soon(callback, *args, context=context)
            steps.append(callback)
            return None

        own = context
        try:
            loop.call_soon = keep  # type: ignore[method-assign, assignment]  # a task does not look at the handle
        except AttributeError:  # a loop that is all C
            return asyncio.Task(run, loop=loop, context=context)
        try:
            task = asyncio.Task(run, loop=loop, context=context)
        finally:
            del loop.call_soon
        outer = asyncio.current_task(loop)
        if outer is not None:
            _leave_task(loop, outer)
        try:
            context.run(steps[0])
        finally:
            if outer is not None:
                _enter_task(loop, outer)
        return task
