"""An app on a database of its own that is gone afterwards."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.app import App
from holdfast.model.clock import Clock


@contextmanager
def temporary_app(like: App | None = None, *, clock: Clock | None = None, **settings: Any) -> Iterator[App]:
    """An app on a private temporary SQLite file, for one test; closed and removed at the end of the block.

    - `like` (none): an app whose job types it takes over, so that `client.enqueue(job.call(…))` and `drain` work with
      the job types of your application. The shorthands `job.enqueue(…)` and `job.aenqueue(…)` stay with the app that
      defined the job.
    - `clock` (the process's): a `FakeClock` makes delays and retries testable without waiting.
    - `settings`: anything else that `App` takes.

    It is SQLite's real store, with nothing replaced, so what works here works on a file. Close the clients that you
    open before the block ends.

        with temporary_app(clock=clock) as app:
            @app.job()
            def add(a: int, b: int) -> int:
                return a + b

            with app.client() as client:
                client.enqueue(add.call(a=1, b=2), delay=60)
                assert drain(app).completed == 0
                clock.advance(60)
                assert drain(app).completed == 1
    """
    # The directory is the unit: SQLite keeps its write-ahead log beside the file.
    with tempfile.TemporaryDirectory(prefix="holdfast-", ignore_cleanup_errors=True) as directory:
        chosen: dict[str, Any] = {"name": like.name if like else "test", "synchronous": "normal"} | settings
        app = App(f"sqlite:///{Path(directory) / 'holdfast.db'}", clock=clock, **chosen)
        if like is not None:
            app.adopt(like)
        try:
            yield app
        finally:
            app.close()
