"""Jobs as the lines that PostgreSQL's COPY reads: for many at once less work for the server than a JSON document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from holdfast.model.call import JobDocument

#: from so many jobs on: it takes some round trips more, which a few do not make up for
MANY: Final = 500
#: sent together, so that the server works on some while others are written
_LINES_AT_ONCE: Final = 500
_NULL: Final = "\\N"


def copied_lines(jobs: Sequence[JobDocument]) -> Iterator[bytes]:
    """In the columns of `copy_jobs.sql`."""
    for start in range(0, len(jobs), _LINES_AT_ONCE):
        # As text: putting bytes together takes Python more than twice as long.
        yield "".join(map(_line, jobs[start : start + _LINES_AT_ONCE])).encode()


def _line(job: JobDocument) -> str:
    job_id = _escaped(job.id)  # text of the application's own, where `id_type` is text
    names = _names(job.type_name, job.queue, job.priority)
    numbers = _numbers(job.max_attempts, job.timeout_ms)
    headers = _NULL if job.headers is None else _escaped(bytes(job.headers).decode())
    return f"{job_id}\t{job_id}\t{names}\t{_escaped(bytes(job.input).decode())}\t{numbers}\t{headers}\n"


@lru_cache(maxsize=1_000)
def _names(type_name: str, queue: str, priority: int) -> str:
    return f"{_escaped(type_name)}\t{_escaped(type_name)}\t{_escaped(queue)}\t{priority}"


@lru_cache(maxsize=1_000)
def _numbers(*numbers: int | None) -> str:
    return "\t".join(_NULL if number is None else str(number) for number in numbers)


def _escaped(text: str) -> str:
    """As the format wants what it would take for an end or a beginning."""
    if "\\" in text:
        text = text.replace("\\", "\\\\")
    if "\n" in text or "\t" in text or "\r" in text:
        text = text.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
    return text
