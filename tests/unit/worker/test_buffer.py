"""How many jobs a worker keeps at hand."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.operations.claim_jobs import ClaimedJob
from holdfast.operations.lease import Lease
from holdfast.worker.buffer import Buffer


class _Time:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr("time.monotonic", lambda: self.now)


def _job(job_id: str, claimed_at: int | None = None) -> ClaimedJob:
    values: dict[str, Any] = dict.fromkeys(ClaimedJob._fields)
    return ClaimedJob(**values | {"id": job_id, "lease_generation": 1, "claimed_at": claimed_at})


def test_no_appetite_before_anything_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that has done nothing yet prefetches nothing."""
    time = _Time(monkeypatch)
    buffer = Buffer(500)
    time.now += 1
    buffer.measure(0)
    assert buffer.appetite == 0


def test_appetite_is_the_work_of_thirty_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand jobs a second are thirty at hand; low water is half of that."""
    time = _Time(monkeypatch)
    buffer = Buffer(500)
    time.now += 1
    buffer.measure(1_001)
    assert (buffer.appetite, buffer.low_water) == (30, 15)


def test_slow_claims_want_more_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of it lasts until a claim that is sent now comes back; or else a distant worker slows down and down."""
    time = _Time(monkeypatch)
    buffer = Buffer(500)
    for _ in range(30):
        buffer.learn_round_trip(0.05)
    time.now += 1
    buffer.measure(1_001)
    assert 145 <= buffer.appetite <= 150
    for _ in range(30):
        buffer.learn_round_trip(20)
    time.now += 1
    buffer.measure(2_001)
    assert buffer.appetite == 500
    for _ in range(60):
        buffer.learn_round_trip(0.001)
    time.now += 1
    buffer.measure(3_001)
    assert 29 <= buffer.appetite <= 30


def test_where_a_claim_takes_longer_than_half_a_batch_the_next_one_is_sent_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """30,000 jobs a second and claims of 12 ms: 360 are started meanwhile, and half of a batch is less."""
    time = _Time(monkeypatch)
    buffer = Buffer(500)
    for _ in range(60):
        buffer.learn_round_trip(0.012)
    time.now += 1
    buffer.measure(30_001)
    assert (buffer.appetite, buffer.low_water) == (500, 500)
    buffer.promote([_job("a", claimed_at=1)])
    buffer.promote([_job("b", claimed_at=2)])
    buffer.ready.extend(_job(str(number)) for number in range(499))
    assert buffer.wanted(free=100) == (500, True)


@pytest.mark.parametrize("round_trip", [0.002, 0.02, 0.05, 0.1])
def test_throughput_does_not_depend_on_the_distance(monkeypatch: pytest.MonkeyPatch, round_trip: float) -> None:
    """Claim by claim: what is promoted lasts until the next promotion, and the batches grow to the largest."""
    time = _Time(monkeypatch)
    buffer = Buffer(500, 100)
    finished = 0
    at_hand = 100
    for _ in range(100):
        time.now += round_trip
        buffer.learn_round_trip(round_trip)
        finished += at_hand
        at_hand = max(buffer.appetite, 100)
        buffer.measure(finished)
    assert buffer.appetite == 500


def test_appetite_is_bounded_by_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """However fast, never more than one claim takes."""
    time = _Time(monkeypatch)
    buffer = Buffer(20)
    time.now += 1
    buffer.measure(1_000_000)
    assert buffer.appetite == 20


def test_slow_jobs_are_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that finishes one job a second keeps none waiting."""
    time = _Time(monkeypatch)
    buffer = Buffer(500)
    for finished in range(20):
        time.now += 1
        buffer.measure(finished)
    assert buffer.appetite == 0


@pytest.mark.parametrize(("slots", "seconds"), [(2, 0.3), (2, 0.03), (100, 0.3), (100, 0.02), (10, 2.0)])
def test_no_more_than_the_slots_can_start(monkeypatch: pytest.MonkeyPatch, slots: int, seconds: float) -> None:
    """Jobs that began together end together: a burst is no rate."""
    time = _Time(monkeypatch)
    buffer = Buffer(500, slots)
    started = time.now
    within_horizon = slots * 0.03 / seconds
    for step in range(1, 1_000):
        time.now = started + step * 0.0101
        buffer.measure(slots * int((time.now - started) / seconds))
        assert buffer.appetite <= within_horizon
    if seconds < 0.1:
        assert buffer.appetite >= int(within_horizon * 0.7)


def test_fast_jobs_are_fetched_by_the_hundred(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 30,000 a second, and from the start."""
    time = _Time(monkeypatch)
    buffer = Buffer(500, 100)
    time.now += 0.011
    buffer.measure(330)
    assert buffer.appetite == 500
    for step in range(2, 50):
        time.now += 0.011
        buffer.measure(330 * step)
        assert buffer.appetite == 500


