"""Workers for limited queues, in whatever process: they claim as their shares allow, and hold each job for a moment."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import partial

from holdfast.errors import HoldfastError
from holdfast.model.scan_position import ScanPosition
from holdfast.operations.claim_jobs import ClaimedJob, claim_jobs, find_lanes
from holdfast.operations.complete_jobs import Completion, complete_jobs
from holdfast.operations.worker_life import WorkerIdentity, heartbeat
from holdfast.stores import AsyncStore, open_store
from holdfast.stores.open import StoreConfig
from holdfast.worker.share_keeper import ShareKeeper
from tests.crew.ledger import Entry

QUEUE = "limited"
DEAD_AFTER = timedelta(seconds=8)
_LEASE = timedelta(seconds=60)


class LimitedWorker:
    """A fetcher in miniature: it asks for room, claims, and says what it claimed and what has ended."""

    def __init__(self, store: AsyncStore, worker_id: str, *, slots: int = 4, hold: float = 0.02) -> None:
        self._store = store
        self._id = worker_id
        self._slots = slots
        self._hold = hold
        self._running = 0
        self.shares = ShareKeeper(
            store,
            worker_id,
            [QUEUE],
            lambda _: self._slots,
            interval=timedelta(seconds=0.3),
            dead_after=DEAD_AFTER,
        )

    async def run(self) -> None:
        """Until it is cancelled: then it leaves everything as it is, as one that is killed does."""
        async with asyncio.TaskGroup() as tasks:
            await self._beat_once()
            tasks.create_task(self._beat())
            tasks.create_task(self.shares.run())
            while True:
                room = self.shares.room(QUEUE)
                free = self._slots - self._running
                count = free if room is None else min(free, room)
                for job in await self._claim(count) if count else []:
                    tasks.create_task(self._work(job))
                await asyncio.sleep(random.uniform(0.001, 0.01))  # noqa: S311 - jitter

    async def _claim(self, count: int) -> list[ClaimedJob]:
        self.shares.claiming(QUEUE, count)
        claimed: list[ClaimedJob] = []
        try:
            found = await self._store.run(lambda: find_lanes([QUEUE]), read_only=True)
            position = ScanPosition()
            position.look_back((lane for lane in found if not lane.is_suspect), 0, 0)
            if position.lanes:
                claimed = await self._store.run(lambda: claim_jobs(self._id, position.lanes, count, _LEASE))
        finally:
            self.shares.claimed(QUEUE, len(claimed))
        self._running += len(claimed)
        return claimed

    async def _work(self, job: ClaimedJob) -> None:
        await asyncio.sleep(random.uniform(0.2, 2) * self._hold)  # noqa: S311 - of different lengths
        completion = Completion(job.id, job.lease_generation, None)
        # Somebody else's claim, whose snapshot is older than ours, may have it locked for a moment.
        while (await self._store.run(lambda: complete_jobs(self._id, [completion]))).locked:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)
        self._running -= 1
        self.shares.ended(QUEUE)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(0.5)
            with suppress(HoldfastError):
                await self._beat_once()

    async def _beat_once(self) -> None:
        identity = WorkerIdentity(id=self._id, version="0.1.0", queues=[QUEUE])
        await self._store.run(partial(heartbeat, identity, DEAD_AFTER, is_draining=False))


async def work(url: str, names: Iterable[str], seconds: float, hold: float = 0.02) -> None:
    """Several of them beside each other, each with connections of its own, for a while."""
    # SQLite's writer is shared per config, so a differing pool size, which SQLite ignores, keeps them apart.
    stores = [open_store(url, StoreConfig(pool_size=3 + n)).asynchronous() for n, _ in enumerate(names)]
    tasks = [
        asyncio.create_task(LimitedWorker(store, name, hold=hold).run())
        for store, name in zip(stores, names, strict=True)
    ]
    try:
        done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for store in stores:
            await store.close()


def work_in_a_process(url: str, names: list[str], seconds: float, hold: float) -> None:
    """For `multiprocessing`."""
    asyncio.run(work(url, names, seconds, hold))


def worst_excess(starts: Iterable[float], rate: float) -> float:
    """The most starts in any window beyond rate × its length: what a burst has to allow."""
    worst, best_before = 0.0, float("-inf")
    for number, moment in enumerate(sorted(starts)):
        best_before = max(best_before, rate * moment - number)
        worst = max(worst, number + 1 - rate * moment + best_before)
    return worst


def most_at_once(
    entries: Iterable[Entry], deaths: Mapping[int, float] | None = None, *, since: float = 0.0, until: float = math.inf
) -> int:
    """Of how many handlers the first line had been reached at a time, and the last not, in whichever processes.

    `deaths`: when processes were killed, which ends what ran in them.
    """
    entries = list(entries)
    ends = {(entry.job_id, entry.generation): entry.at for entry in entries if entry.event != "started"}
    turns: list[tuple[float, int]] = []
    for entry in entries:
        if entry.event == "started":
            end = ends.get((entry.job_id, entry.generation), (deaths or {}).get(entry.pid, time.monotonic()))
            if entry.at <= until and end >= since:
                turns += [(max(entry.at, since), 1), (end, -1)]
    running = most = 0
    for _, turn in sorted(turns):
        running += turn
        most = max(most, running)
    return most
