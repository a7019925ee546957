"""Who is told of which events, and what comes of listeners that fail."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from holdfast.errors import InvalidOption
from holdfast.telemetry import AttemptEvent, Event, JobCompleted, JobStarted, Listeners, WorkerStopped

STOPPED = WorkerStopped("w")
STARTED = JobStarted("j", "c", "t", "q", None, 1, 1, "w")
COMPLETED = JobCompleted("j", "c", "t", "q", None, 1, 1, "w", 5)


def test_nobody_listens() -> None:
    """Nothing has to be made then."""
    told = Listeners()
    assert not told.heard
    told.tell([STOPPED])


def test_kinds_and_those_below_them() -> None:
    """In the order of registration; only what somebody wants is heard."""
    told, seen = Listeners(), list[Any]()
    told.add(lambda event: seen.append(("attempt", event)), (AttemptEvent,))
    told.add(lambda event: seen.append(("completed", event)), (JobCompleted,))
    assert WorkerStopped not in told.heard
    assert JobStarted in told.heard
    told.tell([STARTED, STOPPED, COMPLETED])
    assert seen == [("attempt", STARTED), ("attempt", COMPLETED), ("completed", COMPLETED)]
    told.add(lambda event: seen.append(("all", event)), ())
    told.tell([STOPPED])
    assert seen[-1] == ("all", STOPPED)


def test_failures_are_logged_now_and_then(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A listener that fails at each of thousands of events fills no log, and keeps nobody from hearing them."""
    now = [100.0]
    monkeypatch.setattr("holdfast.telemetry.listeners.time.monotonic", lambda: now[0])
    told, seen = Listeners(), list[Event]()

    def broken(event: Event) -> None:
        raise ValueError(event)

    told.add(broken, ())
    told.add(seen.append, ())
    with caplog.at_level(logging.ERROR, logger="holdfast.events"):
        told.tell([STARTED] * 1000)
        now[0] += 1
        told.tell([COMPLETED])
    assert seen == [*[STARTED] * 1000, COMPLETED]
    first, second = (record.getMessage() for record in caplog.records)
    assert first.endswith("broken failed at a JobStarted")
    assert second.endswith("broken failed at a JobCompleted, and 999 times before")


def test_ctrl_c_is_not_a_failure() -> None:
    told = Listeners()

    def interrupted(event: Event) -> None:
        raise KeyboardInterrupt

    told.add(interrupted, ())
    with pytest.raises(KeyboardInterrupt):
        told.tell([STOPPED])


def test_what_may_listen() -> None:
    """Anything that can be called and need not be awaited."""

    class Waiting:
        async def __call__(self, event: Event) -> None: ...

    class Calling:
        def __call__(self, event: Event) -> None: ...

    async def waiting(event: Event) -> None: ...

    told = Listeners()
    told.add(Calling(), ())
    for no_listener in (waiting, Waiting(), 3):
        with pytest.raises(InvalidOption, match="plain function"):
            told.add(no_listener, ())


def test_adopted() -> None:
    told, other, seen = Listeners(), Listeners(), list[Event]()
    other.add(seen.append, (JobStarted,))
    told.adopt(other)
    told.tell([STARTED, COMPLETED])
    assert seen == [STARTED]


def test_events_do_not_change() -> None:
    """Several listeners get the same one."""
    with pytest.raises(AttributeError):
        STARTED.job_id = "another"  # type: ignore[misc]  # that is the point
