"""Lines for COPY: whatever a job has in it, it is one line of ten columns."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest
from msgspec import Raw
from msgspec.structs import replace

from holdfast.model.call import JobDocument
from holdfast.operations.alike_jobs import AlikeJobs
from holdfast.operations.copied_lines import alike_lines, copied_lines


def test_nothing_in_a_job_ends_a_line_or_a_column() -> None:
    """Backslashes anywhere, and in JSON of the application's own what it has between its values."""
    job = JobDocument("a\\b", "type\\N", Raw(b'{\n\t"x": "\\\\n",\r\n"y": 1}'), "q\\t", -7, timeout_ms=1500)
    job.headers = Raw(b'{"h": "\\""}')
    (line,) = copied_lines([job])
    assert line.decode() == "\t".join(
        [
            *("a\\\\b", "a\\\\b", "type\\\\N", "type\\\\N", "q\\\\t", "-7"),
            '{\\n\\t"x": "\\\\\\\\n",\\r\\n"y": 1}',
            *("\\N", "1500", '{"h": "\\\\""}\n'),
        ]
    )


def test_many_lines_come_in_order() -> None:
    """In parts, so that the server can begin."""
    jobs = [JobDocument(str(number), "t", Raw(b"1"), "q") for number in range(1_200)]
    parts = list(copied_lines(jobs))
    assert len(parts) == 6
    lines = b"".join(parts).decode().splitlines()
    assert [line.split("\t")[0] for line in lines] == [job.id for job in jobs]
    assert {line.split("\t", 2)[2] for line in lines} == {"t\tt\tq\t0\t1\t\\N\t\\N\t\\N"}


_ODD = ["plain", "a\\b", "a\tb", "a\nb", "a\rb", "é"]
_MEANS = {"\\": "\\", "n": "\n", "t": "\t", "r": "\r"}


def _read(parts: Iterable[bytes]) -> list[list[str]]:
    """As PostgreSQL reads lines: their columns, and in these what is escaped."""
    lines = b"".join(parts).decode().removesuffix("\n").split("\n")
    assert not any("\r" in line for line in lines)
    return [
        [text if text == "\\N" else re.sub(r"\\(.)", lambda match: _MEANS[match[1]], text) for text in line.split("\t")]
        for line in lines
    ]


@pytest.mark.parametrize("odd_id", _ODD)
@pytest.mark.parametrize("odd_input", _ODD)
def test_alike_jobs_have_the_lines_that_each_has(odd_id: str, odd_input: str) -> None:
    """Wherever among them there is something to escape."""
    shared = JobDocument("", "type\\N", Raw(b""), "q", 7, max_attempts=3, headers=Raw(b'{"h": "\\""}'))
    jobs = [replace(shared, id=f"{number}", input=Raw(b"%d" % number)) for number in range(600)]
    jobs[300].id = odd_id
    jobs[500].input = Raw(odd_input.encode())
    alike = AlikeJobs([job.id for job in jobs], [bytes(job.input) for job in jobs], shared)
    lines = list(alike_lines(alike))
    assert lines == list(copied_lines(jobs))
    assert _read(lines) == [
        [*(job.id, job.id, "type\\N", "type\\N", "q", "7", str(job.input, "utf-8")), *("3", "\\N", '{"h": "\\""}')]
        for job in jobs
    ]
