"""What may be set, and what is refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from holdfast.errors import InvalidOption
from holdfast.model.retry import Retry
from holdfast.model.settings import KINDS, RetrySettings, checked_setting, checked_value

GOOD: dict[str, tuple[Any, Any]] = {
    "max_attempts": (3, 3),
    "retry_initial": (timedelta(minutes=1), 60.0),
    "retry_factor": (1.5, 1.5),
    "retry_maximum": (90, 90.0),
    "retry_jitter": (0, 0),
    "keep_completed": (timedelta(days=1), 86400.0),
    "keep_dead_letter": ("forever", "forever"),
    "keep_cancelled": (0, 0.0),
    "archive": (True, True),
    "keep_archive": (3600, 3600.0),
    "keep_audit": ("forever", "forever"),
}
BAD: dict[str, list[Any]] = {
    "max_attempts": [0, "3", 1.5, True, None, 40_000],
    "retry_initial": [-1, "soon", None],
    "retry_factor": [0.5, "2", float("inf")],
    "retry_maximum": [-1, None],
    "retry_jitter": [1.1, -0.1, "0"],
    "keep_completed": [-1, "a week", None, True],
    "keep_dead_letter": ["never"],
    "keep_cancelled": [float("nan")],
    "archive": [1, "true", None],
    "keep_archive": [None, "long"],
    "keep_audit": [None, -1],
}


def test_all_are_tried_here() -> None:
    assert GOOD.keys() == BAD.keys() == KINDS.keys()


@pytest.mark.parametrize("name", GOOD)
def test_values(name: str) -> None:
    given, stored = GOOD[name]
    assert checked_value(name, given) == stored


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD.items() for value in values])
def test_refused(name: str, value: Any) -> None:
    """With the name of the setting, and the value."""
    with pytest.raises(InvalidOption) as caught:
        checked_value(name, value)
    assert caught.value.option == name
    assert str(caught.value).startswith(f"{name}=")


def test_names() -> None:
    assert checked_setting("archive") == "archive"
    assert checked_setting("archive", "send:mail") == "archive:send:mail"
    for name, type_name in (("attempts", None), (7, None), ("archive", ""), ("keep_archive", "send")):
        with pytest.raises(InvalidOption):
            checked_setting(name, type_name)


def test_retries_as_they_are_set() -> None:
    """For the type before for all; a policy of which nothing is set is itself."""
    own = Retry(initial=5, factor=3)
    assert RetrySettings().over(own, "a") is own
    settings = RetrySettings.of([("retry_initial", 1), ("retry_initial:a", 2), ("retry_jitter", 0), ("archive", True)])
    assert settings.over(own, "a") == Retry(initial=2, factor=3, jitter=0)
    assert settings.over(own, "b") == Retry(initial=1, factor=3, jitter=0)


@pytest.mark.parametrize("name", [name for name in BAD if name.startswith("retry_")])
def test_what_is_no_value_is_passed_over(name: str) -> None:
    """Somebody wrote it by hand; the type's own policy holds."""
    for value in BAD[name]:
        assert not RetrySettings.of([(name, value)]).said
