"""When a worker ends by itself: nothing left to do, jobs enough, memory enough."""

from __future__ import annotations

import asyncio
import logging
import resource
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from datetime import timedelta
from enum import StrEnum
from functools import partial
from pathlib import Path

from holdfast.errors import DatabaseUnavailable, SerializationConflict, WorkerCannotWork
from holdfast.model.job_filter import JobFilter
from holdfast.model.status import Status
from holdfast.operations.claim_jobs import next_due
from holdfast.operations.list_jobs import list_jobs
from holdfast.worker.config import WorkerConfig
from holdfast.worker.fetcher import Fetcher
from holdfast.worker.patient_store import PatientStore
from holdfast.worker.slots import Slots

_log = logging.getLogger("holdfast.worker")

_IDLE_LOOK_SECONDS = 0.05
#: while others run what is left, or have died over it
_OTHERS_LOOK_SECONDS = 0.25
_JOBS_LOOK_SECONDS = 0.05
_MEMORY_LOOK_SECONDS = 0.5
#: what is due within this time counts as due now: an immediate retry is not left to the next run
_SOON = timedelta(seconds=1)


class Limit(StrEnum):
    """What was reached."""

    IDLE = "nothing is due and nothing runs"
    MAX_JOBS = "it has run as many jobs as it may"
    MAX_RSS = "it has as much memory as it may"


async def limit_reached(  # noqa: PLR0917 - what the limits are about
    config: WorkerConfig,
    store: PatientStore,
    queues: Sequence[str],
    fetcher: Fetcher,
    slots: Slots,
    finished: Callable[[], int],
) -> Limit:
    """The first limit that is reached; waits for ever if there is none."""
    waits: list[Coroutine[None, None, Limit]] = []
    if config.until_idle:
        waits.append(_nothing_to_do(store, queues, fetcher, slots))
    if config.max_jobs is not None:
        waits.append(_jobs_enough(config.max_jobs, finished))
    if config.max_rss is not None:
        waits.append(_memory_enough(config.max_rss))
    if not waits:
        await asyncio.Event().wait()
    tasks = [asyncio.create_task(wait, name="holdfast-limit") for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
    return next(iter(done)).result()


async def _nothing_to_do(store: PatientStore, queues: Sequence[str], fetcher: Fetcher, slots: Slots) -> Limit:
    """Until nothing is due in the queues and nothing of them runs, here or elsewhere.

    While the fetcher sleeps nothing is claimed; if it slept through our looks at the database, there is nothing between
    what the database says and what the slots say.
    """
    while True:
        await asyncio.sleep(_IDLE_LOOK_SECONDS)
        sleep_number = fetcher.sleep_number
        if not _rests(fetcher, slots):
            continue
        with suppress(DatabaseUnavailable, SerializationConflict):
            if await _is_something_due(store, queues):
                continue
            if await _does_something_run(store, queues):
                await asyncio.sleep(_OTHERS_LOOK_SECONDS)
                continue
            # What ran a moment ago may have been continued since.
            is_due = await _is_something_due(store, queues)
            if not is_due and fetcher.sleep_number == sleep_number and _rests(fetcher, slots):
                return Limit.IDLE


def _rests(fetcher: Fetcher, slots: Slots) -> bool:
    return fetcher.is_asleep and not slots.leases()


async def _is_something_due(store: PatientStore, queues: Sequence[str]) -> bool:
    due_in = await store.run(lambda: next_due(queues), read_only=True)
    return due_in is not None and due_in <= _SOON


async def _does_something_run(store: PatientStore, queues: Sequence[str]) -> bool:
    for queue in queues:
        chosen = JobFilter(status=Status.RUNNING, queue=queue)
        page = await store.run(partial(list_jobs, chosen, limit=1), read_only=True)
        if page.items:
            return True
    return False


async def _jobs_enough(max_jobs: int, finished: Callable[[], int]) -> Limit:
    while finished() < max_jobs:  # noqa: ASYNC110 - counting wakes nobody, for the sake of those who do not count
        await asyncio.sleep(_JOBS_LOOK_SECONDS)
    return Limit.MAX_JOBS


async def _memory_enough(max_rss: int) -> Limit:
    if (needed := resident_bytes()) >= max_rss:
        raise WorkerCannotWork(
            f"the worker needs {shown_size(needed)} before its first job and may have {shown_size(max_rss)}; "
            "raise --max-rss"
        )
    while resident_bytes() < max_rss:  # noqa: ASYNC110 - nobody tells us
        await asyncio.sleep(_MEMORY_LOOK_SECONDS)
    return Limit.MAX_RSS


def resident_bytes() -> int:
    """Memory in use now; where the system does not say, the most that it ever was."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    return pages * resource.getpagesize()


def shown_size(size: int) -> str:
    return f"{size / 2**20:.0f} MiB"
