"""The verdict on a job without a holder, as a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from holdfast.operations.reap_jobs import CRASH_CAP, Reapable, Verdict, verdict

_LAST = CRASH_CAP - 1  # one more is too many


def _found(**changes: Any) -> Reapable:
    values: dict[str, Any] = {
        "id": "j", "lease_generation": 4, "type_name": "t", "leased_by": "w1", "attempt": 1, "crash_count": 0,
        "attempts_allowed": 5, "retry": b'{"initial": 10, "jitter": 0}', "is_owner_dead": False, "is_unstarted": False,
        "is_uncertain": False, "queue": "default", "chain_id": "j", "tenant": None,
    }  # fmt: skip
    return Reapable(**values | changes)


@dataclass(frozen=True)
class _Row:
    name: str
    found: Reapable
    expected: tuple[bool, bool, bool]
    words: str


_ROWS = [
    _Row("expired", _found(), (False, False, False), "lease expired"),
    _Row("expired, last attempt", _found(attempt=5), (True, False, False), "lease expired"),
    _Row("expired, beyond the last attempt", _found(attempt=9), (True, False, False), "lease expired"),
    _Row("expired after crashes", _found(crash_count=CRASH_CAP), (False, False, False), "lease expired"),
    _Row("crash", _found(is_owner_dead=True), (False, True, False), "worker died"),
    _Row("crash, last attempt", _found(is_owner_dead=True, attempt=5), (True, True, False), "worker died"),
    _Row("crash below the cap", _found(is_owner_dead=True, crash_count=_LAST - 1), (False, True, False), "worker died"),
    _Row("crash at the cap", _found(is_owner_dead=True, crash_count=_LAST), (True, True, False), "killed its worker"),
    _Row(
        "perhaps unstarted, last attempt",
        _found(is_owner_dead=True, is_uncertain=True, attempt=5),
        (False, True, True),
        "perhaps before",
    ),
    _Row("unstarted", _found(is_owner_dead=True, is_unstarted=True), (False, False, True), "never started"),
    _Row(
        "unstarted, last attempt, at the cap",
        _found(is_owner_dead=True, is_unstarted=True, attempt=5, crash_count=CRASH_CAP - 1),
        (False, False, True),
        "never started",
    ),
]  # fmt: skip


@pytest.mark.parametrize("row", _ROWS, ids=lambda row: row.name)
def test_verdict(row: _Row) -> None:
    """(dead, crash, refund) and the reason, for every situation."""
    found = verdict(row.found)
    assert (found.is_dead, found.is_crash, found.is_refund) == row.expected
    assert row.words in found.error.message
    assert (found.id, found.lease_generation) == ("j", 4)


def test_reason_names_the_worker() -> None:
    """Whoever reads the dead letter knows where to look."""
    for found in (_found(), _found(is_owner_dead=True), _found(is_owner_dead=True, crash_count=CRASH_CAP - 1)):
        assert "w1" in verdict(found).error.message


def test_backoff_of_the_type() -> None:
    """The registered policy, at the attempt that was lost."""
    assert [verdict(_found(attempt=attempt)).delay_ms for attempt in (1, 2, 3)] == [10_000, 20_000, 40_000]


@pytest.mark.parametrize("retry", [None, b"", "{}", b'{"unknown": 1}'])
def test_unknown_types_have_the_default_policy(retry: Any) -> None:
    """No row in job_type: five attempts and about a second."""
    found = verdict(_found(retry=retry, attempts_allowed=None))
    assert not found.is_dead
    assert 900 <= found.delay_ms <= 1_100
    assert verdict(_found(retry=retry, attempts_allowed=None, attempt=5)).is_dead


def test_sqlite_has_no_booleans() -> None:
    """Its ones and zeros are read as such."""
    found = verdict(_found(is_owner_dead=1, is_unstarted=0))
    assert isinstance(found, Verdict)
    assert found.is_crash is True
