"""An event loop in a thread of its own: a handler that blocks the worker's loop does not keep hints from arriving."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future

_log = logging.getLogger("holdfast.notify")


class LoopThread:
    """Runs one coroutine until it returns or `stop` is called; `ended` tells when nothing of it is left."""

    def __init__(self, name: str, serve: Callable[[], Awaitable[None]]) -> None:
        self._serve = serve
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[None] | None = None
        self._is_stopped = False
        self.ended: Future[None] = Future()
        self.ended.set_running_or_notify_cancel()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def call(self, work: Callable[..., object], *arguments: object) -> None:
        """On the loop, from any thread; one that has ended has nothing more to do."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(work, *arguments)

    def stop(self) -> Future[None]:
        self.call(self._cancel)
        return self.ended

    def _cancel(self) -> None:
        self._is_stopped = True
        if self._task is not None:
            self._task.cancel()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._main())
        except asyncio.CancelledError:
            pass
        except Exception:  # noqa: BLE001 - hints are expendable, the process is not
            _log.exception("wake-up hints are not received any more; polling goes on")
        finally:
            self.ended.set_result(None)

    async def _main(self) -> None:
        self._task = asyncio.current_task()
        if not self._is_stopped:
            await self._serve()
