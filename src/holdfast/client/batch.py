"""What the two faces share: from calls and options to documents, and from answers to chains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from holdfast.errors import InvalidOption, UnknownJobType
from holdfast.model.call import Call, EnqueueOptions, Extras, JobDocument, check_options, only_given
from holdfast.model.ids import Ids
from holdfast.model.job import Chain, Outcome
from holdfast.model.job_type import JobType
from holdfast.model.status import Status
from holdfast.operations.alike_jobs import AlikeJobs
from holdfast.operations.enqueue_guarded import Enqueued, enqueue_guarded
from holdfast.operations.enqueue_jobs import (
    Aliases,
    are_insertable,
    enqueue_plain,
    insert_alike,
    insert_jobs,
    may_go_alike,
)
from holdfast.operations.statement import Bulk, Operation

R = TypeVar("R")


class Batch:
    """Jobs on their way: built and checked before anything is sent."""

    def __init__(
        self, calls: Iterable[Call[Any]], options: EnqueueOptions, ids: Ids, job_types: Mapping[str, JobType]
    ) -> None:
        if options:
            check_options(options)
            options = only_given(options)
        if not isinstance(calls, Iterable):
            raise InvalidOption("calls", calls, "must be a list of calls; enqueue(…) takes a single one")
        self.calls = list(calls)
        _check_calls(self.calls, job_types)
        shared_id = options.get("id")
        if shared_id is not None and len(self.calls) > 1:
            raise InvalidOption("id", shared_id, "cannot be shared by several jobs; use call.options(id=…)")
        self._options = options
        self._generated = ids.made(len(self.calls))
        is_told = options.get("notify") is not False
        self._told = [call.is_told(options) if call.options_given else is_told for call in self.calls]
        self._woken: set[str] = set()
        self.given_ids: set[str] = set()
        self._is_guarded = False
        #: documents of these are not made before they are asked for
        self._alike = self._find_alike() if len(self.calls) > 1 else None
        self._documents: list[JobDocument] | None = None
        if self._alike is None:
            self._check_given(ids)
            self._check_special(ids)
        #: so that none of these jobs can exist already
        self._is_fresh = not self.given_ids

    @property
    def documents(self) -> list[JobDocument]:
        """One of each job."""
        if self._documents is None:
            self._documents = [
                call.document(job_id, self._options) for call, job_id in zip(self.calls, self._generated, strict=True)
            ]
        return self._documents

    def _find_alike(self) -> AlikeJobs | None:
        """All of them, if nothing but the type and the options of the whole enqueue says what they are."""
        if len({call.job_type for call in self.calls}) > 1:
            return None
        if any(call.options_given or call.defaults for call in self.calls):
            return None
        shared = self.calls[0].document(self._generated[0], self._options)
        if not are_insertable([shared]):
            return None
        return AlikeJobs(self._generated, [call.payload for call in self.calls], shared)

    def _check_special(self, ids: Ids) -> None:
        special = [(document, document.more) for document in self.documents if document.more is not None]
        if not special:
            return
        for _, more in special:
            if more.blockers:
                more.blockers = [ids.check(each, "blockers") for each in more.blockers]
        self._is_guarded = any(document.is_guarded for document, _ in special)
        if not self.given_ids and not self._is_guarded:
            _hold_behind_each_other(special)

    def _check_given(self, ids: Ids) -> None:
        """Take note of the ids that the caller gave."""
        if [document.id for document in self.documents] == self._generated:
            return
        for document, made_here in zip(self.documents, self._generated, strict=True):
            if document.id != made_here:
                document.id = ids.check(document.id)
                if document.id in self.given_ids:
                    raise InvalidOption(
                        "id", document.id, "is given twice; it must be different for every job of a batch"
                    )
                self.given_ids.add(document.id)

    @property
    def work(self) -> dict[str, int]:
        """How many jobs of which queue somebody should be told of."""
        if self._alike is not None:
            return {self._alike.shared.queue: len(self.calls)} if self.is_all_told else {}
        counts: dict[str, int] = {}
        for document, is_told in zip(self.documents, self._told, strict=True):
            if is_told:
                counts[document.queue] = counts.get(document.queue, 0) + 1
        return counts

    @property
    def woken(self) -> set[str]:
        """What else is to be told when it is written: queues that got work by that."""
        return self._woken if any(self._told) else set()

    @property
    def is_all_told(self) -> bool:
        return all(self._told)

    def write(self, channel: str | None, bulk: Bulk | None = None) -> Operation[list[Chain[Any]]]:
        """The verb; its chains are in the order of the calls. `bulk`: what the store takes.

        Made again, it may meet what an earlier try has written whose answer was lost.
        """
        is_fresh, self._is_fresh = self._is_fresh, False
        if is_fresh and self._alike is not None and may_go_alike(self._alike, bulk):
            yield from insert_alike(self._alike, channel, bulk)
            return self._created()
        if is_fresh and are_insertable(self.documents):
            yield from insert_jobs(self.documents, channel, bulk)
            return self._created()
        if self._is_guarded:
            results = yield from enqueue_guarded(
                self.documents, channel, self.given_ids, self._aliases(), woken=self._woken
            )
        else:
            existing = yield from enqueue_plain(self.documents, channel, self.given_ids, self._aliases())
            if not existing:
                return self._created()
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

    def _created(self) -> list[Chain[Any]]:
        status, outcome = Status.PENDING, Outcome.CREATED
        if self._alike is not None:
            name = self._alike.shared.type_name
            return [Chain(job_id, name, status, outcome) for job_id in self._alike.ids]
        return [Chain(document.id, document.type_name, status, outcome) for document in self.documents]

    def _aliases(self) -> Aliases:
        return {call.job_type.name: call.job_type.aliases for call in self.calls if call.job_type.aliases}


def _check_calls(calls: Iterable[object], job_types: Mapping[str, JobType]) -> None:
    kinds: set[JobType] = set()
    for call in calls:
        if not isinstance(call, Call):
            raise InvalidOption("call", call, "must be made with your_job.call(…)")
        kinds.add(call.job_type)
    for kind in kinds:
        if kind.name not in job_types:
            raise UnknownJobType(kind.name, tuple(job_types))


def _hold_behind_each_other(special: Iterable[tuple[JobDocument, Extras]]) -> None:
    """Of jobs with one partition key only the first may be claimed; nobody sees any before all are there.

    Not where a job may turn out to be there already, and to have ended.
    """
    seen: set[tuple[str, str]] = set()
    for document, more in special:
        if more.partition_key is not None:
            key = (document.queue, more.partition_key)
            more.held = more.ordering == "fifo" and key in seen
            seen.add(key)
