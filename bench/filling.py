"""Rows in great number, written by the database itself: what finished, and what waits for one reason or another.

They are such as the library writes; every constraint holds for them.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from bench.asking import asking
from holdfast import App
from holdfast.model.clock import iso

#: one chain that does not end blocks so many jobs
_BLOCKED_BY_EACH = 1000

_INSERT = """
INSERT INTO {job} (id, chain_id, type_name, chain_type_name, queue, input, created_at, scheduled_at, ready_at{columns})
SELECT {id}, {id}, '{type}', '{type}', {queue}, '{"order_id": 100000, "email": "someone.longer@example.com"}',
       '{then}', {moment}, {moment}{values}
FROM {numbers}
"""
_BLOCKERS = """
INSERT INTO {job_blocker} (job_id, blocked_by_chain_id, "index")
SELECT {id}, {blocker}, 0 FROM {numbers}
"""
#: `moment`: five hundred at a time, as batches come
_DIALECTS = {
    "postgres": {
        "id_of": "lpad(to_hex({number}), 32, '0')::uuid",
        "numbers": "generate_series({first}, {last}) AS n",
        "moment": "'{then}'::timestamptz + n / 500 * interval '1 millisecond'",
    },
    "sqlite": {
        "id_of": "printf('00000000-0000-0000-0000-%012x', {number})",
        "numbers": "(WITH RECURSIVE number (n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM number WHERE n < {last}) "
        "SELECT n FROM number)",
        "moment": "strftime('%Y-%m-%dT%H:%M:%f', '{then}', '+' || (n / 500 / 1000.0) || ' seconds') || '000Z'",
    },
}


class Filling:
    """Of one migrated database; rows of one filling have numbers that follow those of the one before."""

    def __init__(self, dialect: str, url: str) -> None:
        self._dialect = dialect
        self._url = url
        self._filled = 0
        app = App(url, auto_migrate=True)
        with app.client() as client:
            client.migrate()
        app.close()

    def finished(self, count: int, age: timedelta = timedelta(hours=1)) -> None:
        """Completed so long ago, in a queue of their own."""
        self._fill(
            count,
            "history",
            "'history'",
            -age,
            {
                "output": "'\"paid\"'",
                "status": "'completed'",
                "attempt": "1",
                "lease_generation": "1",
                "last_attempt_at": "{moment}",
                "finished_at": "{moment}",
                "completed_by": "'somebody'",
            },
        )

    def pending(self, count: int) -> None:
        """In the worker's own queue, due for an hour."""
        self._fill(count, "receipt", "'default'", -timedelta(hours=1))

    def future(self, count: int) -> None:
        """In the worker's own queue, due tomorrow."""
        self._fill(count, "receipt", "'default'", timedelta(days=1))

    def elsewhere(self, count: int) -> None:
        """Due for an hour, in ten queues that nobody serves."""
        self._fill(count, "receipt", "'other ' || n % 10", -timedelta(hours=1))

    def unknown(self, count: int) -> None:
        """Due for an hour in the worker's own queue, of a type that it does not have."""
        self._fill(count, "unheard_of", "'default'", -timedelta(hours=1))

    def blocked(self, count: int) -> None:
        """In the worker's own queue; each waits for one of many chains, all of which wait for tomorrow."""
        chains = -(-count // _BLOCKED_BY_EACH)
        first = self._filled + 1
        # PostgreSQL marks a chain that somebody waits for, SQLite needs no such mark.
        marks = {"is_awaited": "{yes}"} if self._dialect == "postgres" else {}
        self._fill(chains, "receipt", "'waited for'", timedelta(days=1), marks)
        self._fill(
            count,
            "receipt",
            "'default'",
            -timedelta(hours=1),
            {"status": "'blocked'", "waiting_for": "1", "on_blocker_failure": "'wait'"},
        )
        blocker = _DIALECTS[self._dialect]["id_of"].replace("{number}", f"{first} + n % {chains}")
        self._run(_BLOCKERS.replace("{blocker}", blocker), self._filled - count + 1, timedelta())

    def _fill(
        self, count: int, type_name: str, queue: str, due_in: timedelta, more: dict[str, str] | None = None
    ) -> None:
        more = more or {}
        text = _INSERT.replace("{type}", type_name).replace("{queue}", queue)
        text = text.replace("{columns}", "".join(f", {column}" for column in more))
        text = text.replace("{values}", "".join(f", {value}" for value in more.values()))
        first = self._filled + 1
        self._filled += count
        self._run(text, first, due_in)

    def _run(self, text: str, first: int, due_in: timedelta) -> None:
        words = _DIALECTS[self._dialect]
        text = text.replace("{id}", words["id_of"].replace("{number}", "n"))
        text = text.replace("{moment}", words["moment"]).replace("{then}", iso(datetime.now(UTC) + due_in))
        text = text.replace("{numbers}", words["numbers"])
        text = text.replace("{first}", str(first)).replace("{last}", str(self._filled))
        with asking(self._dialect, self._url) as ask:
            ask.rows(text)
            ask.rows("ANALYZE")
