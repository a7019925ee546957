"""Jobs that a worker cannot run."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from holdfast.operations.claim_jobs import ClaimedJob
from holdfast.worker.strangers import Strangers


def _job(type_name: str) -> ClaimedJob:
    values: dict[str, Any] = dict.fromkeys(ClaimedJob._fields)
    return ClaimedJob(**values | {"id": "a", "lease_generation": 1, "type_name": type_name})


class Clock:
    now = 100.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("holdfast.worker.strangers.time.monotonic", lambda: clock.now)
    return clock


def test_a_flood_is_one_line_a_minute(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "holdfast.worker")
    met = Strangers()
    for _ in range(1000):
        met.complain(_job("new"))
    met.complain(_job("newer"))
    assert [record.args[0] for record in caplog.records if isinstance(record.args, tuple)] == ["new", "newer"]
    clock.now += 61
    met.complain(_job("new"))
    assert "1,000 times" in caplog.messages[-1]


def test_a_flood_comes_back_as_a_trickle(clock: Clock) -> None:
    """A thousand a second, whatever came in at once; and as soon as ever when it has run off."""
    met = Strangers()
    delays = [met.put_off(_job("new")) for _ in range(20_000)]
    assert delays[0] <= 1
    assert 19_990 <= delays[-1] <= 20_000
    assert max(sum(low <= delay < low + 1000 for delay in delays) for low in range(0, 20_000, 500)) <= 1001
    assert met.put_off(_job("other")) <= 1
    clock.now += 30
    assert met.put_off(_job("new")) <= 1


def test_a_flood_is_forgotten_after_five_minutes(clock: Clock) -> None:
    met = Strangers()
    assert max(met.put_off(_job("new")) for _ in range(400_000)) <= 300_000
    clock.now += 301
    assert met.put_off(_job("new")) <= 1


def test_names_are_not_kept_without_end() -> None:
    met = Strangers()
    for number in range(5000):
        met.put_off(_job(f"type {number}"))
    assert len(met._types) <= 1001
