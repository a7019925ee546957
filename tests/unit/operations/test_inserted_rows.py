"""Rows for SQLite: every job is in one of them, in its order."""

from __future__ import annotations

from itertools import chain

import pytest
from msgspec import Raw

from holdfast.model.call import JobDocument
from holdfast.operations.inserted_rows import SIZES, inserted_rows


@pytest.mark.parametrize("count", [0, 1, 2, 9, 10, 11, 99, 100, 101, 111, 345])
def test_every_job_comes_once_and_in_order(count: int) -> None:
    """In few sizes, the largest first."""
    jobs = [JobDocument(str(number), "t", Raw(b"1"), "q") for number in range(count)]
    cut = [(size, list(pieces)) for size, pieces in inserted_rows(jobs)]
    assert [size for size, _ in cut] == [size for size in SIZES if size in dict(cut)]
    assert all(len(values) == 8 * size for size, pieces in cut for values in pieces)
    flat = list(chain.from_iterable(chain.from_iterable(pieces for _, pieces in cut)))
    assert flat[::8] == [job.id for job in jobs]


def test_a_row_is_what_the_job_is() -> None:
    """JSON as text, which is what SQLite keeps."""
    job = JobDocument("1", "type", Raw('{"x":"é"}'.encode()), "q", -7, max_attempts=2, timeout_ms=1500)
    ((_, (values,)),) = inserted_rows([job])
    assert values == ["1", "type", "q", -7, '{"x":"é"}', 2, 1500, None]
    job.headers = Raw(b'{"h":"1"}')
    ((_, (values,)),) = inserted_rows([job])
    assert values[-1] == '{"h":"1"}'
