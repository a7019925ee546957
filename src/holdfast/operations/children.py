"""The chains that a job has enqueued by itself, and its wait for them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

import msgspec

from holdfast.errors import InvalidOption
from holdfast.model.call import Extras, JobDocument
from holdfast.model.payload import to_json
from holdfast.operations.blockers import hold_blockers
from holdfast.operations.fence import admitted
from holdfast.operations.lease import Lease
from holdfast.operations.statement import ATOMICALLY, Operation, Statement


class Child(msgspec.Struct, frozen=True):
    """A chain that a job has enqueued: what its step keeps."""

    chain_id: str
    type_name: str
    status: str
    outcome: str
    place: int = 0


children_in = msgspec.json.Decoder(list[Child]).decode


def save_children(lease: Lease, name: str, children: Sequence[Child]) -> Operation[bool]:
    """Fenced, in the transaction that enqueued them; False if somebody has the job locked just now."""
    parameters = {
        "id": lease.id,
        "lease_generation": lease.lease_generation,
        "name": name,
        "children": msgspec.json.encode(children).decode(),
    }
    rows = yield Statement("save_children", parameters)
    return admitted(lease, rows[0][0])


def await_children(
    lease: Lease, own_chain: str, children: Collection[str], on_failure: Literal["run", "wait"]
) -> Operation[bool]:
    """Fenced; False if somebody has the job locked just now. With "run" a child that has failed is waited for no more.

    No chain may wait for itself: a child that waits for the job's own chain is refused.
    """
    yield ATOMICALLY
    waits = Extras(blockers=sorted(children), on_blocker_failure=on_failure)
    parent = JobDocument(lease.id, "", msgspec.Raw(b"null"), "", more=waits)
    blocking = yield from hold_blockers([parent], waiting={lease.id: own_chain})
    unfinished = sorted(each for each in children if not blocking.is_resolved(each, on_failure))
    parameters = {
        "id": lease.id,
        "lease_generation": lease.lease_generation,
        "chains": to_json(unfinished).decode(),
        "on_failure": on_failure,
    }
    ((outcome, behind),) = yield Statement("await_children", parameters)
    if outcome == "behind":
        why = "is behind this job in its own partition key, so both would wait for ever; give it another key, or none"
        raise InvalidOption("children", behind, why)
    return admitted(lease, outcome)
