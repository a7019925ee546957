"""What is measured, and how."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from itertools import islice

import msgspec

from holdfast.app import App
from holdfast.cli.fleet import Fleet
from holdfast.client import Client
from holdfast.errors import WorkerCannotWork
from holdfast.model.status import Status

_BATCH = 1000
_EMAIL = "someone.longer@example.com"
#: a job that no worker has finished by then never will
_PATIENCE_SECONDS = 60
#: those whose ends are looked at: more than a worker holds at a time
_LAST = 2000
_LOOK_SECONDS = 0.05
#: long enough for a worker that has just finished something to sleep again
_IDLE_SECONDS = 0.02
_UNFINISHED = [Status.PENDING, Status.RUNNING]

Progress = Callable[[str, int, int], None]


class Figures(msgspec.Struct, frozen=True):
    """Each with its unit in its name; latencies in milliseconds, by the clock of this machine."""

    enqueued_one_by_one_per_second: float
    enqueued_in_batches_per_second: float
    drained_per_second: float
    worker_processes: int
    enqueue_to_start_p50_ms: float
    enqueue_to_start_p99_ms: float


def measure(app: App, fleet: Fleet, *, jobs: int, samples: int, processes: int, progress: Progress) -> Figures:
    """Calls are made, checked and encoded within the measured time; ends are those that the database has."""
    with app.client() as client:
        singles = _enqueue_one_by_one(app, client, samples, progress)
        batches = _enqueue_in_batches(app, client, jobs, progress)
        for _ in range(processes):
            fleet.start()
        drained = _drain(client, fleet, jobs + samples, progress)
        latencies = _latencies(app, client, samples, progress)
        fleet.stop()
    return Figures(
        enqueued_one_by_one_per_second=singles,
        enqueued_in_batches_per_second=batches,
        drained_per_second=drained,
        worker_processes=processes,
        enqueue_to_start_p50_ms=statistics.median(latencies),
        enqueue_to_start_p99_ms=latencies[int(len(latencies) * 0.99)],
    )


def _enqueue_one_by_one(app: App, client: Client, count: int, progress: Progress) -> float:
    nothing = app.job_types["nothing"]
    began = time.perf_counter()
    for number in range(count):
        client.enqueue(nothing.call(order_id=number, email=_EMAIL))
        progress("enqueue one by one", number + 1, count)
    return count / (time.perf_counter() - began)


def _enqueue_in_batches(app: App, client: Client, count: int, progress: Progress) -> float:
    nothing = app.job_types["nothing"]
    began = time.perf_counter()
    for start in range(0, count, _BATCH):
        numbers = range(start, min(start + _BATCH, count))
        client.enqueue_many([nothing.call(order_id=number, email=_EMAIL) for number in numbers])
        progress("enqueue in batches", numbers.stop, count)
    return count / (time.perf_counter() - began)


def _drain(client: Client, fleet: Fleet, jobs: int, progress: Progress) -> float:
    """By the database's own times, from the first start to the last end."""
    first = client.list_jobs(limit=1, newest_first=False).items[0]
    place, deadline = first.seq, time.monotonic() + _PATIENCE_SECONDS
    while unfinished := client.list_jobs(status=_UNFINISHED, limit=1, newest_first=False).items:
        progress("drain", unfinished[0].seq - first.seq, jobs)
        fleet.check()
        if unfinished[0].seq > place:
            place, deadline = unfinished[0].seq, time.monotonic() + _PATIENCE_SECONDS
        elif time.monotonic() > deadline:
            raise WorkerCannotWork(f"job {unfinished[0].id} has waited for {_PATIENCE_SECONDS} s")
        time.sleep(_LOOK_SECONDS)
    began = client.get_job(first.id).last_attempt_at
    ends = [job.finished_at for job in islice(client.iter_jobs(), _LAST)]
    return jobs / (max(filter(None, ends)) - (began or first.created_at)).total_seconds()


def _latencies(app: App, client: Client, samples: int, progress: Progress) -> list[float]:
    """Of jobs that find an idle worker in another process, sorted."""
    stamp = app.job_types["stamp"]
    found = []
    for number in range(samples):
        time.sleep(_IDLE_SECONDS)
        sent = client.enqueue(stamp.call(sent_ns=time.monotonic_ns()))
        found.append(client.wait(sent, timeout=_PATIENCE_SECONDS) / 1e6)
        progress("enqueue to start", number + 1, samples)
    return sorted(found)
