"""What the two faces share for completing from outside: from outputs and calls to what the database is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.client.batch import Batch
from holdfast.errors import InvalidOption
from holdfast.model.call import Call, check_continuation
from holdfast.model.ids import Ids
from holdfast.model.job_type import JobType
from holdfast.model.payload import PayloadCodec
from holdfast.operations.complete_outside import OutsideCompletion


def outside_completion(
    target_id: str, outputs: Sequence[object], ids: Ids, job_types: Mapping[str, JobType], *, is_chain: bool
) -> OutsideCompletion:
    """Calls, each the next job of the chain, and after them an output; one of the two may be missing."""
    *before, last = outputs or (None,)
    for output in before:
        if not isinstance(output, Call):
            raise InvalidOption("outputs", output, "ends the chain, so it must be the last; before it come calls")
    calls = [output for output in (*before, last) if isinstance(output, Call)]
    for call in calls:
        check_continuation(call)
    documents = Batch(calls, {}, ids, job_types).documents
    for document in documents:
        if document.more is not None:
            document.more.deduplication_key = None  # the chain's key is that of its first job
    return OutsideCompletion(
        target_id,
        is_chain,
        documents,
        None if isinstance(last, Call) else lambda type_name: _encoded(last, job_types.get(type_name), type_name),
    )


def _encoded(output: object, known: JobType | None, type_name: str) -> str | None:
    """As its handler's output would be stored; of a type that this app does not know, any JSON will do."""
    codec: PayloadCodec[Any] = PayloadCodec(type_name, Any) if known is None else known.output
    if output is None and codec.accepts_null:
        return None
    return codec.encode(output).decode()
