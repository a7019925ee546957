"""Handlers of a limited queue: never more than there are permits, whatever lies at hand and however jobs end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import pytest

from holdfast import App, Batch
from holdfast.operations.claim_jobs import ClaimedJob
from holdfast.operations.lease import Lease
from holdfast.worker.attempt import Attempt
from holdfast.worker.buffer import Buffer
from holdfast.worker.cancellation import Cancellation
from holdfast.worker.demand import Demand
from holdfast.worker.executors.base import Done
from holdfast.worker.handler import Handler, Place
from holdfast.worker.outcomes import Outcomes
from holdfast.worker.patient_store import PatientStore
from holdfast.worker.permits import Permits
from holdfast.worker.slots import Slots
from holdfast.worker.stock import Stock
from tests.unit.worker.test_buffer import _Time


class _Hands:
    """An executor whose handlers end when the test says so; like a thread, none of them can be stopped."""

    is_interruptible = False

    def __init__(self, done: Done) -> None:
        self._done = done
        self.calls: list[Sequence[Attempt]] = []

    def start(self, attempts: Sequence[Attempt], handler: Handler) -> None:
        self.calls.append(attempts)

    def tell(self, attempt: Attempt) -> None: ...

    def interrupt(self, attempt: Attempt) -> None: ...

    def time_out(self, attempt: Attempt) -> float:
        return 0.0

    async def close(self) -> None: ...

    @property
    def running(self) -> list[str]:
        return [attempt.job.id for attempts in self.calls for attempt in attempts]

    def end(self, job_id: str) -> None:
        """The call of this job."""
        call = next(call for call in self.calls if any(attempt.job.id == job_id for attempt in call))
        self.calls.remove(call)
        self._done(call, [attempt.completion(None) for attempt in call])


class _Worker:
    """Slots of which nothing is ever written: there is no database."""

    def __init__(self, app: App, slots: int = 10) -> None:
        self.limits: dict[str, int] = {}
        self.permits = Permits()
        self.permits.most = self.limits.get
        self.buffer = Buffer(100, slots)
        self.demand = Demand()
        self.stock = Stock(self.buffer, self.permits)
        self.hands: Any = None
        self.outcomes = Outcomes(PatientStore(app.store.asynchronous(), timedelta(seconds=60)), "w", 100)
        self.slots = Slots(
            "w",
            app._registry.handlers,
            slots,
            buffer=self.buffer,
            outcomes=self.outcomes,
            demand=self.demand,
            permits=self.permits,
            executors=self._executors,
            hook=lambda *_: None,
        )

    def _executors(self, done: Done, _: object) -> dict[Place, Any]:
        self.hands = _Hands(done)
        return dict.fromkeys((Place.LOOP, Place.THREAD), self.hands)

    def put(self, *names: str, crash_count: int = 0) -> list[ClaimedJob]:
        """Ready jobs; the letters of a name are its queue."""
        jobs = [_job(name, crash_count=crash_count) for name in names]
        self.buffer.ready.extend(jobs)
        return jobs

    @property
    def given_back(self) -> set[str]:
        return {lease.id for lease in self.outcomes.leases()}


def _job(name: str, type_name: str = "work", **more: Any) -> ClaimedJob:
    values: dict[str, Any] = dict.fromkeys(ClaimedJob._fields)
    values |= {"id": name, "lease_generation": 1, "type_name": type_name, "attempt": 1, "input": "{}"}
    return ClaimedJob(**values | {"queue": name.rstrip("0123456789")} | more)


@pytest.fixture
def app() -> Iterator[App]:
    app = App("sqlite:////nowhere/at/all.db")

    @app.job()
    async def work() -> None: ...

    @app.job(batch=10)
    async def bulk(batch: Batch[int]) -> None: ...

    yield app
    app.close()


@pytest.fixture
async def worker(app: App) -> _Worker:
    return _Worker(app)


async def test_no_more_run_than_may(worker: _Worker) -> None:
    """The others wait, in their order, and start as places become free."""
    worker.limits["a"] = 2
    worker.put("a1", "a2", "a3", "a4")
    worker.slots.fill()
    assert worker.hands.running == ["a1", "a2"]
    worker.hands.end("a2")
    assert worker.hands.running == ["a1", "a3"]
    worker.put("a5")
    worker.slots.fill()
    worker.hands.end("a1")
    worker.hands.end("a3")
    assert worker.hands.running == ["a4", "a5"]


async def test_nobody_waits_behind_those_without_a_permit(worker: _Worker) -> None:
    """Jobs of other queues start beside them, and the slots stay free for more."""
    worker.limits |= {"a": 1, "b": 0}
    worker.put("a1", "a2", "b1", "a3", "c1", "b2", "c2")
    worker.slots.fill()
    assert worker.hands.running == ["a1", "c1", "c2"]
    assert worker.slots.free == 7
    assert (list(worker.buffer.ready), worker.buffer.wanted(worker.slots.free)) == ([], (7, False))
    assert [worker.buffer.count_of(queue) for queue in "abc"] == [2, 2, 0]


async def test_a_permit_is_free_when_the_handler_has_ended(worker: _Worker) -> None:
    """Whether that is written or not: here it never is."""
    worker.limits["a"] = 1
    worker.put("a1", "a2")
    worker.slots.fill()
    worker.hands.end("a1")
    assert worker.hands.running == ["a2"]
    assert worker.given_back == {"a1"}
    assert {lease.id for lease in worker.slots.leases()} == {"a1", "a2"}


async def test_an_abandoned_thread_keeps_its_permit(worker: _Worker) -> None:
    """Its job is over at its timeout; its handler is when it returns."""
    worker.limits["a"] = 1
    worker.put("a1", "a2")
    worker.slots.fill()
    (attempt,) = worker.hands.calls[0]
    worker.slots._time_out(attempt)
    worker.slots.fill()
    assert attempt.is_over
    assert worker.hands.running == ["a1"]
    worker.hands.end("a1")
    assert worker.hands.running == ["a2"]


async def test_who_goes_on_after_its_lease_is_lost_keeps_its_permit(worker: _Worker) -> None:
    worker.limits["a"] = 1
    worker.put("a1", "a2")
    worker.slots.fill()
    worker.slots.lose({Lease("a1", 1): Cancellation.LEASE_LOST})
    worker.slots.fill()
    assert worker.hands.running == ["a1"]


async def test_what_was_at_hand_when_the_limit_came(worker: _Worker) -> None:
    """What runs counts, and nothing starts until there is less."""
    worker.put("a1", "a2", "a3")
    worker.slots.fill()
    worker.put("a4", "a5")
    worker.limits["a"] = 2
    worker.slots.fill()
    worker.hands.end("a1")
    assert worker.hands.running == ["a2", "a3"]
    worker.hands.end("a2")
    assert worker.hands.running == ["a3", "a4"]
    del worker.limits["a"]
    worker.slots.fill()
    assert worker.hands.running == ["a3", "a4", "a5"]


async def test_each_job_of_a_batch_counts(worker: _Worker) -> None:
    """Also where several queues share a call."""
    worker.limits["a"] = 3
    worker.buffer.ready.extend(_job(f"a{n}", "bulk", input="1") for n in range(5))
    worker.buffer.ready.extend(_job(f"b{n}", "bulk", input="1") for n in range(2))
    worker.slots.fill()
    assert worker.hands.running == ["a0", "a1", "a2", "b0", "b1"]
    worker.hands.end("a0")
    assert worker.hands.running == ["a3", "a4"]
    assert worker.permits.running("a") == 2


async def test_a_suspect_without_a_permit_goes_back(worker: _Worker) -> None:
    worker.limits["a"] = 0
    worker.slots.start_alone(_job("a1", crash_count=1))
    assert (worker.hands.running, worker.given_back) == ([], {"a1"})


async def test_what_waits_for_a_permit_is_held_and_goes_back_like_the_rest(worker: _Worker) -> None:
    """Renewed, dropped when lost, cancelled when somebody asks, given back in the end."""
    worker.limits["a"] = 0
    worker.put("a1", "a2", "a3", "a4")
    worker.slots.fill()
    assert {lease.id for lease in worker.slots.leases()} == {"a1", "a2", "a3", "a4"}
    worker.slots.lose({Lease("a1", 1): Cancellation.LEASE_LOST})
    worker.slots.ask_to_stop({Lease("a2", 1)})
    assert ([job.id for job in worker.buffer], worker.given_back) == (["a3", "a4"], {"a2"})
    worker.slots.give_back(worker.buffer.clear())
    assert (len(worker.buffer), worker.given_back) == (0, {"a2", "a3", "a4"})


async def test_what_has_waited_too_long_is_taken_out_with_its_reserve(
    worker: _Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And that of other queues stays."""
    time = _Time(monkeypatch)
    worker.limits["a"] = 0
    worker.buffer.promote([_job("a3", claimed_at=1), _job("b1", claimed_at=1)])
    worker.put("a1", "a2")
    worker.slots.fill()
    time.now += 0.4
    assert worker.buffer.shelf.overdue(0.5) == []
    time.now += 0.1
    assert worker.buffer.shelf.overdue(0.5) == ["a"]
    assert [job.id for job in worker.buffer.take_out("a")] == ["a1", "a2", "a3"]
    assert [job.id for job in worker.buffer] == ["b1"]
    assert worker.buffer.shelf.overdue(0.0) == []


