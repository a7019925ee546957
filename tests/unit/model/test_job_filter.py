"""JobFilter: what it accepts, and what it makes of that."""

from __future__ import annotations

import dataclasses
import uuid
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from holdfast import JobFilter
from holdfast.errors import InvalidOption
from holdfast.model.ids import checked_uuid
from holdfast.model.status import Status


def test_nothing_given_matches_all() -> None:
    """Every field is None."""
    assert {field.name: getattr(JobFilter(), field.name) for field in dataclasses.fields(JobFilter)} == dict.fromkeys(
        field.name for field in dataclasses.fields(JobFilter)
    )
    assert JobFilter().is_empty
    assert not JobFilter(ids=[]).is_empty


def test_one_or_several() -> None:
    """A single value stands for a list of one; order and repetition do not count."""
    assert JobFilter(status="pending").status == (Status.PENDING,)
    several = JobFilter(status=(name for name in ["running", "pending", "running"]), ids={"b", "a"})
    assert (several.status, several.ids) == ((Status.PENDING, Status.RUNNING), ("a", "b"))
    assert JobFilter(status=[]).status == ()
    number = uuid.UUID(int=5)
    assert JobFilter(chain_ids=number).chain_ids == (str(number),)  # type: ignore[arg-type]  # at run time it may be


def test_equal_filters() -> None:
    """What means the same is the same, in any time zone, and can be a key."""
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    elsewhere = noon.astimezone(timezone(timedelta(hours=9)))
    first, second = (
        JobFilter(since=noon, status=["pending", "blocked"]),
        JobFilter(since=elsewhere, status=("blocked", "pending")),
    )
    assert first == second
    assert len({first, second}) == 1


def test_frozen() -> None:
    """A filter that was checked stays as it was checked."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        JobFilter().queue = "\x00"  # type: ignore[misc]  # that is the attempt


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("ids", 7),
        ("ids", [""]),
        ("ids", ["a\x00"]),
        ("ids", b"x"),
        ("chain_ids", [None]),
        ("status", "done"),
        ("status", ["pending", "PENDING"]),
        ("status", [7]),
        ("status", True),
        ("type_name", ""),
        ("chain_type_name", 7),
        ("queue", "a\x00b"),
        ("tenant", "x" * 201),
        ("partition_key", ["a"]),
        ("since", "2026-01-01"),
        ("since", datetime(2026, 1, 1)),  # noqa: DTZ001 - naive on purpose
        ("until", datetime.min.replace(tzinfo=timezone(timedelta(hours=9)))),
    ],
)
def test_wrong_values_are_named(field: str, wrong: object) -> None:
    """Before anything is sent."""
    given: dict[str, Any] = {field: wrong}
    with pytest.raises(InvalidOption) as caught:
        JobFilter(**given)
    assert caught.value.option in (field, "id")


def test_ids_in_the_apps_form() -> None:
    """Spellings become one; what the app cannot have is refused; all else stays."""
    text = str(uuid.UUID(int=77))
    chosen = JobFilter(ids=[text.upper(), f"{{{text}}}"], chain_ids=text.replace("-", ""), queue="mail")
    assert chosen.with_ids(checked_uuid) == JobFilter(ids=text, chain_ids=text, queue="mail")
    with pytest.raises(InvalidOption, match="17"):
        JobFilter(ids="17").with_ids(checked_uuid)
    assert JobFilter().with_ids(checked_uuid) == JobFilter()
