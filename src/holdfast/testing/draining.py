"""Running everything that is due, with a real worker, until nothing is."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import msgspec

from holdfast.app import App
from holdfast.model.clock import Duration, checked_duration
from holdfast.notify import Waker
from holdfast.operations.claim_jobs import next_due
from holdfast.operations.statement import Rows, Statement
from holdfast.stores import AsyncStore
from holdfast.testing.observed import observed
from holdfast.worker import Worker, WorkerConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class Drained:
    """What became of the attempts that a drain ran.

    `completed` counts jobs that were continued too; `refused` are those that no handler here could run.
    """

    completed: int = 0
    retried: int = 0
    dead: int = 0
    cancelled: int = 0
    snoozed: int = 0
    refused: int = 0

    @property
    def failed(self) -> int:
        """Attempts that failed, whether they are repeated or not."""
        return self.retried + self.dead


def drain(
    app: App, *, queues: Sequence[str] | None = None, concurrency: int | None = None, timeout: Duration = 60
) -> Drained:
    """Run what is due, and what becomes due by that, and return when nothing is.

    - `queues` (those of the app's job types), `concurrency`: as for a worker.
    - `timeout` (60 s): after this a TimeoutError says what is still due.

    Jobs with a future time, retries among them, are not waited for: with a `FakeClock` advance it and drain again. The
    worker is the one that serves in production, so what a test sees here is what will happen there.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(adrain(app, queues=queues, concurrency=concurrency, timeout=timeout))
    raise RuntimeError("drain(app) cannot run inside an event loop; use: await adrain(app)")


async def adrain(
    app: App, *, queues: Sequence[str] | None = None, concurrency: int | None = None, timeout: Duration = 60
) -> Drained:
    """`drain` for async code."""
    patience = checked_duration("timeout", timeout)
    config = WorkerConfig(queues=queues, concurrency=concurrency, stop_deadline=patience, is_notified=False)
    tally = _Tally()
    store = observed(app.store, tally.note)
    reader = app.store.asynchronous()
    served: Sequence[str] = ()
    try:
        async with asyncio.timeout(patience.total_seconds()):
            await reader.ensure_ready()
            while True:
                waker = _DryWaker()
                worker = app.make_worker(config, store=store, waker=waker.serve)
                served = worker.queues
                await _until_dry(worker, waker)
                # Nothing runs now, so nobody can add what this look would miss.
                if await _due_in(reader, served) != timedelta():
                    return tally.counts()
    except TimeoutError:
        listing = ", ".join(served)
        raise TimeoutError(
            f"not everything could be run within {patience.total_seconds():g} s ({tally.counts()}; queues: {listing}): "
            f"a handler does not end, jobs enqueue each other for ever, or a transaction of the test keeps them locked"
        ) from None
    finally:
        await reader.close()


async def _until_dry(worker: Worker, waker: _DryWaker) -> None:
    """Run until the worker would sleep for want of jobs; then let it finish what it runs."""
    running = asyncio.create_task(worker.run())
    dry = asyncio.create_task(waker.is_dry.wait())
    try:
        await asyncio.wait([running, dry], return_when=asyncio.FIRST_COMPLETED)
        worker.stop()
        await asyncio.wait([running])
    except asyncio.CancelledError:
        # Twice for an immediate end; cancelling the worker itself would leave its handlers running.
        worker.stop()
        worker.stop()
        await asyncio.wait([running])
        raise
    finally:
        dry.cancel()
    await running


async def _due_in(store: AsyncStore, queues: Sequence[str]) -> timedelta | None:
    return await store.run(lambda: next_due(queues), read_only=True)


class _DryWaker:
    """Turns the worker's wish to sleep into the signal that there is nothing to claim."""

    def __init__(self) -> None:
        self.is_dry = asyncio.Event()
        self._poked = asyncio.Event()

    lease_channel: str | None = None

    def start(self) -> None:
        """Nobody is listened to."""

    def has_lease_news(self, worker_id: str) -> bool:  # noqa: ARG002 - as above
        return False

    def serve(self, queues: Sequence[str]) -> Waker:  # noqa: ARG002 - no hints are listened to
        return self

    async def wait(self, timeout: float) -> None:  # noqa: ARG002 - the drain ends before any time passes
        self.is_dry.set()
        await self._poked.wait()

    def poke(self) -> None:
        self._poked.set()

    async def close(self) -> None:
        """Nothing is open."""


class _Sent(msgspec.Struct):
    id: str
    lease_generation: int


_sent = msgspec.json.Decoder(list[_Sent])

#: verb -> what it makes of a job whose holder it is
_SUCCESS = {
    "complete_jobs": "completed",
    "continue_jobs": "completed",
    "fail_jobs": "retried",
    "snooze_jobs": "snoozed",
    "refuse_jobs": "refused",
}


class _Tally:
    """Counts outcomes as the database accepts them; the same one sent again is one."""

    def __init__(self) -> None:
        self._outcomes: dict[tuple[str, int], str] = {}

    def note(self, statement: Statement, rows: Rows) -> None:
        success = _SUCCESS.get(statement.name)
        if success is None:
            return
        # Of dependants these rows speak as well, by the ids of chains and the names of queues.
        answers: dict[str, str] = {job_id: outcome for job_id, outcome in rows if outcome not in ("woken", "unsettled")}
        for lease in _sent.decode(str(statement.parameters["jobs"])):
            # Most verbs answer only with what did not go through; what was locked is sent again.
            answer = answers.get(lease.id, success)
            self._outcomes[lease.id, lease.lease_generation] = success if answer == "pending" else answer

    def counts(self) -> Drained:
        found = list(self._outcomes.values())
        return Drained(
            completed=found.count("completed"),
            retried=found.count("retried"),
            dead=found.count("dead_letter"),
            cancelled=found.count("cancelled"),
            snoozed=found.count("snoozed"),
            refused=found.count("refused"),
        )
