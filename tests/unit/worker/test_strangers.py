"""What is said of jobs whose types a worker does not know."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from holdfast.operations.claim_jobs import ClaimedJob
from holdfast.worker.strangers import Strangers


def _job(type_name: str) -> ClaimedJob:
    values: dict[str, Any] = dict.fromkeys(ClaimedJob._fields)
    return ClaimedJob(**values | {"id": "a", "lease_generation": 1, "type_name": type_name})


def test_a_flood_is_one_line_a_minute(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "holdfast.worker")
    now = 100.0
    monkeypatch.setattr("holdfast.worker.strangers.time.monotonic", lambda: now)
    met = Strangers()
    for _ in range(1000):
        met.meet(_job("new"))
    met.meet(_job("newer"))
    assert [record.args[0] for record in caplog.records if isinstance(record.args, tuple)] == ["new", "newer"]
    now = 161.0
    met.meet(_job("new"))
    assert "1,000 times" in caplog.messages[-1]


def test_names_are_not_kept_without_end() -> None:
    met = Strangers()
    for number in range(5000):
        met.meet(_job(f"type {number}"))
    assert len(met._silent_until) <= 1000
    assert len(met._unsaid) <= 1000
