"""How a worker process ends, in a number."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What `holdfast worker` and `app.run_worker` leave behind."""

    #: stopped by a signal, idle with `until_idle`, or at the end of `max_jobs` or `max_rss` without a supervisor
    STOPPED = 0
    CANNOT_WORK = 1
    #: what click ends with
    WRONG_USAGE = 2
    #: with `until_idle`: a job became a dead letter
    DEAD_LETTERS = 3
    #: to the supervisor, from a process at the end of `max_jobs` or `max_rss`: start another at once
    RECYCLED = 75
