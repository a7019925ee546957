"""What is said to a chain, and how its jobs hear it."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from holdfast.errors import AlreadyFinished, ChainNotFound, SerializationConflict
from holdfast.model.control import ControlOutcome
from holdfast.operations.control import Orders, lock_jobs
from holdfast.operations.fence import admitted
from holdfast.operations.lease import Lease
from holdfast.operations.statement import ATOMICALLY, Operation, Statement
from holdfast.operations.suspend_jobs import wake_signalled


class Heard(msgspec.Struct, frozen=True):
    """What came of a wait for a signal: its payload, still JSON, or that the time was over."""

    payload: msgspec.Raw = msgspec.Raw(b"null")
    timed_out: bool = False


_heard = msgspec.json.Decoder(Heard)


class Taken(NamedTuple):
    """An answer of the database; None = no signal has come, and there is time."""

    heard: Heard | None


def signal_chain(chain_id: str, name: str, payload: str) -> Operation[set[str]]:
    """For the chain's jobs, one of which may be waiting; returns the queues that got work by it.

    The lock on the chain's last job is what a job that begins to wait needs as well.
    """
    yield ATOMICALLY
    targets = yield from lock_jobs([chain_id], Orders(is_chain=True))
    if chain_id in targets.missing:
        if targets.missing[chain_id].outcome is ControlOutcome.LOCKED:
            raise SerializationConflict(f"chain {chain_id} went on whenever it was about to be locked; try again")
        raise ChainNotFound(chain_id)
    job = targets.jobs[chain_id]
    if job.status.is_terminal:
        raise AlreadyFinished(job.id, job.status)
    yield Statement("send_signal", {"id": job.chain_id, "name": name, "payload": payload})
    return (yield from wake_signalled([job.id]))


def take_signal(lease: Lease, name: str, signal: str) -> Operation[Taken | None]:
    """Fenced; None if somebody has the job locked just now. Asked again, it gives the same signal."""
    parameters = {"id": lease.id, "lease_generation": lease.lease_generation, "name": name, "signal": signal}
    ((outcome, result),) = yield Statement("take_signal", parameters)
    if not admitted(lease, outcome):
        return None
    return Taken(None if result is None else heard_in(result))


def heard_in(result: str | bytes | msgspec.Raw) -> Heard:
    """As a step keeps it."""
    return _heard.decode(result)
