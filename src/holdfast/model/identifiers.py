"""Names that become SQL identifiers: validated by pattern here, quoted where they are used."""

from __future__ import annotations

import re

from holdfast.errors import InvalidOption

# Longest object is prefix + "worker_last_seen_idx" and the like; PostgreSQL cuts identifiers at 63 bytes silently.
_IDENTIFIER = re.compile(r"[a-z_][a-z0-9_]{0,30}")
_HINT = "must be 1–31 characters of a–z, 0–9 and _, not starting with a digit"


def checked_schema(value: object) -> str:
    """A PostgreSQL schema name."""
    return _checked("schema", value)


def checked_channel(value: object) -> str:
    """What stands before the names of notification channels."""
    return _checked("channel", value)


def checked_prefix(value: object) -> str:
    """A table prefix; may be empty."""
    return "" if value == "" else _checked("prefix", value)


def _checked(option: str, value: object) -> str:
    if not isinstance(value, str) or _IDENTIFIER.fullmatch(value) is None:
        raise InvalidOption(option, value, _HINT)
    if option == "schema" and value.startswith("pg_"):
        raise InvalidOption(option, value, "names that start with pg_ are PostgreSQL's own")
    return value


_MAX_NAME = 200


def checked_name(option: str, value: object) -> str:
    """A name kept as data (queue, job type, tenant …): any printable text up to 200 characters."""
    if not isinstance(value, str) or not value or len(value) > _MAX_NAME or not value.isprintable():
        raise InvalidOption(option, value, f"must be 1–{_MAX_NAME} printable characters")
    return value
