"""Databases with a long past and a long future, in which plans are judged.

Jobs are numbered from 1, and the number is the id: running ones first, half of them held by a worker that is gone, then
finished ones, then pending, future and held ones among each other, as in life, so that no lane is contiguous on disk.
Between the finished and the others lie a few that stand aside: blocked, dead, cancelled, some of a tenant, some at the
end of chains of two.  Last come those of the queue that is fair by tenant.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from uuid import UUID

QUEUES = ("default", "mail", "bulk")
PRIORITIES = (-10, 0, 10)

#: LIVING holds the jobs up to RUNNING and keeps its heartbeat, GONE holds as many more and has no row
LIVING, GONE = "living", "gone"
RUNNING = 700
EACH = 100_000
SUSPECTS = 300
#: jobs in each of three states, and chains whose second job is in the state
ASIDE = 1_000
LATER = 100
TENANT = "acme"
#: a queue that is fair by tenant: half of its jobs are one tenant's, the others those of so many
FAIR = "fair"
GIANT = "giant"
TENANTS = 5_000
#: workers that are alive and hold nothing
IDLE = 200

FIRST_FINISHED = 2 * RUNNING + 1
#: from here on no job has the number
UNUSED = 10_000_000


def job_id(number: int) -> str:
    return str(UUID(int=number))


class Fill(ABC):
    """SQL that fills an empty, migrated database, in the dialect's words for what is not the same in both."""

    def __init__(self, job: str, each: int = EACH) -> None:
        self.job = job
        self.first_open = FIRST_FINISHED + each
        self.first_suspect = self.first_open + 3 * each
        self.first_aside = self.first_suspect + SUSPECTS
        self.first_fair = self.first_aside + 3 * ASIDE + 6 * LATER
        self.last_fair = self.first_fair + each - 1

    @abstractmethod
    def number(self, first: int, last: int) -> str: ...

    @abstractmethod
    def uuid(self, before: int = 0) -> str:
        """The id of the job that is so many numbers before."""

    @abstractmethod
    def moment(self, when: str) -> str:
        """`long ago`, `past` or `future`, and a bit later for each number."""

    @property
    def people(self) -> list[str]:
        """The job type, and workers whose heartbeats from the future keep them alive for as long as the tests take."""
        past, future = self.moment("past"), self.moment("future")
        return [
            f"""INSERT INTO {self.job}_type (name, queue, retry, registered_at)
                SELECT 'report', 'default', '{{}}', {past} FROM {self.number(0, 0)}""",
            f"""INSERT INTO {self._table("worker")} (id, started_at, last_seen_at, heard_since, version, queues)
                SELECT CASE n WHEN 0 THEN '{LIVING}' ELSE 'idle ' || n END, {past}, {future}, {past}, '0.1.0', '[]'
                FROM {self.number(0, IDLE)}""",
        ]

    @property
    def finished(self) -> str:
        then = self.moment("long ago")
        return self._insert(
            FIRST_FINISHED,
            self.first_open - 1,
            {
                **dict.fromkeys(("created_at", "scheduled_at", "ready_at", "last_attempt_at", "finished_at"), then),
                "status": "'completed'",
                "attempt": "1",
                "lease_generation": "1",
                "completed_by": f"'{GONE}'",
                "output": "'1'",
            },
        )

    @property
    def unfinished(self) -> list[str]:
        then, past, future = map(self.moment, ("long ago", "past", "future"))
        running = {
            **dict.fromkeys(("created_at", "scheduled_at", "ready_at", "last_attempt_at"), then),
            "status": "'running'",
            "attempt": "1",
            "lease_generation": "1",
            "leased_by": f"CASE WHEN n <= {RUNNING} THEN '{LIVING}' ELSE '{GONE}' END",
            "leased_until": future,
        }
        due = f"CASE n % 3 WHEN 1 THEN {future} ELSE {past} END"
        waiting = {"created_at": past, "scheduled_at": due, "ready_at": due, "held": self.boolean("n % 3 = 2")}
        suspect = {**dict.fromkeys(("created_at", "scheduled_at", "ready_at"), past), "crash_count": "1"}
        fair = {
            **dict.fromkeys(("created_at", "scheduled_at", "ready_at"), past),
            "queue": f"'{FAIR}'",
            "priority": "0",
            "tenant": f"CASE n % 2 WHEN 0 THEN '{GIANT}' ELSE 'tenant ' || n % {TENANTS} END",
            "is_fair": self.boolean("1 = 1"),
        }
        return [
            self._insert(1, 2 * RUNNING, running),
            *self.aside,
            self._insert(self.first_open, self.first_suspect - 1, waiting),
            self._insert(self.first_suspect, self.first_suspect + SUSPECTS - 1, suspect),
            self._insert(self.first_fair, self.last_fair, fair),
        ]

    @property
    def aside(self) -> list[str]:
        """Jobs in each state by turns, then first jobs of chains, then their last jobs in each state by turns."""
        then = self.moment("long ago")
        times = dict.fromkeys(("created_at", "scheduled_at", "ready_at"), then)
        state = _one_of(["'blocked'", "'dead_letter'", "'cancelled'"], "n")
        standing = {
            **times,
            "status": state,
            "finished_at": f"CASE n % 3 WHEN 0 THEN NULL ELSE {then} END",
            "waiting_for": "CASE n % 3 WHEN 0 THEN 1 ELSE 0 END",
            "tenant": f"CASE n % 10 WHEN 0 THEN '{TENANT}' END",
        }
        continued = {**times, "status": "'completed'", "finished_at": then, "is_tail": self.boolean("1 = 0")}
        chains = self.first_aside + 3 * ASIDE
        last = {**standing, "chain_id": self.uuid(3 * LATER), "chain_index": "1"}
        return [
            self._insert(self.first_aside, chains - 1, standing),
            self._insert(chains, chains + 3 * LATER - 1, continued),
            self._insert(chains + 3 * LATER, chains + 6 * LATER - 1, last),
        ]

    def boolean(self, condition: str) -> str:
        return condition

    def _table(self, name: str) -> str:
        return self.job.removesuffix("job") + name

    def _insert(self, first: int, last: int, values: dict[str, str]) -> str:
        columns = {
            "id": self.uuid(),
            "chain_id": self.uuid(),
            "type_name": "'report'",
            "chain_type_name": "'report'",
            "queue": _one_of([f"'{queue}'" for queue in QUEUES], "n / 3"),
            "priority": _one_of([str(priority) for priority in PRIORITIES], "n / 9"),
            "input": "'{}'",
            **values,
        }
        return (
            f"INSERT INTO {self.job} ({', '.join(columns)}) SELECT {', '.join(columns.values())} "
            f"FROM {self.number(first, last)}"
        )


