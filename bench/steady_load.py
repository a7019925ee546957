"""Jobs that come at a steady pace, twenty by one call, a hundred times a second: two thousand jobs a second."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.asking import Asking, asking
from holdfast import App

_PER_CALL = 20
_CALLS_PER_SECOND = 100
#: who is later than this has not kept the pace, and does not make up for it by a burst
_LATEST_SECONDS = 0.5
_LONGEST_SECONDS = 120

#: goes on for so many seconds; the jobs per second that really went in
Load = Callable[[float], float]


@contextmanager
def steady_load(url: str) -> Iterator[Load]:
    app = App(url, auto_migrate=True)

    @app.job()
    async def start(sent_ns: int) -> None: ...

    with app.client() as client:
        client.migrate()

        def load(seconds: float) -> float:
            began = due = time.monotonic()
            count = 0
            while time.monotonic() < began + seconds:
                sent_ns = time.monotonic_ns()
                client.enqueue_many([start.call(sent_ns) for _ in range(_PER_CALL)])
                count += _PER_CALL
                due = max(due + 1 / _CALLS_PER_SECOND, time.monotonic() - _LATEST_SECONDS)
                time.sleep(max(0.0, due - time.monotonic()))
            return count / (time.monotonic() - began)

        yield load
    app.close()


def await_all_done(dialect: str, url: str) -> None:
    with asking(dialect, url) as ask:
        deadline = time.monotonic() + _LONGEST_SECONDS
        while _is_busy(ask):
            if time.monotonic() > deadline:
                raise TimeoutError(f"there are unfinished jobs after {_LONGEST_SECONDS} s")
            time.sleep(0.1)


def _is_busy(ask: Asking) -> bool:
    return bool(ask.value("SELECT EXISTS (SELECT 1 FROM {job} WHERE status IN ('pending', 'running'))"))
