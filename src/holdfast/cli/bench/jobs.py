"""The jobs that are measured: they do nothing, and say when they began."""

from __future__ import annotations

import os
import time

from holdfast.app import App

_SCHEMA = "HOLDFAST_BENCH_SCHEMA"
_LISTEN_URL = "HOLDFAST_LISTEN_URL"


def open_app(url: str, schema: str) -> App:
    app = App(url, schema=schema, name="bench")

    @app.job()
    async def nothing(order_id: int, email: str) -> None:
        """What is left of a job without its work."""

    @app.job()
    async def stamp(sent_ns: int) -> int:
        """How many nanoseconds have gone by since it was sent; clocks agree within a machine."""
        return time.monotonic_ns() - sent_ns

    return app


def worker_variables(url: str, schema: str) -> dict[str, str]:
    """For `make_app` in another process; through a pooler it listens where the user's workers would."""
    listening = {name: value for name, value in os.environ.items() if name == _LISTEN_URL}
    return {"HOLDFAST_URL": url, _SCHEMA: schema, **listening}


def make_app() -> App:
    """The app of a worker process."""
    return open_app(os.environ["HOLDFAST_URL"], os.environ[_SCHEMA])
