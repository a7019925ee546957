"""How many sizes claims come in."""

from __future__ import annotations

import pytest

from holdfast.operations.claim_jobs import claim_size

_LARGEST_BATCH = 1000
_MOST_PLANS = 35


def test_each_size_is_one_of_few() -> None:
    """Every one of them is a plan that some connection keeps."""
    assert len({claim_size(limit) for limit in range(1, _LARGEST_BATCH + 1)}) <= _MOST_PLANS


def test_never_more_and_not_much_less() -> None:
    assert all(limit * 0.75 < claim_size(limit) <= limit for limit in range(1, _LARGEST_BATCH + 1))


@pytest.mark.parametrize("limit", [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000])
def test_what_people_configure_is_kept(limit: int) -> None:
    assert claim_size(limit) == limit
