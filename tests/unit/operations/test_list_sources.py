"""Which way a list takes."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.model.job_filter import JobFilter
from holdfast.operations.drive import drive
from holdfast.operations.list_chains import list_chains
from holdfast.operations.list_jobs import list_jobs
from holdfast.operations.list_sources import choose_sources
from holdfast.operations.statement import Operation, Statement

FEW, MANY = [[5_000]], [[5_001]]


def _chosen(filters: dict[str, Any], *answers: Any) -> tuple[str, ...]:
    """What is chosen when the database answers so; every answer must be asked for."""
    waiting = list(answers)

    def answer(statement: Statement) -> Any:
        assert statement.name == "count_pending"
        return waiting.pop(0)

    sources = drive(choose_sources(JobFilter(**filters)), answer)
    assert waiting == []
    return sources


@pytest.mark.parametrize(
    ("filters", "sources"),
    [
        ({}, ("by_seq",)),
        ({"queue": "mail"}, ("by_seq",)),
        ({"type_name": "x", "partition_key": "k"}, ("by_seq",)),
        ({"status": "completed"}, ("by_seq",)),
        ({"status": ["completed", "dead_letter"]}, ("by_seq",)),
        ({"status": ["completed", "pending"]}, ("by_seq",)),
        ({"tenant": "t"}, ("by_tenant",)),
        ({"tenant": "t", "status": "completed"}, ("by_tenant",)),
        ({"status": "dead_letter"}, ("dead_letter",)),
        ({"status": "dead_letter", "tenant": "t"}, ("dead_letter",)),
        ({"status": ["running", "blocked", "cancelled"]}, ("blocked", "cancelled", "running")),
        ({"ids": "a"}, ("by_id",)),
        ({"ids": "a", "status": "dead_letter", "tenant": "t"}, ("by_id",)),
        ({"chain_ids": "a", "status": "pending"}, ("by_id",)),
    ],
)
def test_without_asking(filters: dict[str, Any], sources: tuple[str, ...]) -> None:
    """What the filter says decides."""
    assert _chosen(filters) == sources


@pytest.mark.parametrize(
    ("filters", "answer", "sources"),
    [
        ({"status": "pending"}, FEW, ("pending",)),
        ({"status": "pending"}, MANY, ("by_seq",)),
        ({"status": ["pending", "blocked"]}, FEW, ("blocked", "pending")),
        ({"status": ["pending", "blocked"]}, MANY, ("by_seq",)),
        ({"status": "pending", "tenant": "t"}, MANY, ("by_tenant",)),
    ],
)
def test_pending_jobs_are_counted_first(filters: dict[str, Any], answer: Any, sources: tuple[str, ...]) -> None:
    """Few are sorted, many are met along the way."""
    assert _chosen(filters, answer) == sources


@pytest.mark.parametrize("list_", [list_jobs, list_chains])
@pytest.mark.parametrize("filters", [{"status": []}, {"ids": []}, {"chain_ids": ()}])
def test_the_impossible_is_not_asked_for(list_: Any, filters: dict[str, Any]) -> None:
    """An empty list of values matches nothing, and no statement is sent."""
    with pytest.raises(StopIteration) as end:
        next(list_(JobFilter(**filters)))
    assert end.value.value.items == []


def _statement(operation: Operation[Any], *answers: Any) -> Statement:
    statement = next(operation)
    for answer in answers:
        statement = operation.send(answer)
    return statement


def test_state_is_not_asked_for_twice() -> None:
    """A source of a state needs no filter on it; a walk does, of chains on the last job."""
    by_index = _statement(list_jobs(JobFilter(status="dead_letter", queue="q")))
    assert by_index.slots["filters"] == ("queue",)
    assert by_index.parameters == {"tenant": None, "queue": "q"}
    walking = _statement(list_jobs(JobFilter(status="pending", queue="q")), MANY)
    assert walking.slots["filters"] == ("status", "queue")
    chains = _statement(list_chains(JobFilter(status="pending", queue="q")), MANY)
    assert (chains.slots["filters"], chains.slots["tail_filters"]) == (("queue",), ("tail_status",))
