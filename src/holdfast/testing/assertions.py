"""Assertions about what was enqueued."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from holdfast.app import App, JobHandle
from holdfast.client import Client
from holdfast.errors import InvalidPayload
from holdfast.model.job import Job
from holdfast.model.payload import to_json

_SHOWN = 10
_PAGE = 200


def assert_enqueued(where: App | Client, job: JobHandle[Any, Any], /, **arguments: object) -> Job:
    """The newest job of that type whose arguments include those given, in whatever state; AssertionError without one.

    Arguments are compared as the handler would see them, defaults included.

        assert_enqueued(app, send_receipt, order_id=9182)
    """
    names = job.job_type.signature.names
    if unknown := sorted(arguments.keys() - set(names)):
        raise TypeError(f"{job.name} has no argument {unknown[0]!r}; it takes: {', '.join(names) or 'none'}")
    with ExitStack() as stack:
        client = stack.enter_context(where.client()) if isinstance(where, App) else where
        seen: list[Job] = []
        for found in _all(client, type_name=job.name):
            values = _seen_by_handler(job, found)
            if all(name in values and values[name] == value for name, value in arguments.items()):
                return found
            seen.append(found)
        raise AssertionError(_explanation(client, job, arguments, seen))


def _all(client: Client, **filters: Any) -> Iterator[Job]:
    cursor: str | None = None
    while True:
        page = client.list_jobs(limit=_PAGE, cursor=cursor, **filters)
        yield from page.items
        if (cursor := page.next_cursor) is None:
            return


def _seen_by_handler(job: JobHandle[Any, Any], found: Job) -> dict[str, object]:
    parameters = inspect.signature(job.fn).parameters.values()
    defaults = {item.name: item.default for item in parameters if item.default is not item.empty}
    try:
        decoded: dict[str, object] = job.job_type.signature.decode(to_json(found.input))
    except InvalidPayload:
        decoded = found.input if isinstance(found.input, dict) else {}
    return defaults | decoded


def _explanation(client: Client, job: JobHandle[Any, Any], arguments: dict[str, object], seen: list[Job]) -> str:
    wanted = f"{job.name} was not enqueued" + (f" with {_listing(arguments)}" if arguments else "")
    if seen:
        lines = [f"  {found.id} {found.status}: {_listing(found.input)}" for found in seen[:_SHOWN]]
        more = [f"  and {len(seen) - _SHOWN} more"] if len(seen) > _SHOWN else []
        return "\n".join([f"{wanted}; its jobs, newest first:", *lines, *more])
    others = Counter(found.type_name for found in _all(client))
    listing = ", ".join(f"{name} × {count}" for name, count in sorted(others.items()))
    return f"{wanted}; enqueued were: {listing or 'no jobs at all'}"


def _listing(arguments: Any) -> str:
    if not isinstance(arguments, dict):
        return repr(arguments)
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items()) or "no arguments"
