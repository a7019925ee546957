"""Jobs as the lines that PostgreSQL's COPY reads: for many at once less work for the server than a JSON document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from holdfast.model.call import JobDocument
from holdfast.operations.alike_jobs import AlikeJobs

#: from so many jobs on: it takes some round trips more, which a few do not make up for
MANY: Final = 500
#: sent together, so that the server works on some while others are written
_LINES_AT_ONCE: Final = 200
_NULL: Final = "\\N"
_SPECIAL: Final = ("\\", "\n", "\t", "\r")


def copied_lines(jobs: Sequence[JobDocument]) -> Iterator[bytes]:
    """In the columns of `copy_jobs.sql`."""
    for start in range(0, len(jobs), _LINES_AT_ONCE):
        # As text: putting bytes together takes Python more than twice as long.
        yield "".join(map(_line, jobs[start : start + _LINES_AT_ONCE])).encode()


def alike_lines(jobs: AlikeJobs) -> Iterator[bytes]:
    """The same for jobs that share all but two of the columns."""
    names, rest = _names_of(jobs.shared), _rest_of(jobs.shared)
    for start in range(0, len(jobs.ids), _LINES_AT_ONCE):
        end = start + _LINES_AT_ONCE
        ids, inputs = _all_escaped(jobs.ids[start:end]), _all_escaped(jobs.texts(start, end))
        lines = [f"{job_id}\t{job_id}\t{names}\t{text}\t{rest}\n" for job_id, text in zip(ids, inputs, strict=True)]
        yield "".join(lines).encode()


def _line(job: JobDocument) -> str:
    job_id = _escaped(job.id)  # text of the application's own, where `id_type` is text
    return f"{job_id}\t{job_id}\t{_names_of(job)}\t{_escaped(bytes(job.input).decode())}\t{_rest_of(job)}\n"


def _names_of(job: JobDocument) -> str:
    return _names(job.type_name, job.queue, job.priority)


def _rest_of(job: JobDocument) -> str:
    numbers = _numbers(job.max_attempts, job.timeout_ms)
    return f"{numbers}\t{_NULL if job.headers is None else _escaped(bytes(job.headers).decode())}"


@lru_cache(maxsize=1_000)
def _names(type_name: str, queue: str, priority: int) -> str:
    return f"{_escaped(type_name)}\t{_escaped(type_name)}\t{_escaped(queue)}\t{priority}"


@lru_cache(maxsize=1_000)
def _numbers(*numbers: int | None) -> str:
    return "\t".join(_NULL if number is None else str(number) for number in numbers)


def _all_escaped(texts: Sequence[str]) -> Sequence[str]:
    """They are looked through in one piece: most have nothing to escape."""
    joined = "".join(texts)
    return list(map(_escaped, texts)) if any(special in joined for special in _SPECIAL) else texts


def _escaped(text: str) -> str:
    """As the format wants what it would take for an end or a beginning."""
    if "\\" in text:
        text = text.replace("\\", "\\\\")
    if "\n" in text or "\t" in text or "\r" in text:
        text = text.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
    return text
