"""What the two faces share: from calls and options to documents, and from answers to chains."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from holdfast.errors import InvalidOption
from holdfast.model.call import Call, EnqueueOptions, JobDocument, check_options
from holdfast.model.ids import IdGenerator
from holdfast.model.job import Chain, Outcome
from holdfast.model.status import Status
from holdfast.operations.enqueue_jobs import ExistingJob

R = TypeVar("R")


class Batch:
    """Jobs on their way: built and checked before anything is sent."""

    def __init__(self, calls: Iterable[Call[Any]], options: EnqueueOptions, new_ids: IdGenerator) -> None:
        check_options(options)
        self.calls = list(calls)
        for call in self.calls:
            if not isinstance(call, Call):
                raise InvalidOption("call", call, "must be made with your_job.call(…)")
        shared_id = options.get("id")
        if shared_id is not None and len(self.calls) > 1:
            raise InvalidOption("id", shared_id, "cannot be shared by several jobs; use call.options(id=…)")
        generated = new_ids(len(self.calls))
        self.documents: list[JobDocument] = [
            call.document(job_id, options) for call, job_id in zip(self.calls, generated, strict=True)
        ]
        self._generated = set(generated)
        if len({document.id for document in self.documents}) < len(self.documents):
            raise InvalidOption("id", "given twice", "must be different for every job of a batch")

    @property
    def queues(self) -> set[str]:
        return {document.queue for document in self.documents}

    def chains(self, existing: Sequence[ExistingJob]) -> list[Chain[Any]]:
        """In the order of the calls. An id of our own that existed was sent before, by a try whose answer was lost."""
        before = {job.id: job.status for job in existing if job.id not in self._generated}
        return [
            Chain(
                document.id,
                document.type_name,
                before.get(document.id) or Status.PENDING,
                Outcome.KEPT if document.id in before else Outcome.CREATED,
            )
            for document in self.documents
        ]
