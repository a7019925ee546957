"""What the two faces share: from calls and options to documents, and from answers to chains."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from holdfast.errors import InvalidOption
from holdfast.model.call import Call, EnqueueOptions, JobDocument, check_options
from holdfast.model.ids import Ids
from holdfast.model.job import Chain, Outcome
from holdfast.operations.enqueue_guarded import Enqueued, enqueue_guarded
from holdfast.operations.enqueue_jobs import enqueue_jobs
from holdfast.operations.statement import Operation

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
        self._check_ids(generated, ids)

    def _check_ids(self, generated: Iterable[str], ids: Ids) -> None:
        """Those that the caller gave: of the jobs, and of what they wait for."""
        for document, made_here in zip(self.documents, generated, strict=True):
            if document.id != made_here:
                document.id = ids.check(document.id)
                if document.id in self.given_ids:
                    raise InvalidOption(
                        "id", document.id, "is given twice; it must be different for every job of a batch"
                    )
                self.given_ids.add(document.id)
            if document.more is not None and document.more.blockers:
                document.more.blockers = [ids.check(blocker) for blocker in document.more.blockers]

    @property
    def queues(self) -> set[str]:
        return {document.queue for document in self.documents}

    def write(self, channel: str | None) -> Operation[list[Chain[Any]]]:
        """The verb; its chains are in the order of the calls."""
        if any(document.is_guarded for document in self.documents):
            results = yield from enqueue_guarded(self.documents, channel, self.given_ids)
        else:
            existing = yield from enqueue_jobs(self.documents, channel, self.given_ids)
            # An id made here that existed was sent by a try whose answer was lost: created.
            results = [
                Enqueued(document.id, existing[document.id], Outcome.KEPT)
                if document.id in existing
                else Enqueued(document.id)
                for document in self.documents
            ]
        return [
            Chain(result.id, document.type_name, result.status, result.outcome, result.superseded)
            for result, document in zip(results, self.documents, strict=True)
        ]
