"""When a watcher of a SQLite file looks."""

from __future__ import annotations

import time
from typing import cast

from holdfast.notify.file_events import FileEvents
from holdfast.notify.file_watch import FileWatch, Lookout


class Watch:
    """A file whose commits can be seen at the looks with these numbers."""

    def __init__(self, *seen: int) -> None:
        self._seen = seen
        self.looks = 0

    def has_changed(self) -> bool:
        self.looks += 1
        return self.looks in self._seen


class Events:
    """Tells of one write, and remembers how long it was waited for the next."""

    def __init__(self) -> None:
        self._is_written = True
        self.waited: list[float] = []

    def take(self) -> bool:
        is_written, self._is_written = self._is_written, False
        return is_written

    def wait(self, seconds: float) -> None:
        self.waited.append(seconds)


def lookout(watch: Watch, events: Events | None) -> Lookout:
    return Lookout(cast("FileWatch", watch), cast("FileEvents | None", events))


def looks_until_change(sought: Lookout) -> int:
    return next(number for number in range(1, 1000) if sought.sees_change())


def test_a_commit_that_was_told_of_before_it_could_be_seen_is_not_slept_over() -> None:
    """The kernel tells of the write; the disk takes its time; nobody tells of the commit."""
    watch, events = Watch(20), Events()
    began = time.monotonic()
    assert looks_until_change(lookout(watch, events)) == 20
    assert time.monotonic() - began < 0.1
    assert max(events.waited) < 0.1


def test_a_second_commit_behind_the_one_that_is_seen_is_looked_for() -> None:
    """Two processes have written; only the first has committed when somebody looks."""
    watch, events = Watch(1, 10), Events()
    sought = lookout(watch, events)
    assert looks_until_change(sought) == 1
    assert looks_until_change(sought) == 9
    assert max(events.waited) < 0.1


def test_who_has_heard_of_no_write_waits_for_one() -> None:
    """After a while nothing is expected any more, and a look is rare."""
    watch, events = Watch(), Events()
    sought = lookout(watch, events)
    for _ in range(100):
        assert not sought.sees_change()
    assert events.waited[-50:] == [0.1] * 50


def test_without_events_the_looks_are_milliseconds_apart() -> None:
    """Where the kernel does not tell of writes."""
    began = time.monotonic()
    assert looks_until_change(lookout(Watch(4), None)) == 4
    assert time.monotonic() - began >= 0.012
