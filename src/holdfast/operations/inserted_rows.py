"""Jobs as the rows of an INSERT with many: less work for SQLite than a JSON document or a statement each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from holdfast.model.call import JobDocument

#: rows at once; few sizes, so that the connection has the statements of all of them at hand
SIZES: Final = (100, 10, 1)


def inserted_rows(jobs: Sequence[JobDocument]) -> Iterator[tuple[int, Iterator[list[object]]]]:
    """As many rows as fit into one size, then into the next: the size, and the values of so many jobs at a time."""
    start = 0
    for size in SIZES:
        end = start + (len(jobs) - start) // size * size
        if end > start:
            yield size, _values(jobs[start:end], size)
        start = end


def _values(jobs: Sequence[JobDocument], size: int) -> Iterator[list[object]]:
    """In the columns of `insert_rows.sql`."""
    for start in range(0, len(jobs), size):
        values: list[object] = []
        for job in jobs[start : start + size]:
            headers = None if job.headers is None else str(job.headers, "utf-8")
            values += (
                *(job.id, job.type_name, job.queue, job.priority, str(job.input, "utf-8")),
                *(job.max_attempts, job.timeout_ms, headers),
            )
        yield values
