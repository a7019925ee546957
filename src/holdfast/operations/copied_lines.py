"""Jobs as the lines that PostgreSQL's COPY reads: for many at once less work for the server than a JSON document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Final

from holdfast.model.call import JobDocument
from holdfast.operations.alike_jobs import AlikeJobs, texts_of

#: from so many jobs on: it takes some round trips more, which a few do not make up for
MANY: Final = 500
#: sent together, so that the server works on some while others are written
_LINES_AT_ONCE: Final = 200
_NULL: Final = "\\N"
_SPECIAL: Final = ("\\", "\n", "\t", "\r")


def copied_lines(jobs: Sequence[JobDocument]) -> Iterator[bytes]:
    """In the columns of `copy_jobs.sql`."""
    for start in range(0, len(jobs), _LINES_AT_ONCE):
        some = jobs[start : start + _LINES_AT_ONCE]
        texts = texts_of([job.input for job in some])
        yield _lines([job.id for job in some], map(_names_of, some), texts, map(_rest_of, some))


def alike_lines(jobs: AlikeJobs) -> Iterator[bytes]:
    """The same for jobs that share all but two of the columns."""
    names, rest = repeat(_names_of(jobs.shared)), repeat(_rest_of(jobs.shared))
    for start in range(0, len(jobs.ids), _LINES_AT_ONCE):
        end = start + _LINES_AT_ONCE
        yield _lines(jobs.ids[start:end], names, texts_of(jobs.inputs[start:end]), rest)


def _lines(ids: Sequence[str], names: Iterable[str], inputs: Sequence[str], rests: Iterable[str]) -> bytes:
    """As text until the end: putting bytes together takes Python more than twice as long."""
    ids = _all_escaped(ids)  # text of the application's own, where `id_type` is text
    columns = zip(ids, names, _all_escaped(inputs), rests, strict=False)
    return "".join([f"{job_id}\t{job_id}\t{name}\t{text}\t{rest}\n" for job_id, name, text, rest in columns]).encode()


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
