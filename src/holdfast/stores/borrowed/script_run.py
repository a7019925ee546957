"""Runs the parts of a script one after the other on whatever executes them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from holdfast.model.payload import from_json
from holdfast.operations.statement import Rows
from holdfast.sql import Script
from holdfast.sql.library import Part

#: the values of one part, in the order of its parameters
Values: TypeAlias = dict[str, object]


class _ScriptRun:
    """The first value of a part is a parameter of the parts after it, by the part's name.

    The result is that of the last part that has one.
    """

    def __init__(self, script: Script, parameters: Mapping[str, object]) -> None:
        self._script = script
        self._parameters = dict(parameters)
        self._rows: Rows = ()

    def values(self, part: Part) -> Values:
        return {name: self._parameters[name] for name in part.parameters}

    def receive(self, part: Part, rows: Rows | None) -> None:
        if rows is not None:
            self._rows = rows
            if rows:
                self._parameters[part.name] = rows[0][0]

    @property
    def result(self) -> Rows:
        return from_json(self._rows[0][0]) if self._script.returns_json_rows else self._rows


def run_script(script: Script, parameters: Mapping[str, object], execute: Callable[[str, Values], Rows | None]) -> Rows:
    """`execute` gives None for a statement that has no result."""
    run = _ScriptRun(script, parameters)
    for part in script.parts:
        run.receive(part, execute(part.text, run.values(part)))
    return run.result


async def run_script_async(
    script: Script, parameters: Mapping[str, object], execute: Callable[[str, Values], Awaitable[Rows | None]]
) -> Rows:
    """The same, awaited."""
    run = _ScriptRun(script, parameters)
    for part in script.parts:
        run.receive(part, await execute(part.text, run.values(part)))
    return run.result
