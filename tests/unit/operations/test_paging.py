"""Pages and cursors."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import InvalidCursor, InvalidOption
from holdfast.operations.paging import MOST, PageRequest


def _request(verb: str = "list", limit: Any = 2, cursor: Any = None, *, newest_first: bool = True) -> PageRequest:
    return PageRequest.of(verb, {"queue": "q"}, limit=limit, cursor=cursor, newest_first=newest_first)


def test_one_more_row_than_asked_for_tells_of_a_next_page() -> None:
    """The cursor points at the last item of the page, not at the row beyond."""
    request = _request()
    assert request.literals == {"limit": 3}
    page = request.page(["a", "b"], [("a", 9), ("b", 7), ("c", 5)])
    assert page.items == ["a", "b"]
    following = _request(cursor=page.next_cursor)
    assert (following.seq, following.filters, following.parameters) == (7, ("below",), {"seq": 7})
    assert _request().page(["a", "b"], [("a", 9), ("b", 7)]).next_cursor is None
    assert _request().page([], []).next_cursor is None


def test_direction() -> None:
    """It decides about order and about the side of the cursor."""
    forward = _request(newest_first=False)
    cursor = forward.page([1, 2], [(1, 1), (2, 2), (3, 3)]).next_cursor
    assert _request(cursor=cursor, newest_first=False).filters == ("above",)
    assert forward.orders["order"] == ("oldest_first",)
    assert _request().orders["status_order"] == ("newest_first_by_status",)
    with pytest.raises(InvalidCursor):
        _request(cursor=cursor, newest_first=True)
    with pytest.raises(InvalidCursor):
        _request("another list", cursor=cursor, newest_first=False)


@settings(deadline=None)  # a busy machine is no mistake of the code
@given(st.one_of(st.text(), st.binary(), st.integers()))
def test_garbage_is_refused(garbage: object) -> None:
    """Whatever it is."""
    with pytest.raises(InvalidCursor):
        _request(cursor=garbage)


@pytest.mark.parametrize("wrong", [0, -1, MOST + 1, 1.0, "1", True, None])
def test_limit(wrong: object) -> None:
    """A whole number within bounds."""
    with pytest.raises(InvalidOption, match="limit"):
        _request(limit=wrong)
