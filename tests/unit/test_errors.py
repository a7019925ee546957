"""Messages: they name the value, cut where it is long, and the way out."""

from __future__ import annotations

import pytest

from holdfast.errors import (
    ChainNeeded,
    ChainNotFound,
    DuplicateKey,
    DuplicateStep,
    HoldfastError,
    InvalidCursor,
    InvalidOption,
    JobNotFound,
    UnknownJobType,
)

LONG = "x" * 100_000


@pytest.mark.parametrize(
    "error",
    [
        InvalidOption("tenant", LONG, "is too long"),
        InvalidOption("headers", {"a": LONG}, "is too long"),
        InvalidCursor(LONG),
        UnknownJobType(LONG, ("a",)),
        DuplicateKey("send", LONG, "c"),
        JobNotFound(LONG),
        ChainNotFound(LONG),
        DuplicateStep("j", LONG),
    ],
    ids=lambda error: type(error).__name__,
)
def test_long_values_are_cut(error: HoldfastError) -> None:
    """Enough to recognise them, and how long they were."""
    assert "x" * 50 in str(error)
    assert len(str(error)) < 500
    assert "… (100," in str(error)


def test_short_values_are_whole() -> None:
    assert str(InvalidOption("queue", "a\nb", "no")) == "queue='a\\nb': no"
    assert "…" not in str(InvalidOption("queue", "x" * 98, "no"))


def test_who_needs_a_chain() -> None:
    """With cascade the advice is another one."""
    needed = {"c": ["j1", "j2", "j3", "j4"]}
    plain, cascading = str(ChainNeeded(needed)), str(ChainNeeded(needed, cascade=True))
    for message in (plain, cascading):
        assert "chain c" in message
        assert "j1, j2, j3 and 1 more" in message
    assert "cascade" not in plain
    assert "leave out cascade" in cascading
