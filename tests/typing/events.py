"""What listeners are given: lines with an ignore must be errors, the others must not.

`test_borrowed_transactions.py` runs mypy and basedpyright over this file; nobody imports it.
"""

from __future__ import annotations

from typing import Any, assert_type

from holdfast import App, Event, JobCompleted, JobDeadLettered, JobError, JobFailed, JobStarted, WorkerStopped

app = App("sqlite:///never-opened.db")


@app.on_event
def everything(event: Event) -> None: ...


@app.on_event()
def everything_else(event: Event) -> None: ...


@app.on_event(JobFailed)
def one(event: JobFailed) -> None:
    assert_type(event.error, JobError)


@app.on_event(JobFailed, JobDeadLettered)
def two(event: JobFailed | JobDeadLettered) -> int:
    return event.attempt


assert_type(two(JobFailed("j", "c", "t", "q", None, 1, 1, "w", JobError("E", ""))), int)


@app.on_event(JobStarted, JobCompleted, JobFailed, JobDeadLettered, WorkerStopped)
def many(event: Any) -> None: ...


@app.on_event(JobFailed, JobDeadLettered)  # type: ignore[arg-type]
def too_narrow(event: JobFailed) -> None: ...
