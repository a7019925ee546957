"""Jobs as the rows of an INSERT with many: less work for SQLite than a JSON document or a statement each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from holdfast.model.call import JobDocument
from holdfast.operations.alike_jobs import AlikeJobs, texts_of

Pieces = Iterator[tuple[int, Iterator[list[object]]]]

#: rows at once; few sizes, so that the connection has the statements of all of them at hand
SIZES: Final = (200, 20, 5, 1)


def inserted_rows(jobs: Sequence[JobDocument]) -> Pieces:
    """In the columns of `insert_rows.sql`: how many rows, and the values of so many jobs at a time."""
    for size, starts in _cut(len(jobs)):
        yield size, (_values(jobs[start : start + size]) for start in starts)


def alike_rows(jobs: AlikeJobs) -> Pieces:
    """The same in the columns of `insert_alike.sql`."""
    for size, starts in _cut(len(jobs.ids)):
        yield size, (_alike_values(jobs, start, start + size) for start in starts)


def _cut(count: int) -> Iterator[tuple[int, range]]:
    """As many rows as fit into one size, then into the next: the size, and where each piece starts."""
    start = 0
    for size in SIZES:
        end = start + (count - start) // size * size
        if end > start:
            yield size, range(start, end, size)
        start = end


def _values(jobs: Sequence[JobDocument]) -> list[object]:
    values: list[object] = []
    for job, text in zip(jobs, texts_of([job.input for job in jobs]), strict=True):
        headers = None if job.headers is None else str(job.headers, "utf-8")
        values += (
            *(job.id, job.type_name, job.queue, job.priority, text),
            *(job.max_attempts, job.timeout_ms, headers),
        )
    return values


def _alike_values(jobs: AlikeJobs, start: int, end: int) -> list[object]:
    return list(chain.from_iterable(zip(jobs.ids[start:end], texts_of(jobs.inputs[start:end]), strict=True)))
