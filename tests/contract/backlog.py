"""Databases with a long past and a long future, in which plans are judged.

Jobs are numbered from 1, and the number is the id: running ones first, half of them held by a worker that is gone, then
finished ones, then pending, future and held ones among each other, as in life, so that no lane is contiguous on disk.
"""

from __future__ import annotations

from uuid import UUID

QUEUES = ("default", "mail", "bulk")
PRIORITIES = (-10, 0, 10)

#: LIVING holds the jobs up to RUNNING and keeps its heartbeat, GONE holds as many more and has no row
LIVING, GONE = "living", "gone"
RUNNING = 700
EACH = 100_000
SUSPECTS = 300

FIRST_FINISHED = 2 * RUNNING + 1
#: from here on no job has the number
UNUSED = 10_000_000


def job_id(number: int) -> str:
    return str(UUID(int=number))


class Fill:
    """SQL that fills an empty, migrated database, in the dialect's words for what is not the same in both."""

    def __init__(self, job: str, each: int = EACH) -> None:
        self.job = job
        self.first_open = FIRST_FINISHED + each
        self.first_suspect = self.first_open + 3 * each

    def number(self, first: int, last: int) -> str:
        raise NotImplementedError

    def uuid(self) -> str:
        raise NotImplementedError

    def moment(self, hours: str) -> str:
        """So many hours from now, and a millisecond for each number."""
        raise NotImplementedError

    @property
    def people(self) -> list[str]:
        """The job type, and a worker whose heartbeat from the future keeps it alive for as long as the tests take."""
        now, tomorrow = self.moment("+0"), self.moment("+24")
        return [
            f"""INSERT INTO {self.job}_type (name, queue, retry, registered_at)
                SELECT 'report', 'default', '{{}}', {now} FROM {self.number(0, 0)}""",
            f"""INSERT INTO {self._table("worker")} (id, started_at, last_seen_at, version, queues)
                SELECT '{LIVING}', {now}, {tomorrow}, '0.1.0', '[]' FROM {self.number(0, 0)}""",
        ]

    @property
    def finished(self) -> str:
        then = self.moment("-3")
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
        then, past, future = self.moment("-3"), self.moment("-1"), self.moment("+24")
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
        return [
            self._insert(1, 2 * RUNNING, running),
            self._insert(self.first_open, self.first_suspect - 1, waiting),
            self._insert(self.first_suspect, self.first_suspect + SUSPECTS - 1, suspect),
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
    def number(self, first: int, last: int) -> str:
        return f"generate_series({first}, {last}) AS n"

    def uuid(self) -> str:
        return "lpad(to_hex(n), 32, '0')::uuid"

    def moment(self, hours: str) -> str:
        return f"now() + interval '{hours} hours' + n * interval '1 millisecond'"


class SqliteFill(Fill):
    def number(self, first: int, last: int) -> str:
        return (
            f"(WITH RECURSIVE number (n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM number WHERE n < {last}) "
            "SELECT n FROM number)"
        )

    def uuid(self) -> str:
        hexadecimal = "printf('%032x', n)"
        pieces = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))
        return " || '-' || ".join(f"substr({hexadecimal}, {start}, {length})" for start, length in pieces)

    def moment(self, hours: str) -> str:
        return (
            "strftime('%Y-%m-%dT%H:%M:%f', 'now', "
            f"'{hours} hours', printf('+%.3f seconds', n / 1000.0)) || '000Z'"
        )


def _one_of(values: list[str], number: str) -> str:
    *others, last = [f"WHEN {index} THEN {value}" for index, value in enumerate(values)]
    return f"CASE {number} % {len(values)} {' '.join(others)} ELSE {last.partition('THEN ')[2]} END"
