"""Every statement that a worker can send, read from its source: one that is added tomorrow is in the list."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import holdfast

_PACKAGE = Path(holdfast.__file__).parent
_ROOM = "holdfast.operations."


@cache
def _module(name: str) -> ast.Module:
    return ast.parse((_PACKAGE / "operations" / f"{name}.py").read_text())


def _imports(tree: ast.Module) -> dict[str, str]:
    """By local name, the module of operations that it comes from."""
    return {
        alias.asname or alias.name: node.module.removeprefix(_ROOM)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith(_ROOM)
        for alias in node.names
    }


def _definition(module: str, name: str) -> ast.stmt | None:
    for node in _module(module).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            return node
    return None


def _sent_by(module: str, name: str, seen: set[tuple[str, str]]) -> Iterator[str]:
    """By a function or class of operations, and by whatever it names."""
    definition = _definition(module, name)
    if definition is None or (module, name) in seen:
        return
    seen.add((module, name))
    imported = _imports(_module(module))
    for node in ast.walk(definition):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Statement":
            constants = [part.value for part in ast.walk(node.args[0]) if isinstance(part, ast.Constant)]
            yield from (value for value in constants if isinstance(value, str))
        if isinstance(node, ast.Name):
            yield from _sent_by(imported.get(node.id, module), node.id, seen)


def engine_statements(part: str = "worker") -> frozenset[str]:
    """Names of scripts; `part` is a folder of the package."""
    seen: set[tuple[str, str]] = set()
    return frozenset(
        statement
        for file in sorted((_PACKAGE / part).rglob("*.py"))
        for name, module in _imports(ast.parse(file.read_text())).items()
        for statement in _sent_by(module, name, seen)
    )
