"""Whose word counts for how long a chain is kept."""

from __future__ import annotations

from datetime import timedelta

import pytest

from holdfast.errors import InvalidOption
from holdfast.model.retention import Fate, Keep, Retention, checked_keeps
from holdfast.model.status import Status

DAY = timedelta(days=1)


def test_defaults() -> None:
    retention = Retention()
    assert retention.fate("any", Status.COMPLETED) == Fate(7 * DAY, is_archived=False)
    assert retention.fate("any", Status.CANCELLED) == Fate(30 * DAY, is_archived=False)
    assert retention.fate("any", Status.DEAD_LETTER) == Fate(90 * DAY, is_archived=False)
    assert retention.spans() == [90 * DAY, 30 * DAY, 7 * DAY]


def test_the_nearest_word_counts() -> None:
    """The setting for the type, the setting for all, the type's, the default; each field for itself."""
    retention = Retention(
        types={"a": Keep(completed=DAY, dead_letter=DAY, archive=True)},
        settings={None: Keep(completed=2 * DAY), "a": Keep(dead_letter="forever")},
    )
    assert retention.fate("a", "completed") == Fate(2 * DAY, is_archived=True)
    assert retention.fate("a", "dead_letter") == Fate(None, is_archived=True)
    assert retention.fate("a", "cancelled") == Fate(30 * DAY, is_archived=True)
    assert retention.fate("b", "completed") == Fate(2 * DAY, is_archived=False)
    assert retention.has_archive


def test_from_rows() -> None:
    """As they are stored."""
    retention = Retention.of(
        [
            ("a", "keep", '{"completed": 60, "archive": true}'),
            (None, "keep_completed", "0"),
            ("a", "keep_completed", '"forever"'),
            ("a", "archive", "false"),
            (None, "keep_archive", '"forever"'),
            (None, "keep_audit", "60"),
        ]
    )
    assert retention.fate("a", "completed") == Fate(None, is_archived=False)
    assert retention.fate("b", "completed") == Fate(timedelta(), is_archived=False)
    assert (retention.keep_archive, retention.keep_audit) == (None, timedelta(seconds=60))
    assert Retention().keep_audit == 365 * DAY
    assert timedelta() in retention.spans()


def test_older_than_overrides_times_only() -> None:
    retention = Retention(types={"a": Keep(completed="forever", archive=True)}, older_than=DAY)
    assert retention.fate("a", "completed") == Fate(DAY, is_archived=True)
    assert retention.spans() == [DAY]


def test_over_and_document() -> None:
    keep = Keep(completed=0).over(Keep(completed=DAY, archive=True))
    assert keep.document() == {"completed": 0.0, "archive": True}
    assert Keep().document() is None
    assert Keep().over(None) == Keep()


@pytest.mark.parametrize("keep", [None, Keep(archive=True)])
def test_as_it_is(keep: Keep | None) -> None:
    assert checked_keeps(keep) is keep


def test_a_duration_is_for_what_completed() -> None:
    assert checked_keeps(DAY) == Keep(completed=DAY)
    assert checked_keeps("forever") == Keep(completed="forever")
    with pytest.raises(InvalidOption, match="keep"):
        checked_keeps(True)


def test_what_a_newer_release_has_written_is_passed_by() -> None:
    """Its workers and ours share a database during a deploy."""
    rows = [
        ("bill", "keep", '{"completed": 5, "paused": 7}'),
        (None, "keep_paused", "7"),
        (None, "keep_cancelled", "9"),
    ]
    retention = Retention.of(rows)
    assert retention.types == {"bill": Keep(completed=5)}
    assert retention.settings == {None: Keep(cancelled=9)}
