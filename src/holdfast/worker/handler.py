"""A registered function, ready to be called by the engine."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from holdfast.model.job_type import JobType


@dataclass(frozen=True, slots=True)
class Handler:
    """A job type with the function that does its work."""

    job_type: JobType
    function: Callable[..., Any]
    is_async: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_async", inspect.iscoroutinefunction(self.function))