def _end_many(worker: _Worker, time: _Time, *, seconds: float, per_second: int) -> None:
    """One after the other, in a queue with one permit."""
    worker.stock.measure(["a"])
    for step in range(int(seconds / 0.0101)):
        for _ in range(int(per_second * 0.0101 * (step + 1)) - int(per_second * 0.0101 * step)):
            worker.permits.take("a")
            worker.permits.put_back("a")
        time.now += 0.0101
        worker.stock.measure(["a"])


async def test_fast_jobs_are_kept_at_hand(worker: _Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The work of thirty milliseconds is claimed at a time, and no more while so much and half of it waits."""
    time = _Time(monkeypatch)
    _end_many(worker, time, seconds=1, per_second=1_000)
    assert worker.stock.appetite("a") == pytest.approx(30, abs=2)
    assert worker.stock.more("a", 44) == worker.stock.appetite("a")
    assert worker.stock.more("a", 50) == 0
    worker.limits["a"] = 0
    worker.put(*(f"a{n}" for n in range(12)))
    worker.slots.fill()
    assert not worker.stock.is_enough("a")
    worker.put(*(f"a{n}" for n in range(12, 30)))
    worker.slots.fill()
    assert worker.stock.is_enough("a")
    worker.stock.rest("a")
    assert (worker.stock.appetite("a"), worker.stock.more("a", 0)) == (0, 0)


async def test_long_jobs_are_left_to_others(worker: _Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred that end together, after a second, are no pace."""
    time = _Time(monkeypatch)
    for _ in range(100):
        worker.permits.take("a")
    worker.stock.measure(["a"])
    for _ in range(90):
        time.now += 0.0101
        worker.stock.measure(["a"])
    for _ in range(100):
        worker.permits.put_back("a")
    worker.stock.measure(["a"])
    assert (worker.stock.appetite("a"), worker.stock.more("a", 0), worker.stock.more("never seen", 0)) == (0, 0, 0)


async def test_who_has_enough_at_hand_wakes_nobody(worker: _Worker) -> None:
    """The end of a handler is news for the fetcher only where it could claim for it."""
    worker.slots.has_enough = worker.stock.is_enough
    rings: list[int] = []
    worker.demand.second_bell = lambda: rings.append(1)
    worker.limits["a"] = 1
    worker.put("a1", "a2", "a3")
    worker.slots.fill()
    worker.hands.end("a1")
    assert rings == []
    worker.hands.end("a2")
    worker.hands.end("a3")
    assert rings
