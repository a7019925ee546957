"""What the two faces share: from calls and options to documents, and from answers to chains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from holdfast.errors import InvalidOption
from holdfast.model.call import Call, EnqueueOptions, JobDocument, check_options
from holdfast.model.ids import Ids
from holdfast.model.job import Chain, Outcome
from holdfast.model.status import Status

R = TypeVar("R")


class Batch:
    """Jobs on their way: built and checked before anything is sent."""

    def __init__(self, calls: Iterable[Call[Any]], options: EnqueueOptions, ids: Ids) -> None:
        check_options(options)
        if not isinstance(calls, Iterable):
            raise InvalidOption("calls", calls, "must be a list of calls; enqueue(…) takes a single one")
        self.calls = list(calls)
        for call in self.calls:
            if not isinstance(call, Call):
                raise InvalidOption("call", call, "must be made with your_job.call(…)")
        shared_id = options.get("id")
        if shared_id is not None and len(self.calls) > 1:
            raise InvalidOption("id", shared_id, "cannot be shared by several jobs; use call.options(id=…)")
        generated = ids.make(len(self.calls))
        if generated:
            ids.check(generated[0])
        self.documents: list[JobDocument] = [
            call.document(job_id, options) for call, job_id in zip(self.calls, generated, strict=True)
        ]
        self.given_ids: set[str] = set()
        for document, made_here in zip(self.documents, generated, strict=True):
            if document.id != made_here:
                document.id = ids.check(document.id)
                if document.id in self.given_ids:
                    raise InvalidOption(
                        "id", document.id, "is given twice; it must be different for every job of a batch"
                    )
                self.given_ids.add(document.id)

    @property
    def queues(self) -> set[str]:
        return {document.queue for document in self.documents}

    def chains(self, existing: Mapping[str, Status]) -> list[Chain[Any]]:
        """In the order of the calls. An id made here that existed was sent by a try whose answer was lost: created."""
        return [
            Chain(
                document.id,
                document.type_name,
                existing.get(document.id, Status.PENDING),
                Outcome.KEPT if document.id in existing else Outcome.CREATED,
            )
            for document in self.documents
        ]
