"""Rows for SQLite: every job is in one of them, in its order."""

from __future__ import annotations

from itertools import chain

import pytest
from msgspec import Raw

from holdfast.model.call import JobDocument
from holdfast.operations.alike_jobs import AlikeJobs
from holdfast.operations.inserted_rows import SIZES, alike_rows, inserted_rows

_COUNTS = [0, 1, 2, 4, 5, 6, 19, 20, 21, 199, 200, 201, 226, 645]


@pytest.mark.parametrize("count", _COUNTS)
def test_every_job_comes_once_and_in_order(count: int) -> None:
    """In few sizes, the largest first."""
    jobs = [JobDocument(str(number), "t", Raw(b"1"), "q") for number in range(count)]
    cut = [(size, list(pieces)) for size, pieces in inserted_rows(jobs)]
    assert [size for size, _ in cut] == [size for size in SIZES if size in dict(cut)]
    assert all(len(values) == 8 * size for size, pieces in cut for values in pieces)
    flat = list(chain.from_iterable(chain.from_iterable(pieces for _, pieces in cut)))
    assert flat[::8] == [job.id for job in jobs]


@pytest.mark.parametrize("count", _COUNTS)
def test_what_jobs_share_is_not_in_their_rows(count: int) -> None:
    """Only their ids and inputs, each with its own, whatever is in them."""
    ids = [str(number) for number in range(count)]
    inputs = [f'{{"é":"{number}"}}' if number % 7 else f"[\n{number}]" for number in range(count)]
    jobs = AlikeJobs(ids, [text.encode() for text in inputs], JobDocument("", "t", Raw(b"1"), "q"))
    cut = [(size, list(pieces)) for size, pieces in alike_rows(jobs)]
    assert [size for size, _ in cut] == [size for size in SIZES if size in dict(cut)]
    assert all(len(values) == 2 * size for size, pieces in cut for values in pieces)
    flat = list(chain.from_iterable(chain.from_iterable(pieces for _, pieces in cut)))
    assert (flat[::2], flat[1::2]) == (ids, inputs)


def test_a_row_is_what_the_job_is() -> None:
    """JSON as text, which is what SQLite keeps."""
    job = JobDocument("1", "type", Raw('{"x":"é"}'.encode()), "q", -7, max_attempts=2, timeout_ms=1500)
    ((_, (values,)),) = inserted_rows([job])
    assert values == ["1", "type", "q", -7, '{"x":"é"}', 2, 1500, None]
    job.headers = Raw(b'{"h":"1"}')
    ((_, (values,)),) = inserted_rows([job])
    assert values[-1] == '{"h":"1"}'
