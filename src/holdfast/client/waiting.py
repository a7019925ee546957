"""What one wait for a chain knows: whom it waits for, for how long, and what to make of what it sees."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

from holdfast.client.reading import AnyChain, chain_id_of
from holdfast.errors import (
    ChainCancelled,
    ChainDeleted,
    ChainFailed,
    ChainNotCommitted,
    ChainNotFound,
    InvalidPayload,
    WaitRefused,
    WaitTimeout,
)
from holdfast.model.clock import Duration, checked_duration
from holdfast.model.ids import Ids
from holdfast.model.job import Chain, JobError
from holdfast.model.job_type import JobType
from holdfast.model.payload import from_json
from holdfast.model.running import running_job
from holdfast.model.status import Status
from holdfast.operations.look_at_chains import Sight

#: a wait this short is not worth a thread and a listener: the waiter looks himself, a few times
_ALONE_SECONDS = 0.15
_FIRST_PAUSE, _GROWTH, _LONGEST_PAUSE = 0.005, 2, 0.025
#: so many may do that at once
_ALONE_MOST = 8

_error = msgspec.json.Decoder(JobError)


class Wait:
    """One wait; made before anything is sent, so it refuses what can be refused."""

    def __init__(self, chain: AnyChain, timeout: Duration | None, ids: Ids, *, is_in_handler: bool = False) -> None:
        if (job_id := running_job()) is not None or is_in_handler:
            raise WaitRefused(job_id)
        self.chain_id = chain_id_of(chain, ids)
        self._timeout = None if timeout is None else checked_duration("timeout", timeout).total_seconds()
        self._began = time.monotonic()
        self._next_pause = _FIRST_PAUSE
        self._is_tentative = isinstance(chain, Chain) and chain.is_tentative
        #: an enqueue that returned without tx= has committed
        self._was_there = isinstance(chain, Chain) and not chain.is_tentative
        self._sight = Sight(self.chain_id, None)

    def see(self, sight: Sight | None) -> None:
        """The chain as it stands; None = nothing new."""
        if sight is not None:
            self._was_there |= sight.status is not None
            self._sight = sight

    @property
    def seconds_left(self) -> float | None:
        """None = for ever."""
        return None if self._timeout is None else max(0.0, self._began + self._timeout - time.monotonic())

    @property
    def goes_on(self) -> bool:
        return not self._sight.is_over and self.seconds_left != 0

    def pause_alone(self, crowd: int) -> float | None:
        """How long to sleep before the next look; None = no more looks of one's own."""
        waited = time.monotonic() - self._began
        if not self.goes_on or waited > _ALONE_SECONDS or crowd > _ALONE_MOST:
            return None
        pause, self._next_pause = self._next_pause, min(self._next_pause * _GROWTH, _LONGEST_PAUSE)
        left = self.seconds_left
        return pause if left is None else min(pause, left)

    def result(self, job_types: Mapping[str, JobType]) -> Any:
        """The output, or the error that tells what became of the chain instead.

        As the type of the job declares it that ended the chain; where this app does not know that one, as the chain's
        type does if it fits, else plain JSON.
        """
        sight = self._sight
        match sight.status:
            case None:
                raise self._missing()
            case Status.COMPLETED:
                return _output(sight, job_types)
            case Status.DEAD_LETTER:
                raise ChainFailed(self.chain_id, sight.job_id or "", "is a dead letter", _cause(sight))
            case Status.CANCELLED:
                raise ChainCancelled(self.chain_id, sight.job_id or "", "was cancelled", _cause(sight))
            case _:
                raise WaitTimeout(self.chain_id, self._timeout or 0.0, sight.status)

    def _missing(self) -> ChainNotFound | ChainDeleted:
        if self._was_there:
            return ChainDeleted(self.chain_id)
        return ChainNotCommitted(self.chain_id) if self._is_tentative else ChainNotFound(self.chain_id)


def _output(sight: Sight, job_types: Mapping[str, JobType]) -> Any:
    text = "null" if sight.output is None else sight.output
    if (known := job_types.get(sight.type_name or "")) is not None:
        return known.output.decode(text)
    if (first := job_types.get(sight.chain_type_name or "")) is not None:
        with suppress(InvalidPayload):
            return first.output.decode(text)
    return from_json(text)


def _cause(sight: Sight) -> tuple[str | None, str | None, str | None]:
    if sight.error is None:
        return None, None, None
    error = _error.decode(sight.error)
    return error.type, error.message, error.traceback
