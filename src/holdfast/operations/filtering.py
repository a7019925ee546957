"""From a JobFilter to the fragments of `job_fragments.sql` and their parameters."""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime

from holdfast.model.clock import iso
from holdfast.model.job_filter import JobFilter
from holdfast.model.payload import to_json


def filter_parameters(chosen: JobFilter) -> dict[str, object]:
    """Parameters by the names of their fragments: put the keys into the slot `filters`."""
    given = {field.name: getattr(chosen, field.name) for field in fields(chosen)}
    return {name: _sent(value) for name, value in given.items() if value is not None}


def _sent(value: object) -> object:
    if isinstance(value, datetime):
        return iso(value)
    return to_json(value).decode() if isinstance(value, tuple) else value
