"""One figure of one contender, on a fresh database."""

from __future__ import annotations

import queue
import random
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager

from bench.databases import Database
from bench.peers.asking import Asking, asking_of
from bench.peers.contenders import Contender
from bench.peers.conversation import AdapterFailed, Conversation, conversation
from bench.peers.environments import Environment

Figures = dict[str, float]

#: the measures of a round in their order: what is compared stands next to each other in time
MEASURES = ("drain 1", "drain 2", "single", "latency")
#: what each of them tells, and what it is counted in
FIGURES: Mapping[str, str] = {
    "drain, 1 process": "jobs/s",
    "drain, 2 processes": "jobs/s",
    "batch enqueue": "rows/s",
    "single enqueue": "calls/s",
    "latency p50": "ms",
    "latency p99": "ms",
}

_LEAST_JOBS = 1000
_START_SECONDS = 60.0
#: without any progress it is taken to hang
_STILL_SECONDS = 60.0
_SELDOM_SECONDS, _OFTEN_SECONDS = 1.0, 0.005
#: from this part of the jobs on the end is near
_NEAR = 0.97


class Measuring:
    """One contender on one database server."""

    def __init__(self, contender: Contender, environment: Environment, database: Database, scale: float) -> None:
        self._contender = contender
        self._environment = environment
        self._database = database
        self._jobs = max(_LEAST_JOBS, int(contender.jobs * scale))
        self._singles = max(100, int(2_000 * scale))
        self._samples = max(20, int(300 * scale))
        self.versions: dict[str, str] = {}

    @property
    def jobs(self) -> int:
        return self._jobs

    def measure(self, what: str) -> Figures:
        match what:
            case "drain 1":
                return self._drain(1)
            case "drain 2":
                return self._drain(2)
            case "single":
                return self._single()
            case "latency":
                return self._latency() if self._contender.has_latency else {}
            case _:
                raise ValueError(what)

    def cost(self) -> Figures:
        """What a drained job costs PostgreSQL: WAL, transactions and, where they can be counted, statements."""
        with self._prepared() as client, asking_of(self._database) as asking:
            client.ask("enqueue_batch", jobs=self._jobs)
            asking.run("ANALYZE")
            asking.count_statements()
            before = asking.costs()
            with self._workers(1) as workers:
                self._await_end(workers, asking)
            # Statistics of a session are there when it has been idle for a second, or when it has ended.
            time.sleep(1.5)
            after = asking.costs()
        return {name: (value - before[name]) / self._jobs for name, value in after.items()}

    def _drain(self, processes: int) -> Figures:
        with self._prepared() as client, asking_of(self._database) as asking:
            enqueue_seconds = client.ask("enqueue_batch", jobs=self._jobs)
            if self._database.dialect == "postgres":
                asking.run("ANALYZE")
            with self._workers(processes) as workers:
                ended_ns = self._await_end(workers, asking)
                began_ns = min(worker.first_ns for worker in workers if worker.started)
            self._check(asking)
        return {
            f"drain, {processes} process{'es' if processes > 1 else ''}": self._jobs / ((ended_ns - began_ns) / 1e9),
            "batch enqueue": self._jobs / enqueue_seconds,
        }

    def _single(self) -> Figures:
        with self._prepared() as client:
            client.ask("enqueue_single", jobs=10)
            return {"single enqueue": self._singles / client.ask("enqueue_single", jobs=self._singles)}

    def _latency(self) -> Figures:
        with self._prepared() as client, self._workers(1) as [worker]:
            self._waited(client, worker)
            waited = []
            for _ in range(self._samples):
                time.sleep(random.uniform(0.015, 0.025))
                waited.append(self._waited(client, worker))
        waited.sort()
        return {"latency p50": waited[len(waited) // 2], "latency p99": waited[int(len(waited) * 0.99)]}

    def _waited(self, client: Conversation, worker: Conversation) -> float:
        """Milliseconds, of one job."""
        client.ask("enqueue_stamped")
        try:
            return worker.waited_ns.get(timeout=_START_SECONDS) / 1e6
        except queue.Empty as nothing:
            worker.check()
            raise AdapterFailed(f"a job did not start within {_START_SECONDS:g} s") from nothing

    @contextmanager
    def _prepared(self) -> Iterator[Conversation]:
        """Who enqueues, on a fresh database."""
        with self._database.fresh(), self._talk() as client:
            self.versions = client.ask("prepare")
            if self._database.dialect == "postgres":
                with asking_of(self._database) as asking:
                    # Whatever the one before has left to write is written now, and not in the next one's time.
                    asking.run("CHECKPOINT")
            yield client

    @contextmanager
    def _workers(self, count: int) -> Iterator[list[Conversation]]:
        """Workers that are told to begin at the same moment, when all of them are up."""
        with ExitStack() as stack:
            workers = [stack.enter_context(self._talk()) for _ in range(count)]
            for worker in workers:
                worker.ask("ready")
            for worker in workers:
                worker.ask("work")
            yield workers

    def _talk(self) -> AbstractContextManager[Conversation]:
        return conversation(self._environment, self._database.url, self._contender.settings)

    def _await_end(self, workers: list[Conversation], asking: Asking) -> int:
        """The instant at which the database was seen to have every acknowledgement."""
        seen, moved_at = -1, time.monotonic()
        next_look = 0.0
        while True:
            started = sum(worker.started for worker in workers)
            is_near = started >= _NEAR * self._jobs
            # It costs something to look, so that is done often only near the end.
            if started and (is_near or time.monotonic() > next_look):
                asked_ns = time.monotonic_ns()
                if asking.is_true(self._contender.is_over.replace("{jobs}", str(self._jobs))):
                    return asked_ns
                next_look = time.monotonic() + _SELDOM_SECONDS
            for worker in workers:
                worker.check()
            if started != seen:
                seen, moved_at = started, time.monotonic()
            elif time.monotonic() - moved_at > _STILL_SECONDS:
                raise AdapterFailed(f"{started} of {self._jobs} jobs started, and then none for {_STILL_SECONDS:g} s")
            time.sleep(_OFTEN_SECONDS if is_near else _OFTEN_SECONDS * 4)

    def _check(self, asking: Asking) -> None:
        if self._contender.acknowledged is None:
            return
        acknowledged = asking.value(self._contender.acknowledged)
        if acknowledged != self._jobs:
            raise AdapterFailed(f"{acknowledged} of {self._jobs} jobs are acknowledged")
