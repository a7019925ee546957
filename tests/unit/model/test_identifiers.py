"""Names that become SQL identifiers, and names that are data."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidOption
from holdfast.model.identifiers import checked_name, checked_prefix, checked_schema

_BAD = ["a b", 'a"b', "a'b", "a.b", "1a", "A", "ä", "a-b", "a\n", "a;", "x" * 32, "a\x00", "--", 7, None, b"a", ["a"]]


@pytest.mark.parametrize("wrong", _BAD)
def test_refused_identifiers(wrong: object) -> None:
    """Quote, dot, space, capital, length: refused by name, for schema and prefix alike."""
    for check, option in ((checked_schema, "schema"), (checked_prefix, "prefix")):
        with pytest.raises(InvalidOption) as caught:
            check(wrong)
        assert caught.value.option == option


def test_accepted_identifiers() -> None:
    """Letters, digits and underscores; keywords too, because names are quoted."""
    for name in ("holdfast", "_x", "a1_b2", "select", "x" * 31):
        assert checked_schema(name) == checked_prefix(name) == name


def test_empty_prefix_but_no_empty_schema() -> None:
    """A prefix may be missing, a schema may not."""
    assert checked_prefix("") == ""
    with pytest.raises(InvalidOption):
        checked_schema("")


def test_system_schemas_are_refused() -> None:
    """PostgreSQL keeps names in pg_ for itself."""
    with pytest.raises(InvalidOption, match="PostgreSQL's own"):
        checked_schema("pg_jobs")
    assert checked_prefix("pg_") == "pg_"


@pytest.mark.parametrize("name", ["default", "Ünïcødé ✓", "a b", "'; DROP TABLE job; --", "x" * 200, "%s :id $1 {}"])
def test_names_as_data(name: str) -> None:
    """Queue, type and tenant are data: any printable text."""
    assert checked_name("queue", name) == name


@pytest.mark.parametrize("wrong", ["", "x" * 201, "a\x00", "a\nb", "\ud800", "\u200b", None, 7, b"x"])
def test_refused_names(wrong: object) -> None:
    """Empty, too long, unprintable or not text, with the option in the error."""
    with pytest.raises(InvalidOption) as caught:
        checked_name("tenant", wrong)
    assert caught.value.option == "tenant"


@given(st.text(min_size=1, max_size=200))
def test_accepted_names_can_be_stored(name: str) -> None:
    """Whatever is accepted can be encoded and holds no U+0000."""
    try:
        checked_name("queue", name)
    except InvalidOption:
        return
    assert "\x00" not in name
    assert name.encode()
