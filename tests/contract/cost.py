"""What a statement cost PostgreSQL, from the plan that it ran."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from holdfast.operations.statement import Statement
from holdfast.sql import SqlLibrary, Style
from tests.contract.headers import parameters

_EXPLAIN = "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) "
_PYFORMAT = SqlLibrary("postgres", "holdfast", "", Style.PYFORMAT)
_NUMBERED = SqlLibrary("postgres", "holdfast", "", Style.NUMBERED)

Plan = Mapping[str, Any]
Connection = psycopg.Connection[Any]


@dataclass(frozen=True, repr=False)
class Cost:
    """`rows_read` counts rows of the job table, found or thrown away; `widest` is the busiest node of any kind.

    A visit that finds nothing counts as one row, because PostgreSQL before 18 rounds the rows per loop. `buffers`
    counts a writing part twice if the main query reads from it.
    """

    rows_read: int
    widest: int
    buffers: int
    scans_whole_table: bool
    plan: Plan

    def touched_by_scans_of(self, relation: str) -> int:
        """Buffers that finding rows of `relation` took."""
        scans = (node for node in _nodes(self.plan) if node["Node Type"].endswith("Scan"))
        return sum(_buffers(node) for node in scans if node.get("Relation Name") == relation)

    def __repr__(self) -> str:
        what = f"{self.rows_read} rows of job read, widest node {self.widest} rows, {self.buffers} buffers"
        return f"{what}\n{_drawn(self.plan)}"


def explain(connection: Connection, statement: Statement) -> Cost:
    """Run the statement as the store does, unprepared, and roll it back."""
    part = _PYFORMAT.script(statement.name, statement.literals, statement.slots).parts[0]
    values = {"now": None, **statement.parameters}
    with connection.transaction(force_rollback=True):
        cursor = connection.execute(_EXPLAIN + part.text, {name: values[name] for name in part.parameters})
        return _cost(cursor.fetchone())


class Prepared:
    """A statement prepared on a connection, as an outer driver might; each execution is rolled back."""

    def __init__(self, connection: Connection, statement: Statement) -> None:
        self._connection = connection
        script = _NUMBERED.script(statement.name, statement.literals, statement.slots)
        self._names = script.parts[0].parameters
        types = {parameter.name: parameter.type for parameter in parameters(script)}
        declared = ", ".join(types[name] for name in self._names)
        connection.execute("DEALLOCATE ALL")
        connection.execute(f"PREPARE prepared ({declared}) AS {script.parts[0].text}")

    def explain(self, statement: Statement, plan_cache_mode: str = "auto") -> Cost:
        values: Mapping[str, object] = {"now": None, **statement.parameters}
        arguments = sql.SQL(", ").join(sql.Literal(values[name]) for name in self._names)
        with self._connection.transaction(force_rollback=True):
            self._connection.execute(f"SET LOCAL plan_cache_mode = {plan_cache_mode}")
            query = sql.SQL(_EXPLAIN + "EXECUTE prepared ({})").format(arguments)
            return _cost(self._connection.execute(query).fetchone())


def _cost(row: Sequence[Any] | None) -> Cost:
    assert row is not None
    document = json.loads(row[0]) if isinstance(row[0], str) else row[0]
    plan = document[0]["Plan"]
    nodes = [node for node in _nodes(plan) if node["Actual Loops"] > 0]
    scans = [node for node in nodes if node.get("Relation Name") == "job" and node["Node Type"].endswith("Scan")]
    writes = [node for node in nodes if node is not plan and node["Node Type"] == "ModifyTable"]
    return Cost(
        rows_read=sum(max(node["Actual Loops"], _rows(node)) for node in scans),
        widest=max(map(_rows, nodes)),
        # What the main query does not read from runs after it and is not in its sum.
        buffers=sum(map(_buffers, (plan, *writes))),
        scans_whole_table=any(node["Node Type"] == "Seq Scan" for node in scans),
        plan=plan,
    )


def _nodes(plan: Plan) -> Iterator[Plan]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


def _buffers(node: Plan) -> int:
    return int(node["Shared Hit Blocks"] + node["Shared Read Blocks"])


def _rows(node: Plan) -> int:
    removed = ("Rows Removed by Filter", "Rows Removed by Join Filter", "Rows Removed by Index Recheck")
    each = node["Actual Rows"] + sum(node.get(key, 0) for key in removed)
    return int(each * node["Actual Loops"] + 0.5)


def _drawn(plan: Plan, depth: int = 0) -> str:
    names = (plan.get(key) for key in ("Subplan Name", "Node Type", "Relation Name", "Index Name"))
    line = f"{'  ' * depth}{' '.join(filter(None, names))}: expected {plan['Plan Rows']}, "
    line += f"got {plan['Actual Rows']} × {plan['Actual Loops']}, {_buffers(plan)} buffers"
    return "\n".join([line, *(_drawn(child, depth + 1) for child in plan.get("Plans", ()))])
