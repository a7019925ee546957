"""Flags: words on a job by which workers may leave it to others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from holdfast.errors import InvalidOption
from holdfast.model.identifiers import checked_name

_MOST_FLAGS = 100


def checked_flags(option: str, value: object) -> list[str]:
    """Names, each once, in their own order."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise InvalidOption(option, value, 'must be a list of words: ["gpu"]')
    flags = sorted({checked_name(option, flag) for flag in value})
    if len(flags) > _MOST_FLAGS:
        raise InvalidOption(option, f"{len(flags):,} flags", f"must not be more than {_MOST_FLAGS}")
    return flags
