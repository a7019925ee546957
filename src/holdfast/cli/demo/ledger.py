"""The account at the end: every figure counted from the database and from what the handlers wrote down."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from holdfast.cli.demo.executions import Executions
from holdfast.client import Client
from holdfast.model.job import Job
from holdfast.model.status import Status


@dataclass(frozen=True, kw_only=True, slots=True)
class Ledger:
    """Jobs by what became of them.

    - `enqueued`: ids that the enqueue returned. `finished`, `dead_letters`: their rows in the database.
    - `retried`: jobs whose handler raised and was started again.
    - `returned`: jobs that the killed worker held and that are in a final state now.
    - `lost`: enqueued, and neither finished nor a dead letter; or finished, and no handler ever came to its end.
    - `finished_twice`: jobs whose handler came to its end more than once under one lease generation.
    """

    enqueued: int
    finished: int
    retried: int
    returned: int
    dead_letters: int
    lost: int
    finished_twice: int

    @property
    def is_clean(self) -> bool:
        return self.lost == 0 and self.finished_twice == 0


def count(client: Client, enqueued: Collection[str], held: Collection[str], executions: Executions) -> Ledger:
    rows = {job.id: job for job in _all_jobs(client)}
    found = [rows[job_id] for job_id in enqueued if job_id in rows]
    finished = [job for job in found if job.status is Status.COMPLETED]
    dead = [job for job in found if job.status is Status.DEAD_LETTER]
    unseen = [job for job in finished if executions.finishes[job.id, job.lease_generation] == 0]
    return Ledger(
        enqueued=len(enqueued),
        finished=len(finished),
        retried=len(executions.retried_jobs),
        returned=sum(job_id in rows and rows[job_id].status.is_terminal for job_id in held),
        dead_letters=len(dead),
        lost=len(enqueued) - len(finished) - len(dead) + len(unseen),
        finished_twice=len({job_id for (job_id, _), times in executions.finishes.items() if times > 1}),
    )


def held_by(client: Client, pid: int) -> set[str]:
    """The jobs that the database says a process holds; a worker's id ends in its pid and a random part."""
    running = client.list_jobs(status=Status.RUNNING, limit=1000).items
    return {job.id for job in running if job.leased_by is not None and job.leased_by.split("-")[-2] == str(pid)}


def has_unfinished(client: Client) -> bool:
    return bool(client.list_jobs(status=[status for status in Status if not status.is_terminal], limit=1).items)


def _all_jobs(client: Client) -> Iterator[Job]:
    cursor = None
    while True:
        page = client.list_jobs(limit=1000, cursor=cursor, newest_first=False)
        yield from page.items
        if (cursor := page.next_cursor) is None:
            return
