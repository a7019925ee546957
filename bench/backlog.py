"""Jobs that are laid up in a paused queue, and how fast workers that are there already do them.

By the database's own times, from the first claim to the last completion: neither the start of a process nor what asks
whether it is over is in them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from bench.asking import Asking, asking
from holdfast import App
from holdfast.client import Client
from holdfast.model.call import Call
from holdfast.model.clock import iso

_BATCH = 5_000
_LONGEST_SECONDS = 1_800


@dataclass(frozen=True)
class Span:
    """Jobs by their seq, both ends included, and the instant from which on they may run."""

    first: int
    last: int
    since: str = ""

    @property
    def where(self) -> str:
        return f"seq BETWEEN {self.first} AND {self.last}"


class Backlog:
    """Of one queue, and one type of job."""

    def __init__(self, client: Client, ask: Asking, call: Callable[[int], Call[Any]], queue: str) -> None:
        self._client = client
        self._ask = ask
        self._call = call
        self._queue = queue
        #: as the index of claims has it, and with its second column, so that it finds a time
        self._claimable = (
            f"status = 'pending' AND queue = '{queue}' AND held = {{no}} AND crash_count = 0 AND is_fair = {{no}} "
            "AND priority = 0"
        )

    def drain(self, count: int, *, is_oldest: bool = False) -> float:
        """Jobs per second, of so many; see `lay_up`."""
        return self.rate(self.work_off(self.lay_up(count, is_oldest=is_oldest)))

    def lay_up(self, count: int, *, is_oldest: bool = False) -> Span:
        """So many more wait in the queue, which is paused; they are the span.

        With `is_oldest` as many are, of those that have waited there the longest.
        """
        self.pause()
        self._until("nothing runs", "NOT EXISTS (SELECT 1 FROM {job} WHERE status = 'running')")
        last = self._ask.value("SELECT coalesce(max(seq), 0) FROM {job}")
        for start in range(0, count, _BATCH):
            self._client.enqueue_many([self._call(number) for number in range(start, min(start + _BATCH, count))])
        first = self._oldest() if is_oldest else last + 1
        return Span(first, first + count - 1)

    def pause(self) -> None:
        self._client.queues.pause(self._queue)

    def resume(self) -> None:
        self._client.queues.resume(self._queue)

    def await_first_look(self) -> None:
        """Whatever is due in the queue now has been claimed at least once."""
        now = iso(datetime.now(UTC))
        self._until(
            "all have been claimed",
            f"NOT EXISTS (SELECT 1 FROM {{job}} WHERE {self._claimable} AND ready_at <= '{now}')",
        )

    def await_workers(self, count: int) -> None:
        self._until(
            f"{count} workers are there", f"(SELECT count(*) >= {count} FROM {{worker}} WHERE status = 'alive')"
        )

    def work_off(self, span: Span) -> Span:
        """Returns when all of it has ended, and the queue is paused again."""
        span = Span(span.first, span.last, iso(datetime.now(UTC)))
        self.resume()
        # From behind: jobs run in their order, so as long as there are many this finds one at its first look.
        self._until(
            "the jobs are done",
            f"NOT EXISTS (SELECT 1 FROM (SELECT status FROM {{job}} WHERE {span.where} "
            "AND status IN ('pending', 'running') ORDER BY seq DESC LIMIT 1) AS unfinished)",
        )
        self.pause()
        return span

    def rate(self, span: Span) -> float:
        """What a worker had in its hands when the queue was paused the last time is not counted."""
        began, ended, count = self._times(span)
        return count / (ended - began).total_seconds()

    def rate_since_release(self, span: Span) -> float:
        """With the time that the first of them waited behind others."""
        _, ended, count = self._times(span)
        return count / (ended - datetime.fromisoformat(span.since)).total_seconds()

    def _times(self, span: Span) -> tuple[datetime, datetime, int]:
        counted = f"FROM {{job}} WHERE {span.where} AND last_attempt_at >= '{span.since}' AND status = 'completed'"
        began, ended = self._ask.moments(f"SELECT min(last_attempt_at), max(finished_at) {counted}")
        return began, ended, int(self._ask.value(f"SELECT count(*) {counted}"))

    def _oldest(self) -> int:
        return int(
            self._ask.value(
                f"SELECT seq FROM {{job}} WHERE {self._claimable} ORDER BY queue, priority, ready_at, seq LIMIT 1"
            )
        )

    def _until(self, what: str, condition: str) -> None:
        deadline = time.monotonic() + _LONGEST_SECONDS
        while not self._ask.value(f"SELECT {condition}"):
            if time.monotonic() > deadline:
                raise TimeoutError(f"not so within {_LONGEST_SECONDS} s: {what}")
            time.sleep(0.05)


@contextmanager
def receipts(dialect: str, url: str) -> Iterator[Backlog]:
    """Of no-op jobs in the default queue."""
    app = App(url, auto_migrate=True)

    @app.job()
    async def receipt(order_id: int, email: str) -> None: ...

    def call(number: int) -> Call[None]:
        return receipt.call(order_id=number, email="someone.longer@example.com")

    with app.client() as client:
        client.migrate()
        with asking(dialect, url) as ask:
            yield Backlog(client, ask, call, "default")
    app.close()
