"""How an attempt ends, and how its error is described."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec import Raw

from holdfast import Batch
from holdfast.app import App
from holdfast.errors import ContinuationNotReturned, InvalidPayload
from holdfast.model.call import Call, JobDocument
from holdfast.model.endings import Cancel, DeadLetter, RetryAt, Snooze
from holdfast.model.retry import Retry
from holdfast.operations.claim_jobs import ClaimedJob
from holdfast.operations.complete_jobs import Completion
from holdfast.operations.continue_jobs import Continuation
from holdfast.operations.fail_jobs import Failure
from holdfast.operations.lease import Lease
from holdfast.operations.snooze_jobs import Postponement
from holdfast.testing import adrain, temporary_app
from holdfast.worker import Cancellation
from holdfast.worker.attempt import Attempt, describe
from holdfast.worker.handler import Handler
from holdfast.worker.next_job import NextJob


def _attempt(number: int = 1, output: Any = None, **policy: Any) -> Attempt:
    app = App("sqlite:///never-opened.db")

    def handler() -> None: ...

    handler.__annotations__["return"] = output
    handle = app.job(retry=Retry(**policy))(handler)
    values: dict[str, Any] = dict.fromkeys(ClaimedJob._fields)
    job = ClaimedJob(**values | {"id": "j", "lease_generation": 3, "attempt": number})
    return Attempt(job, Handler(handle.job_type, handler), "w1")


def test_completion() -> None:
    """The output is JSON text; no output is none at all; the fence and the time it took come along."""
    completion = _attempt().completion(None)
    assert (completion.id, completion.lease_generation, completion.output) == ("j", 3, None)
    assert completion.duration_ms is not None
    assert _attempt(output=dict[str, int]).completion({"a": 1}).output == '{"a":1}'
    assert _attempt(output=str).completion("null").output == '"null"'


@pytest.mark.parametrize(
    ("output", "value"), [(int, "x"), (int, None), (None, 5), (float, float("nan")), (str, "\x00")]
)
def test_output_is_validated(output: Any, value: object) -> None:
    """A handler that returns what it did not promise fails."""
    with pytest.raises(InvalidPayload):
        _attempt(output=output).completion(value)


def test_a_call_is_no_output() -> None:
    """Who returns what he should have given to `ctx.continue_with` is told so by its name."""
    app = App("sqlite:///never-opened.db")

    @app.job()
    def ship(order: Any) -> None: ...

    with pytest.raises(InvalidPayload, match=r"<Call ship .* of type Call cannot be stored as JSON"):
        _attempt(output=Any).completion(ship.call(order=1))
    with pytest.raises(InvalidPayload, match=r"^ship: <Call ship .* of type Call cannot be stored as JSON"):
        ship.call(order=ship.call(order=1))


@pytest.mark.parametrize("kind", [Snooze, RetryAt])
@pytest.mark.parametrize("way", ["loop", "thread", "batch"])
async def test_an_ending_that_says_nothing_is_a_failure(kind: type[Exception], way: str) -> None:
    """As of a class of the application's own that forgets its base: the attempt ends, and its slot is free again."""

    def forget(self: Exception) -> None: ...

    broken = type("Broken", (kind,), {"__init__": forget})
    with temporary_app() as app:

        async def on_the_loop() -> None:
            raise broken

        def in_a_thread() -> None:
            raise broken

        async def together(batch: Batch[int]) -> list[Exception | None]:
            return [None, broken()][: len(batch)]

        calls: list[Call[Any]]
        if way == "batch":
            job = app.job(batch=2)(together)
            calls = [job.call(1), job.call(2)]
        else:
            calls = [app.job()(on_the_loop).call() if way == "loop" else app.job()(in_a_thread).call()]
        async with app.async_client() as client:
            chains = await client.enqueue_many(calls)
            done = await adrain(app, timeout=5)
            assert (done.retried, done.completed) == (1, len(calls) - 1)
            error = (await client.get_job(chains[-1].id)).last_attempt_error
        assert error is not None
        assert error.type == "AttributeError"
        assert "Broken" in (error.traceback or "")


def test_failure_follows_the_policy() -> None:
    """Delay of the attempt, attempts of the type, final if the policy does not repeat the error."""
    attempt = _attempt(3, initial=10, jitter=0, max_attempts=7, never=KeyError)
    failure = attempt.failure(ValueError("no"))
    assert (failure.id, failure.lease_generation, failure.delay_ms, failure.is_final, failure.max_attempts) == (
        "j", 3, 40_000, False, 7,
    )  # fmt: skip
    assert attempt.failure(KeyError()).is_final


def test_failure_without_a_handler() -> None:
    """A type nobody knows has the default policy."""
    values: dict[str, Any] = dict.fromkeys(ClaimedJob._fields)
    attempt = Attempt(ClaimedJob(**values | {"id": "j", "lease_generation": 1, "attempt": 1}), None, "w1")
    assert attempt.failure(ValueError()).max_attempts == 5


def test_endings_of_cancelled_handlers() -> None:
    """Lease lost: nothing is written. Stopping: given back. Otherwise: a failure."""
    attempt = _attempt()
    attempt.cancelled = Cancellation.LEASE_LOST
    assert attempt.ending_of_cancelled(asyncio.CancelledError()) is None
    attempt.cancelled = Cancellation.STOPPING
    assert attempt.ending_of_cancelled(asyncio.CancelledError()) == Lease("j", 3)
    attempt.cancelled = Cancellation.TIMEOUT
    assert isinstance(attempt.ending_of_cancelled(TimeoutError()), Failure)
    attempt.cancelled = None
    assert isinstance(attempt.ending_of_cancelled(asyncio.CancelledError()), Failure)


