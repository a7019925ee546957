"""Which jobs are meant: one set of fields for lists of jobs, lists of chains, and verbs on many of them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypedDict, TypeVar

from holdfast.errors import InvalidOption
from holdfast.model.clock import checked_instant
from holdfast.model.identifiers import checked_name
from holdfast.model.ids import checked_id
from holdfast.model.status import Status

T = TypeVar("T", bound=str)


class JobFilterFields(TypedDict, total=False):
    """The fields of a JobFilter, as keywords of lists."""

    ids: Iterable[str] | str | None
    chain_ids: Iterable[str] | str | None
    status: Iterable[str] | str | None
    type_name: str | None
    chain_type_name: str | None
    queue: str | None
    tenant: str | None
    partition_key: str | None
    since: datetime | None
    until: datetime | None


@dataclass(frozen=True, init=False, slots=True)
class JobFilter:
    """What a job must be like; every field that is given narrows it, None (the default of each) does not.

    Where chains are meant, `status` is that of their last jobs, and everything else is looked up in their first ones: a
    chain is found by what was enqueued.

    - `ids`: ids of jobs, one or several; of chains, where chains are meant.
    - `chain_ids`: the jobs of these chains.
    - `status`: one of the six states, or several; an empty list matches nothing.
    - `type_name`: the job's own type; `chain_type_name`: the type of its chain's first job.
    - `queue`, `tenant`, `partition_key`: exactly so.
    - `since`, `until`: enqueued at or after, and before; aware datetimes.

    >>> JobFilter(status="dead_letter", queue="mail").status
    (<Status.DEAD_LETTER: 'dead_letter'>,)
    """

    ids: tuple[str, ...] | None
    chain_ids: tuple[str, ...] | None
    status: tuple[Status, ...] | None
    type_name: str | None
    chain_type_name: str | None
    queue: str | None
    tenant: str | None
    partition_key: str | None
    since: datetime | None
    until: datetime | None

    def __init__(
        self,
        *,
        ids: Iterable[str] | str | None = None,
        chain_ids: Iterable[str] | str | None = None,
        status: Iterable[str] | str | None = None,
        type_name: str | None = None,
        chain_type_name: str | None = None,
        queue: str | None = None,
        tenant: str | None = None,
        partition_key: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> None:
        names = {
            "type_name": type_name,
            "chain_type_name": chain_type_name,
            "queue": queue,
            "tenant": tenant,
            "partition_key": partition_key,
        }
        values: dict[str, object] = {
            "ids": _several("ids", ids, checked_id),
            "chain_ids": _several("chain_ids", chain_ids, checked_id),
            "status": _several("status", status, _checked_status),
            **{option: None if name is None else checked_name(option, name) for option, name in names.items()},
            "since": None if since is None else checked_instant("since", since),
            "until": None if until is None else checked_instant("until", until),
        }
        for field, value in values.items():
            object.__setattr__(self, field, value)

    def with_ids(self, check: Callable[[object], str]) -> JobFilter:
        """The same with the ids in the form in which the app keeps them; `check` refuses those that it cannot have."""
        return replace(
            self,
            ids=None if self.ids is None else tuple(check(given) for given in self.ids),
            chain_ids=None if self.chain_ids is None else tuple(check(given) for given in self.chain_ids),
        )

    @property
    def is_empty(self) -> bool:
        """Whether it matches every job there is."""
        return self == JobFilter()

    @property
    def is_impossible(self) -> bool:
        """Whether no job can match, so that nobody needs to look."""
        return () in (self.ids, self.chain_ids, self.status)


def _several(option: str, given: object, check: Callable[[object], T]) -> tuple[T, ...] | None:
    """Sorted and each once, so that equal filters are the same filter."""
    if given is None:
        return None
    if isinstance(given, str | uuid.UUID):
        given = [given]
    elif not isinstance(given, Iterable):
        raise InvalidOption(option, given, "must be one value or a list of them")
    return tuple(sorted({check(value) for value in given}))


def _checked_status(value: object) -> Status:
    if not isinstance(value, str) or value not in {*Status}:
        raise InvalidOption("status", value, f"must be one of {', '.join(Status)}")
    return Status(value)
