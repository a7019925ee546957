"""Calling a `def` handler, in whatever thread or process this is; and what the ways to call share."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from holdfast.errors import DatabaseUnavailable, HoldfastError, InvalidPayload, UnfitOutcomes
from holdfast.model.running import running
from holdfast.operations.read_blockers import read_blockers
from holdfast.worker.attempt import Attempt, Ending, Written
from holdfast.worker.batch import Item, SyncBatch
from holdfast.worker.equipment import SyncEquipment
from holdfast.worker.handler import Handler
from holdfast.worker.hooks import ErrorHook
from holdfast.worker.sync_context import SyncContext

_log = logging.getLogger("holdfast.worker")


class Interrupted(BaseException):
    """Raised in the middle of a handler that should end; not an Exception, so that few handlers swallow it."""


def call(attempts: Sequence[Attempt], handler: Handler, equipment: SyncEquipment, hook: ErrorHook) -> Sequence[Ending]:
    """Run to the end; outputs are encoded here too, and whatever is raised becomes an ending."""
    if handler.batch is not None:
        return _call_batch(attempts, handler, equipment, hook)
    attempt = attempts[0]
    try:
        arguments = arguments_of(attempt, handler)
        context = None
        if handler.needs_context:
            if attempt.job.has_blockers:
                _read_blockers(attempt, equipment)
            context = SyncContext(attempt, equipment)
        attempt.is_called = True
        with running(attempt.job.id):
            return [attempt.ending_of_return(handler.invoke(context, arguments))]
    except Interrupted:
        raise
    except BaseException as error:  # noqa: BLE001 - SystemExit in a handler fails the job, not the worker
        return [ending_of_raise(attempt, error, hook)]


def _call_batch(
    attempts: Sequence[Attempt], handler: Handler, equipment: SyncEquipment, hook: ErrorHook
) -> Sequence[Ending]:
    endings: dict[Attempt, Ending] = {}
    found = acceptable(attempts, handler, endings, hook)
    wanted = [attempt for attempt, _ in found]
    if wanted:
        try:
            items = []
            for attempt, argument in found:
                if attempt.job.has_blockers:
                    _read_blockers(attempt, equipment)
                items.append(Item(argument, SyncContext(attempt, equipment)))
            call_begins(wanted)
            with running(wanted[0].job.id):
                outcomes = handler.invoke(SyncBatch(items, equipment.state), {})
            endings |= endings_of_outcomes(wanted, outcomes, hook)
        except Interrupted:
            raise
        except BaseException as error:  # noqa: BLE001 - as above
            endings |= {attempt: ending_of_raise(attempt, error, hook) for attempt in wanted}
    # Nothing is left to say of those whose time was up.
    return [endings.get(attempt) for attempt in attempts]


def _read_blockers(attempt: Attempt, equipment: SyncEquipment) -> None:
    with giving_back():
        attempt.blockers = equipment.store.run(lambda: read_blockers(attempt.job.id), read_only=True)


def leave_if_forked(pid: int) -> None:
    """End the process if it is not this one: what a handler forks has no part in what comes after the handler.

    It has no other thread, so it would wait for ever; and every connection is its parent's.
    """
    if os.getpid() == pid:
        return
    _log.warning("a process that a handler has forked came out of the handler; it ends")
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(0)


# --- for every kind ---------------------------------------------------------------------------------------------------


class NotStarted(Exception):
    """The handler was not called: its input is not what it takes (then `is_refused`), or could not be read."""

    def __init__(self, error: HoldfastError, *, is_refused: bool) -> None:
        super().__init__(str(error))
        self.error = error
        self.is_refused = is_refused


@contextmanager
def giving_back() -> Iterator[None]:
    """What a handler needs cannot be read: the job is as good as never claimed."""
    try:
        yield
    except DatabaseUnavailable as error:
        raise NotStarted(error, is_refused=False) from error


def arguments_of(attempt: Attempt, handler: Handler) -> Any:
    """What the handler is called with, as its signature says."""
    try:
        return handler.job_type.signature.decode(attempt.job.input)
    except InvalidPayload as error:
        _log.warning("job %s: %s; put back for a worker that accepts it", attempt.job.id, error)
        raise NotStarted(error, is_refused=True) from error


def acceptable(
    attempts: Iterable[Attempt], handler: Handler, endings: dict[Attempt, Ending], hook: ErrorHook
) -> list[tuple[Attempt, Any]]:
    """The jobs of a batch with their inputs; those that cannot be read are put into `endings`."""
    found = []
    for attempt in attempts:
        try:
            found.append((attempt, arguments_of(attempt, handler)))
        except Exception as error:  # noqa: BLE001 - what the application's own types raise fails this job alone
            endings[attempt] = ending_of_raise(attempt, error, hook)
    return found


def call_begins(attempts: Iterable[Attempt]) -> None:
    """From here on these jobs are started."""
    for attempt in attempts:
        attempt.is_called = True


def ending_of_raise(attempt: Attempt, error: BaseException, hook: ErrorHook) -> Written:
    """What a handler's exception says, or that it was never called."""
    try:
        if isinstance(error, NotStarted):
            return attempt.refusal(error.error) if error.is_refused else attempt.lease
        ending = attempt.ending_of_raise(error)
    except Exception as broken:  # noqa: BLE001 - such as of a Snooze whose class forgets to call that one's __init__
        error, ending = broken, attempt.failure(broken)
    hook(attempt, ending, error)
    return ending


def endings_of_outcomes(attempts: Sequence[Attempt], outcomes: object, hook: ErrorHook) -> dict[Attempt, Ending]:
    """What a batch handler returned: an output or an exception for each of its jobs, or None for all done."""
    if outcomes is None:
        outcomes = [None] * len(attempts)
    if not isinstance(outcomes, Sequence) or isinstance(outcomes, str | bytes) or len(outcomes) != len(attempts):
        raise UnfitOutcomes(len(attempts), outcomes)
    endings: dict[Attempt, Ending] = {}
    for attempt, outcome in zip(attempts, outcomes, strict=True):
        if attempt.is_late:
            continue  # its time was up, whatever came of it
        try:
            if isinstance(outcome, BaseException):
                raise outcome  # noqa: TRY301 - one way for both
            endings[attempt] = attempt.ending_of_return(outcome)
        except BaseException as error:  # noqa: BLE001 - as above
            endings[attempt] = ending_of_raise(attempt, error, hook)
    return endings
