"""Read one chain through its last job."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from holdfast.errors import ChainNotFound, SerializationConflict
from holdfast.model.job import ChainRecord, Job
from holdfast.operations.statement import Operation, Statement

#: a chain that goes on with its next job while we wait for its lock drops out of the answer for once
_TRIES: Final = 20


class _First(msgspec.Struct):
    id: str
    type_name: str
    created_at: datetime


_first = msgspec.json.Decoder(_First)
_job = msgspec.json.Decoder(Job)


def chain_record(chain: str | bytes, tail: str | bytes) -> ChainRecord:
    """From what `list_chains` and `get_chain` return."""
    first, last = _first.decode(chain), _job.decode(tail)
    return ChainRecord(
        id=first.id,
        type_name=first.type_name,
        status=last.status,
        output=last.output,
        error=last.last_attempt_error,
        created_at=first.created_at,
        finished_at=last.finished_at,
        job_count=last.chain_index + 1,
        tail=last,
    )


def find_chain(chain_id: str, *, lock: bool = False) -> Operation[ChainRecord | None]:
    """The chain, or None; with a lock, nobody else ends it, continues it or deletes it in the meantime."""
    if not lock:
        rows = yield Statement("get_chain", {"id": chain_id})
        return chain_record(rows[0][0], rows[0][1]) if rows else (yield from _find_archived(chain_id))
    for _ in range(_TRIES):
        rows = yield Statement("lock_chain", {"id": chain_id})
        if rows:
            return chain_record(rows[0][0], rows[0][1])
        if not (yield Statement("get_chain", {"id": chain_id})):
            return (yield from _find_archived(chain_id))
    raise SerializationConflict(f"chain {chain_id} went on whenever it was about to be locked; try again")


def _find_archived(chain_id: str) -> Operation[ChainRecord | None]:
    rows = yield Statement("get_archived_chain", {"id": chain_id})
    return chain_record(rows[0][0], rows[0][1]) if rows else None


def get_chain(chain_id: str, *, lock: bool = False) -> Operation[ChainRecord]:
    """The chain, or ChainNotFound."""
    chain = yield from find_chain(chain_id, lock=lock)
    if chain is None:
        raise ChainNotFound(chain_id)
    return chain