class PostgresFill(Fill):
    @property
    def people(self) -> list[str]:
        """And an archive that takes jobs."""
        return [*super().people, f"SELECT {self._table('open_archive')}(now())"]

    def number(self, first: int, last: int) -> str:
        return f"generate_series({first}, {last}) AS n"

    def uuid(self, before: int = 0) -> str:
        return f"lpad(to_hex(n - {before}), 32, '0')::uuid"

    def moment(self, when: str) -> str:
        hours = {"long ago": "-3", "past": "-1", "future": "+24"}[when]
        return f"now() + interval '{hours} hours' + n * interval '1 millisecond'"


class SqliteFill(Fill):
    def number(self, first: int, last: int) -> str:
        return (
            f"(WITH RECURSIVE number (n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM number WHERE n < {last}) "
            "SELECT n FROM number)"
        )

    def uuid(self, before: int = 0) -> str:
        return f"printf('00000000-0000-0000-0000-%012x', n - {before})"

    def moment(self, when: str) -> str:
        year = {"long ago": 2000, "past": 2001, "future": 2999}[when]
        return f"printf('{year}-01-01T00:00:00.%06dZ', n)"


def _one_of(values: list[str], number: str) -> str:
    *others, last = [f"WHEN {index} THEN {value}" for index, value in enumerate(values)]
    return f"CASE {number} % {len(values)} {' '.join(others)} ELSE {last.partition('THEN ')[2]} END"
