"""Running everything that is due: `app.drain` with the patience of a test."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.app import App, Drained
from holdfast.model.clock import Duration


def drain(
    app: App, *, queues: Sequence[str] | None = None, concurrency: int | None = None, timeout: Duration = 60
) -> Drained:
    """`app.drain()`, which gives up after a minute and waits for nobody who may have died.

    Jobs with a future time, retries among them, are not waited for: with a `FakeClock` advance it and drain again. The
    worker is the one that serves in production, so what a test sees here is what will happen there.
    """
    return app.drain(queues=queues, concurrency=concurrency, timeout=timeout, waits_for_dead=False)


async def adrain(
    app: App, *, queues: Sequence[str] | None = None, concurrency: int | None = None, timeout: Duration = 60
) -> Drained:
    """`drain` for async code."""
    return await app.adrain(queues=queues, concurrency=concurrency, timeout=timeout, waits_for_dead=False)
