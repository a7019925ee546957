"""Contexts for calling a handler as the plain function it is, without a database or a worker."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NoReturn, TypedDict, Unpack

from holdfast.client import AsyncClient, Client
from holdfast.model.clock import iso
from holdfast.model.ids import checked_uuid, new_id
from holdfast.model.job import JobError
from holdfast.model.payload import to_json
from holdfast.operations.claim_jobs import ClaimedJob
from holdfast.worker import Cancellation, Context, SyncContext
from holdfast.worker.attempt import Attempt


class AttemptValues(TypedDict, total=False):
    """What a context may be told about its attempt.

    - `attempt` (1), `lease_generation` (the attempt), `cancelled` (None).
    - `job_id` (a new one), `type_name` ("test"), `queue` ("default"), `priority` (0), `input` ({}), `tenant`,
      `headers`, `max_attempts`, `timeout_ms`, `crash_count`, `chain_id` (the job's), `chain_index` (0): for `ctx.job`.
    - `last_attempt_error` (None): what the attempt before failed with.
    - `created_at` (now): when the job was enqueued.
    """

    attempt: int
    lease_generation: int
    cancelled: Cancellation | None
    job_id: str
    type_name: str
    queue: str
    priority: int
    input: object
    tenant: str | None
    headers: dict[str, str] | None
    max_attempts: int | None
    timeout_ms: int | None
    crash_count: int
    chain_id: str
    chain_index: int
    last_attempt_error: JobError | None
    created_at: datetime


class FakeContext(Context):
    """A `Context` whose `cancelled` can be set."""

    @property
    def cancelled(self) -> Cancellation | None:
        return self._attempt.cancelled

    @cancelled.setter
    def cancelled(self, reason: Cancellation | None) -> None:
        self._attempt.cancelled = reason


class FakeSyncContext(SyncContext):
    """A `SyncContext` whose `cancelled` can be set."""

    @property
    def cancelled(self) -> Cancellation | None:
        return self._attempt.cancelled

    @cancelled.setter
    def cancelled(self, reason: Cancellation | None) -> None:
        self._attempt.cancelled = reason


def context(*, client: AsyncClient | None = None, **values: Unpack[AttemptValues]) -> FakeContext:
    """A context for an `async def` handler; see `AttemptValues` for what it may be told.

    `client` is what the handler finds as `ctx.client`; using it without giving one is an error that says so.

        result = await send_receipt.fn(holdfast.testing.context(attempt=3), order_id=1, email="a@b.c")
    """
    return FakeContext(_attempt(values), client or _NoClient("context"))


def sync_context(*, client: Client | None = None, **values: Unpack[AttemptValues]) -> FakeSyncContext:
    """A context for a `def` handler; otherwise as `context`."""
    return FakeSyncContext(_attempt(values), client or _NoClient("sync_context"))


def _attempt(values: AttemptValues) -> Attempt:
    number = values.get("attempt", 1)
    job_id = checked_uuid(values["job_id"]) if "job_id" in values else new_id()
    error = values.get("last_attempt_error")
    headers = values.get("headers")
    job = ClaimedJob(
        id=job_id,
        lease_generation=values.get("lease_generation", number),
        type_name=values.get("type_name", "test"),
        input=to_json(values.get("input", {})),
        attempt=number,
        queue=values.get("queue", "default"),
        priority=values.get("priority", 0),
        ready_at=iso(values.get("created_at") or datetime.now(UTC)),
        seq=1,
        timeout_ms=values.get("timeout_ms"),
        claimed_at=None,
        crash_count=values.get("crash_count"),
        chain_id=values.get("chain_id"),
        chain_index=values.get("chain_index"),
        chain_type_name=None,
        created_at=None,
        scheduled_at=None,
        max_attempts=values.get("max_attempts"),
        last_attempt_error=None if error is None else to_json(error),
        tenant=values.get("tenant"),
        headers=None if headers is None else to_json(headers),
    )
    attempt = Attempt(job, None, "test-worker")
    attempt.cancelled = values.get("cancelled")
    return attempt


class _NoClient:
    def __init__(self, maker: str) -> None:
        self._maker = maker

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"ctx.client.{name}: this context has no client; pass one with {self._maker}(client=…)")
