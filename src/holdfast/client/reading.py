"""What the two faces share for reading: from what was named to ids, and when a lock can be had."""

from __future__ import annotations

import uuid
from typing import Any

from holdfast.errors import InvalidOption
from holdfast.model.ids import Ids
from holdfast.model.job import Chain, ChainRecord, Job

#: a chain, one of its jobs, or its id
AnyChain = Chain[Any] | ChainRecord | Job | str | uuid.UUID
#: a job or its id; a chain stands for its first job
AnyJob = Job | Chain[Any] | str | uuid.UUID


def chain_id_of(named: AnyChain, ids: Ids) -> str:
    """The id of the chain, in the form in which the app keeps it."""
    return ids.check(named.chain_id if isinstance(named, Job) else getattr(named, "id", named))


def job_id_of(named: AnyJob, ids: Ids) -> str:
    """The id of the job, in the form in which the app keeps it."""
    return ids.check(getattr(named, "id", named))


def refuse_lock_without_transaction(*, lock: bool, tx: object) -> None:
    """A lock lasts until its transaction ends, so there must be one that the caller ends."""
    if lock and tx is None:
        raise InvalidOption("lock", lock, "holds until a transaction ends, so it needs yours: pass tx= as well")