class _Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


def _raised(error: BaseException) -> BaseException:
    try:
        raise error  # noqa: TRY301 - to give it a traceback
    except BaseException as caught:  # noqa: BLE001 - whatever it is
        return caught


def test_described() -> None:
    """Type, message and traceback."""
    found = describe(_raised(ValueError("no such order")))
    assert (found.type, found.message) == ("ValueError", "no such order")
    assert found.traceback is not None
    assert "in _raised" in found.traceback


def test_unprintable() -> None:
    """An exception whose own text cannot be had is still described."""
    found = describe(_raised(_Unprintable()))
    assert found.type == "_Unprintable"
    assert "unprintable" in found.message
    assert "RuntimeError" in found.message


def test_circular() -> None:
    """Causes that go round in a circle, and arguments that contain themselves."""
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    circle: list[Any] = []
    circle.append(circle)
    assert describe(_raised(first)).message == "a"
    assert describe(_raised(ValueError(circle))).message == "[[...]]"


def test_huge() -> None:
    """Cut at a limit, keeping the end, where the cause stands."""
    found = describe(_raised(ValueError("x" * 1_000_000 + "END")))
    assert len(found.message) <= 2_002
    assert found.message.startswith("…")
    assert found.message.endswith("END")
    assert found.traceback is not None
    assert len(found.traceback) <= 20_002


def test_deep_recursion() -> None:
    """A traceback of a thousand frames."""

    def forever(n: int) -> int:
        return forever(n + 1)

    try:
        forever(0)
    except RecursionError as error:
        found = describe(error)
    assert found.type == "RecursionError"
    assert found.traceback is not None


@pytest.mark.parametrize("text", ["a\x00b", "\ud800", "\udcff\x00"])
def test_text_that_no_database_keeps(text: str) -> None:
    """U+0000 and lone surrogates are spelled out."""
    message = describe(ValueError(text)).message
    assert "\x00" not in message
    assert message.encode().decode() == message
    assert message != ""


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), GeneratorExit()])
def test_exceptions_that_are_no_errors(error: BaseException) -> None:
    """Described like any other."""
    assert describe(error).type == type(error).__name__


def test_groups() -> None:
    """An exception group shows its members."""
    found = describe(_raised(ExceptionGroup("several", [ValueError("one"), KeyError("two")])))
    assert found.traceback is not None
    assert "one" in found.traceback
    assert "two" in found.traceback


def test_endings_by_exception() -> None:
    """Each of the four says something else; anything else is a plain failure."""
    attempt = _attempt(2, max_attempts=7, never=ValueError)
    when = datetime(2026, 3, 4, 5, 6, 7, 8, tzinfo=UTC)
    snoozed = attempt.ending_of_raise(Snooze(timedelta(seconds=1.5)))
    assert snoozed == Postponement("j", 3, delay_ms=1500)
    assert attempt.ending_of_raise(Snooze(until=when)) == Postponement("j", 3, until="2026-03-04T05:06:07.000008Z")
    later = attempt.ending_of_raise(RetryAt(when))
    assert isinstance(later, Failure)
    assert (later.retry_at, later.is_final, later.is_cancelled) == ("2026-03-04T05:06:07.000008Z", False, False)
    dead = attempt.ending_of_raise(DeadLetter("no"))
    assert isinstance(dead, Failure)
    assert (dead.is_final, dead.error.message) == (True, "no")
    cancelled = attempt.ending_of_raise(Cancel("no"))
    assert isinstance(cancelled, Failure)
    assert cancelled.is_cancelled
    plain = attempt.ending_of_raise(ValueError("no"))
    assert isinstance(plain, Failure)
    assert plain.is_final


def test_endings_by_return() -> None:
    """A next job continues; one that was made and not returned is a mistake; a completion of one's own is looked at."""
    attempt = _attempt(output=int)
    next_job = NextJob(JobDocument("n", "t", Raw(b"{}"), "q"))
    attempt.next_job = next_job
    continued = attempt.ending_of_return(next_job)
    assert isinstance(continued, Continuation)
    assert (continued.id, continued.lease_generation, continued.next.id) == ("j", 3, "n")
    with pytest.raises(ContinuationNotReturned):
        attempt.ending_of_return(7)
    attempt = _attempt(output=int)
    completed = attempt.ending_of_return(7)
    assert isinstance(completed, Completion)
    attempt.is_self_completed = True
    looked_at = attempt.ending_of_return("whatever")
    assert isinstance(looked_at, Failure)
    assert looked_at.error.type == "CompletionNotCommitted"


def test_who_raises_because_its_worker_stops_has_not_failed() -> None:
    """Unless it says in so many words how it wants to end."""
    attempt = _attempt()
    attempt.cancelled = Cancellation.STOPPING
    assert attempt.ending_of_raise(RuntimeError("stopped in the middle")) == attempt.lease
    assert isinstance(attempt.ending_of_raise(Snooze(60)), Postponement)
    dead = attempt.ending_of_raise(DeadLetter("hopeless"))
    assert isinstance(dead, Failure)
    assert dead.is_final


@pytest.mark.parametrize("reason", [Cancellation.LEASE_LOST, Cancellation.COMPLETED_ELSEWHERE, Cancellation.DELETED])
def test_what_is_lost_is_not_written(reason: Cancellation) -> None:
    """A request to cancel is no loss: the job is still ours to end."""
    attempt = _attempt()
    attempt.cancelled = reason
    assert attempt.ending_of_cancelled(asyncio.CancelledError()) is None
    attempt.cancelled = Cancellation.CANCELLED
    assert isinstance(attempt.ending_of_cancelled(Cancel()), Failure)
