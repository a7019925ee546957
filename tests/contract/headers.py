"""What the header of a `.sql` file declares."""

from __future__ import annotations

import re
from typing import NamedTuple

from holdfast.sql import Script

_ASIDE = re.compile(r"\([^)]*\)")


class Declared(NamedTuple):
    """A parameter or a result column."""

    name: str
    type: str


def parameters(script: Script) -> list[Declared]:
    return _parse(script.header["params"])


def columns(script: Script) -> list[Declared]:
    return _parse(script.header["returns"].removeprefix("json rows of "))


def _parse(field: str) -> list[Declared]:
    text = _ASIDE.sub("", field).strip()
    return [] if text in ("none", "fragments") else [Declared(*entry.split()) for entry in text.split(",")]
