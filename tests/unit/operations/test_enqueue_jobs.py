"""Which way plain jobs go in."""

from __future__ import annotations

from msgspec import Raw

from holdfast.model.call import JobDocument
from holdfast.operations.copied_lines import MANY
from holdfast.operations.enqueue_jobs import insert_jobs, may_run_now
from holdfast.operations.statement import Bulk
from holdfast.sql import SqlLibrary, Style

_NOW = JobDocument("1", "t", Raw(b"1"), "q")
_LATER = [
    JobDocument("2", "t", Raw(b"1"), "q", delay_ms=1),
    JobDocument("2", "t", Raw(b"1"), "q", scheduled_at="2026-01-01T00:00:00.000000Z"),
]


def _names(jobs: list[JobDocument], bulk: Bulk | None, channel: str | None = None) -> list[str]:
    return [statement.name for statement in insert_jobs(jobs, channel, bulk)]


def test_only_what_may_run_now_goes_without_a_time() -> None:
    """Lines and rows have one for all."""
    assert may_run_now([_NOW])
    for later in _LATER:
        assert not may_run_now([_NOW, later])
        assert _names([_NOW, later], Bulk.ROWS) == _names([later] * MANY, Bulk.LINES) == ["insert_jobs"]


def test_one_goes_alone() -> None:
    """Whatever the store takes, and whenever it is to run."""
    for job in (_NOW, *_LATER):
        assert _names([job], None) == _names([job], Bulk.ROWS) == _names([job], Bulk.LINES, "c") == ["insert_job"]


def test_one_is_all_there_is_to_do() -> None:
    """One statement of one part, so that SQLite's writer may leave the transaction away; no other says so."""
    (statement,) = insert_jobs([_NOW], "c")
    assert statement.is_whole
    for dialect in ("postgres", "sqlite"):
        assert len(SqlLibrary(dialect, "main", "", Style.NAMED).script(statement.name).parts) == 1
    assert not any(statement.is_whole for statement in insert_jobs([_NOW] * MANY, "c", Bulk.LINES))


def test_rows_go_in_one_statement() -> None:
    """Which has one time for all of them, however many sizes they come in."""
    (statement,) = insert_jobs([_NOW] * 212, None, Bulk.ROWS)
    assert statement.name == "insert_rows"
    assert statement.rows is not None
    assert [size for size, _ in statement.rows()] == [200, 5, 1]


def test_many_go_as_lines() -> None:
    """With hints in one transaction."""
    assert _names([_NOW] * MANY, Bulk.LINES) == ["copy_jobs"]
    assert _names([_NOW] * MANY, Bulk.LINES, "c") == ["atomically", "copy_jobs", "notify_work"]
    assert _names([_NOW] * MANY, None, "c") == _names([_NOW] * (MANY - 1), Bulk.LINES, "c") == ["insert_jobs"]
