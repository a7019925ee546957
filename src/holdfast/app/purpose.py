"""Refuses workers that would wait for ever: without handlers, or for queues that nobody knows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from holdfast.client import Client
from holdfast.errors import DatabaseUnavailable, WorkerCannotWork
from holdfast.worker import Handler


def refuse_purposeless(
    handlers: Collection[Handler], queues: Sequence[str] | None, open_client: Callable[[], Client]
) -> None:
    """A queue is known by a job type, or by a job that is or was in it: an enqueue may choose any."""
    if not handlers:
        raise WorkerCannotWork(
            "this app has no handlers, so there is nothing to run; "
            "import the modules whose functions have @app.job() where the app is made"
        )
    known = sorted({handler.job_type.queue for handler in handlers})
    if queues is None or not set(queues).isdisjoint(known):
        return
    try:
        with open_client() as client:
            if any(client.list_jobs(queue=queue, limit=1).items for queue in queues):
                return
    except DatabaseUnavailable:
        return  # the worker waits for its database, and says so
    raise WorkerCannotWork(
        f"no job type and no job belongs to the queues {', '.join(queues)}; "
        f"those of the job types are {', '.join(known)}: correct the names, or leave them out"
    )
