"""What handlers say of their durable waits, checked, and what comes of these; without I/O, for both contexts."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Any, Final, Literal, NamedTuple, TypedDict

from holdfast.errors import ChildFailed, InvalidOption, SignalTimeout
from holdfast.model.call import Call
from holdfast.model.clock import Duration, checked_duration, checked_instant, iso, milliseconds
from holdfast.model.job import Chain, Outcome
from holdfast.model.payload import PayloadCodec
from holdfast.model.status import Status
from holdfast.operations.children import Child, children_in
from holdfast.operations.read_blockers import ChildState
from holdfast.operations.save_step import SavedStep
from holdfast.operations.signal_chain import Heard

#: how long a write waits for a row that somebody has locked, or for a database that cannot be reached
_PATIENCE_SECONDS = 5.0
_FIRST_PAUSE = 0.005
_LONGEST_PAUSE = 0.2

#: of one job, however it enqueues them
MOST_CHILDREN = 10_000

#: what a child that ends without success means: it is raised, returned, or waited for until somebody has retried it
OnChildFailure = Literal["raise", "return", "wait"]
_POLICIES: Final[dict[OnChildFailure, Literal["run", "wait"]]] = {"raise": "run", "return": "run", "wait": "wait"}

#: how a step of each kind is called where it is taken for another
WORDS: Final[Mapping[str | None, str]] = {
    None: "a step",
    "sleep": "a sleep",
    "signal": "a wait for a signal",
    "child": "a child",
}


class NoDefault(Enum):
    """Told apart from every default that a handler could give."""

    TOKEN = 0


class Patience:
    """With rows that are locked and databases that cannot be reached."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._next = _FIRST_PAUSE

    @property
    def spent(self) -> float:
        return time.monotonic() - self._began

    @property
    def is_over(self) -> bool:
        return self.spent > _PATIENCE_SECONDS

    def pause(self) -> float:
        """How long to wait before the next try."""
        pause, self._next = self._next, min(self._next * 2, _LONGEST_PAUSE)
        return pause


class End(TypedDict, total=False):
    """When a wait is over in any case."""

    delay_ms: int
    until: str


def checked_sleep(delay: Duration | None, until: datetime | None) -> End:
    """One of the two."""
    if (delay is None) == (until is None):
        raise InvalidOption("delay", delay, "or until= must be given, and not both")
    if until is not None:
        return {"until": iso(checked_instant("until", until))}
    return {"delay_ms": milliseconds(checked_duration("delay", delay))}


def checked_timeout(timeout: Duration | None) -> End:
    return {} if timeout is None else {"delay_ms": milliseconds(checked_duration("timeout", timeout))}


def outcome_of(heard: Heard, codec: PayloadCodec[Any], job_id: str, signal: str, default: object) -> Any:
    """What a wait for a signal gives its handler."""
    if not heard.timed_out:
        return codec.decode(heard.payload)
    if default is NoDefault.TOKEN:
        raise SignalTimeout(job_id, signal)
    return default


# --- children ---------------------------------------------------------------------------------------------------------


class Known(NamedTuple):
    """A child that this run has enqueued, or found enqueued."""

    name: str
    codec: PayloadCodec[Any]


def checked_calls(calls: object, before: int) -> list[Call[Any]]:
    """Calls to be enqueued under one name, by a job that has so many children already."""
    if not isinstance(calls, Iterable):
        raise InvalidOption("calls", calls, "must be a list of calls; ctx.enqueue(…) takes a single one")
    found = list(calls)
    for call in found:
        if not isinstance(call, Call):
            raise InvalidOption("call", call, "must be made with your_job.call(…)")
    if before + len(found) > MOST_CHILDREN:
        why = f"would be more than {MOST_CHILDREN:,} children of one job; let some of them have children of their own"
        raise InvalidOption("calls", before + len(found), why)
    return found


def saved_chains(saved: SavedStep, calls: Sequence[Call[Any]]) -> list[Chain[Any]]:
    """The children as they were when they were enqueued."""
    children = children_in(saved.result)
    if len(children) != len(calls):
        why = f"an earlier attempt has enqueued {len(children)} under this name; give what is new a name of its own"
        raise InvalidOption("calls", len(calls), why)
    return [Chain(child.chain_id, child.type_name, Status(child.status), Outcome(child.outcome)) for child in children]


def children_of(chains: Sequence[Chain[Any]]) -> list[Child]:
    """As a step keeps them."""
    return [Child(chain.id, chain.type_name, chain.status, chain.outcome, place) for place, chain in enumerate(chains)]


def gathered(children: Sequence[object], known: Mapping[str, Known]) -> list[str]:
    """The chains of what `ctx.gather` was given: children, or one list of them."""
    if len(children) == 1 and not isinstance(children[0], Chain) and isinstance(children[0], Iterable):
        children = list(children[0])
    for child in children:
        if not isinstance(child, Chain) or child.id not in known:
            raise InvalidOption("children", child, "must be what ctx.enqueue(…) has returned in this run of the job")
    return [child.id for child in children if isinstance(child, Chain)]


def checked_policy(on_failure: object) -> Literal["run", "wait"]:
    """What the database is told of it."""
    for choice, policy in _POLICIES.items():
        if on_failure == choice:
            return policy
    raise InvalidOption("on_failure", on_failure, f"must be one of {', '.join(_POLICIES)}")


def are_over(chain_ids: Iterable[str], states: Mapping[str, ChildState], policy: Literal["run", "wait"]) -> bool:
    """Whether there is nothing left to wait for; a child that is gone will not come back."""
    for chain_id in chain_ids:
        status = states[chain_id].status if chain_id in states else None
        if status is not None and not (status.is_terminal if policy == "run" else status is Status.COMPLETED):
            return False
    return True


def results_of(
    chain_ids: Iterable[str], states: Mapping[str, ChildState], known: Mapping[str, Known], *, raises: bool
) -> tuple[Any, ...]:
    """Outputs in the order asked for; what failed is raised, or stands in its place."""
    results: list[Any] = []
    for chain_id in chain_ids:
        state = states.get(chain_id)
        name, codec = known[chain_id]
        if state is not None and state.status is Status.COMPLETED:
            results.append(codec.decode(state.output))
            continue
        error = None if state is None else state.error
        failure = ChildFailed(
            name,
            chain_id,
            None if state is None or state.status is None else str(state.status),
            None if error is None else error.type,
            None if error is None else error.message,
        )
        if raises:
            raise failure
        results.append(failure)
    return tuple(results)
