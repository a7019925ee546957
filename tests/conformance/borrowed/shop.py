"""An application with a table of its own beside Holdfast's, and ways to enqueue from it and to look from outside."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, TypeVar

import msgspec
import psycopg

from holdfast.model.call import JobDocument
from holdfast.model.clock import Clock
from holdfast.model.ids import new_id
from holdfast.model.scan_position import Lane
from holdfast.operations.claim_jobs import claim_jobs, find_lanes
from holdfast.operations.drive import adrive, drive
from holdfast.operations.enqueue_jobs import enqueue_jobs
from holdfast.operations.fence import spoil_transaction
from holdfast.operations.get_job import find_job
from holdfast.operations.statement import Verb
from holdfast.stores import StoreConfig, open_store

T = TypeVar("T")


class Shop:
    """One database; `url` is what the application connects to."""

    def __init__(self, url: str, clock: Clock | None = None) -> None:
        self.url = url
        self.store = open_store(url, StoreConfig(clock=clock))
        self.face = self.store.sync()
        self.face.migrate()
        self._async_face = self.store.asynchronous()
        self._run("CREATE TABLE note (body text NOT NULL UNIQUE)")

    @property
    def dialect(self) -> str:
        return self.store.dialect

    @property
    def path(self) -> str:
        return self.url.removeprefix("sqlite:///")

    def enqueue(self, tx: object, job_id: str | None = None, tenant: str | None = None) -> str:
        """Enqueue as the sync client does; returns the job's id, `existing` says whether it was there before."""
        borrowed = self.face.borrow(tx)
        job = _job(job_id, tenant)
        self.existing = drive(enqueue_jobs([job], "holdfast", _given(job_id)), borrowed.execute)
        return job.id

    async def aenqueue(self, tx: object, job_id: str | None = None, tenant: str | None = None) -> str:
        """As the async client does."""
        borrowed = await self._async_face.borrow(tx)
        job = _job(job_id, tenant)
        self.existing = await adrive(enqueue_jobs([job], "holdfast", _given(job_id)), borrowed.execute)
        return job.id

    def run(self, tx: object, verb: Verb[T]) -> T:
        """Any verb, in the caller's transaction."""
        return drive(verb(), self.face.borrow(tx).execute)

    async def arun(self, tx: object, verb: Verb[T]) -> T:
        """The same, awaited."""
        return await adrive(verb(), (await self._async_face.borrow(tx)).execute)

    def spoil(self, tx: object) -> None:
        """As a context does with the transaction of a handler whose job is lost."""
        borrowed = self.face.borrow(tx)
        with contextlib.suppress(Exception):
            drive(spoil_transaction("the lease was lost"), borrowed.execute)
        borrowed.refuse_commit()

    async def aspoil(self, tx: object) -> None:
        """The same, awaited."""
        borrowed = await self._async_face.borrow(tx)
        with contextlib.suppress(Exception):
            await adrive(spoil_transaction("the lease was lost"), borrowed.execute)
        await borrowed.refuse_commit()

    def put_running_job(self, max_attempts: int | None = None) -> str:
        """A committed job that worker w has under lease, generation 1."""
        payload = msgspec.Raw(b'{"number": 12345678901234567890, "text": "\\u20ac", "nothing": null}')
        headers = msgspec.Raw('{"a": "é"}'.encode())
        job = JobDocument(
            new_id(), "send_receipt", payload, "mail", 3, max_attempts=max_attempts, tenant="acme", headers=headers
        )
        self.face.run(lambda: enqueue_jobs([job], None))
        found = self.face.run(lambda: find_lanes(["mail"]), read_only=True)
        lanes = [Lane(lane.queue, lane.priority, lane.ready_at, lane.seq - 1) for lane in found]
        (claimed,) = self.face.run(lambda: claim_jobs("w", lanes, 1, timedelta(minutes=1)))
        assert (claimed.id, claimed.lease_generation) == (job.id, 1)
        return job.id

    def has(self, job_id: str) -> bool:
        """Whether others see the job."""
        return self.face.run(lambda: find_job(job_id), read_only=True) is not None

    def notes(self) -> list[str]:
        """What others see of the application's own data."""
        return [row[0] for row in self._run("SELECT body FROM note ORDER BY body")]

    async def close(self) -> None:
        self.face.close()
        await self._async_face.close()

    def _run(self, text: str) -> list[Any]:
        with self.connection() as connection:
            cursor = connection.execute(text)
            return list(cursor.fetchall()) if cursor.description else []

    @contextlib.contextmanager
    def connection(self) -> Iterator[Any]:
        """A connection of somebody else, in autocommit mode."""
        connection: Any
        if self.dialect == "postgres":
            connection = psycopg.connect(self.url, autocommit=True)
        else:
            connection = sqlite3.connect(self.path, isolation_level=None, timeout=0)
        with contextlib.closing(connection):
            yield connection


def _given(job_id: str | None) -> tuple[str, ...]:
    return () if job_id is None else (job_id,)


def _job(job_id: str | None, tenant: str | None) -> JobDocument:
    payload = msgspec.Raw('{"text": "100 % é"}'.encode())
    return JobDocument(job_id or new_id(), "send_receipt", payload, "mail", tenant=tenant)