def test_appetite_grows_at_once_and_shrinks_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """One slow look does not empty the pipeline; many do."""
    time = _Time(monkeypatch)
    buffer = Buffer(500)
    time.now += 0.1
    buffer.measure(1_001)
    high = buffer.appetite
    assert high == 300
    time.now += 0.1
    buffer.measure(1_001)
    assert 0.7 * high < buffer.appetite < high
    for _ in range(60):
        time.now += 0.1
        buffer.measure(1_001)
    assert buffer.appetite == 0


def test_short_spans_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """A burst within a millisecond is no rate."""
    time = _Time(monkeypatch)
    buffer = Buffer(500)
    time.now += 0.001
    buffer.measure(50)
    assert buffer.appetite == 0


def test_a_small_reserve_is_no_reason_to_claim_little() -> None:
    """Batch handlers take as many as there are: with room for twenty, one in reserve leaves nineteen to be claimed."""
    buffer = Buffer(100, 1)
    buffer.promote([_job("a", claimed_at=7)])
    assert buffer.wanted(20) == (19, True)


def test_reserve_becomes_ready_when_the_next_claim_committed() -> None:
    """The two levels, and the instant by which the reserve is known."""
    buffer = Buffer(500)
    buffer.promote([_job("a", 7), _job("b", 7)])
    assert (len(buffer.ready), buffer.reserved_at, len(buffer)) == (0, 7, 2)
    buffer.promote([_job("c", 8)])
    assert [job.id for job in buffer.ready] == ["a", "b"]
    assert buffer.reserved_at == 8
    buffer.promote([])
    assert [job.id for job in buffer.ready] == ["a", "b", "c"]
    assert buffer.reserved_at is None


def test_lost_jobs_are_dropped_by_their_lease() -> None:
    """Only the generation that was lost; the same job under another stays."""
    buffer = Buffer(500)
    buffer.ready.extend([_job("a"), _job("b")])
    buffer.reserve = [_job("c")]
    buffer.drop({Lease("a", 1), Lease("b", 2), Lease("c", 1)})
    assert [job.id for job in buffer] == ["b"]


def test_clear_takes_everything_out() -> None:
    """Both levels, in order."""
    buffer = Buffer(500)
    buffer.ready.append(_job("a"))
    buffer.reserve = [_job("b")]
    assert [job.id for job in buffer.clear()] == ["a", "b"]
    assert len(buffer) == 0


def test_free_slots_are_filled_at_once_where_little_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    """What can be started is claimed to be started."""
    time = _Time(monkeypatch)
    buffer = Buffer(500)
    assert buffer.wanted(100) == (100, False)
    time.now += 1
    buffer.measure(1_001)
    buffer.ready.extend(_job(str(number)) for number in range(70))
    assert buffer.wanted(100) == (30, False)
    assert buffer.wanted(70) == (0, True)


def test_handlers_that_never_wait_get_batches_and_not_handfuls(monkeypatch: pytest.MonkeyPatch) -> None:
    """All slots are free whenever somebody looks, and what they could take at once is gone before the next claim."""
    time = _Time(monkeypatch)
    buffer = Buffer(500, 100)
    time.now += 1
    buffer.measure(20_000)
    assert buffer.wanted(100) == (500, True)
    buffer.reserve = [_job("waits", claimed_at=1)]
    assert buffer.wanted(100) == (500, True)


def test_the_first_job_after_a_pause_starts_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many went by before; and what went by before a long one is forgotten."""
    time = _Time(monkeypatch)
    buffer = Buffer(500, 100)
    time.now += 1
    buffer.measure(20_000)
    time.now += 0.5
    buffer.measure(20_000)
    assert buffer.appetite == 500
    assert buffer.wanted(100, is_first=True) == (100, False)
    time.now += 30
    buffer.measure(20_000)
    assert buffer.wanted(100) == (100, False)
