"""The schema as a live database describes it, as text to read and compare; names without schema and prefix."""

from __future__ import annotations

import re
import sqlite3
from typing import Any

import psycopg

_POSTGRES_COLUMNS = """
SELECT attribute.attname,
       concat_ws(' ', format_type(attribute.atttypid, attribute.atttypmod),
                 CASE WHEN attribute.attnotnull THEN 'NOT NULL' END,
                 CASE attribute.attidentity WHEN 'a' THEN 'GENERATED ALWAYS AS IDENTITY' END,
                 'DEFAULT ' || pg_get_expr(value.adbin, value.adrelid))
FROM pg_attribute AS attribute
LEFT JOIN pg_attrdef AS value ON value.adrelid = attribute.attrelid AND value.adnum = attribute.attnum
WHERE attribute.attrelid = %s AND attribute.attnum > 0 AND NOT attribute.attisdropped
ORDER BY attribute.attname
"""
_POSTGRES_TABLES = """
SELECT oid::bigint, relname, reloptions FROM pg_class
WHERE relnamespace = to_regnamespace(%s) AND relkind IN ('r', 'p') ORDER BY relname
"""
# PostgreSQL 18 lists NOT NULL here too; the columns say it already.
_POSTGRES_CHECKS = "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = %s AND contype IN ('c', 'f')"
_POSTGRES_INDEXES = """
SELECT pg_get_indexdef(pg_index.indexrelid), pg_index.indisprimary FROM pg_index WHERE pg_index.indrelid = %s
"""
_POSTGRES_OTHERS = """
SELECT concat_ws(' ', 'function', proname || '(' || pg_get_function_arguments(oid) || ')',
                 CASE WHEN prosecdef THEN 'SECURITY DEFINER' END, array_to_string(proconfig, ' '))
FROM pg_proc WHERE pronamespace = to_regnamespace(%(schema)s)
UNION ALL SELECT 'view ' || relname || ' (' || string_agg(attname, ', ' ORDER BY attnum) || ')'
          FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
          WHERE relnamespace = to_regnamespace(%(schema)s) AND relkind IN ('v', 'm') GROUP BY relname
UNION ALL SELECT 'type ' || typname FROM pg_type
          WHERE typnamespace = to_regnamespace(%(schema)s) AND typtype IN ('e', 'd')
UNION ALL SELECT 'trigger ' || tgname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
          WHERE relnamespace = to_regnamespace(%(schema)s) AND NOT tgisinternal
ORDER BY 1
"""


def postgres_catalogue(url: str, schema: str, prefix: str) -> str:
    with psycopg.connect(url) as connection:

        def column(query: str, value: Any) -> list[str]:
            return sorted(str(row[0]) for row in connection.execute(query, value).fetchall())

        lines: list[str] = []
        for oid, table, options in connection.execute(_POSTGRES_TABLES, [schema]).fetchall():
            lines += ["", f"table {table}", *(f"    with {option}" for option in options or [])]
            lines += [f"    {name} {rest}" for name, rest in connection.execute(_POSTGRES_COLUMNS, [oid]).fetchall()]
            lines += ["    " + " ".join(check.split()) for check in column(_POSTGRES_CHECKS, [oid])]
            lines += [f"    {index}" for index in column(_POSTGRES_INDEXES, [oid])]
        lines += ["", *column(_POSTGRES_OTHERS, {"schema": schema})]
    return _without_names(lines, rf'"?{schema}"?\.', prefix)


def sqlite_catalogue(connection: sqlite3.Connection, prefix: str) -> str:
    """SQLite keeps the text of each statement; an index it made by itself is shown by its columns."""
    lines: list[str] = []
    tables = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name LIKE ? ORDER BY name", [f"{prefix}%"]
    ).fetchall()
    for table, text in tables:
        lines += ["", f"table {table}{' without rowid' if text.endswith('WITHOUT ROWID') else ''}"]
        columns = connection.execute("SELECT * FROM pragma_table_info(?) ORDER BY name", [table])
        for _, name, type_, is_not_null, default, _ in columns:
            words = [name, type_, "NOT NULL" if is_not_null else "", f"DEFAULT {default}" if default else ""]
            lines.append("    " + " ".join(filter(None, words)))
        if match := re.search(r"(\w+)\s+INTEGER PRIMARY KEY( AUTOINCREMENT)?", text):
            lines.append(f"    PRIMARY KEY ({match[1]}){match[2] or ''}")
        lines += [f"    CHECK {check}" for check in _checks(text)]
        lines += [f"    {index}" for index in _sqlite_indexes(connection, table)]
    views = connection.execute(
        """SELECT entry.name || ' (' || group_concat(info.name, ', ') || ')'
           FROM sqlite_master AS entry, pragma_table_info(entry.name) AS info
           WHERE entry.type = 'view' AND entry.name LIKE ? GROUP BY entry.name ORDER BY entry.name""",
        [f"{prefix}%"],
    )
    lines += ["", *(f"view {view}" for (view,) in views)]
    return _without_names(lines, r"(?!)", prefix)


def _sqlite_indexes(connection: sqlite3.Connection, table: str) -> list[str]:
    indexes = []
    for _, name, _, origin, _ in connection.execute(f"PRAGMA index_list({table})").fetchall():
        columns = ", ".join(row[2] for row in connection.execute(f"PRAGMA index_info({name})"))
        found = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", [name]).fetchone()
        made = {"pk": f"PRIMARY KEY ({columns})", "u": f"UNIQUE ({columns})"}
        indexes.append(made.get(origin) or " ".join(found[0].split()))
    return sorted(indexes)


def _checks(text: str) -> list[str]:
    """The conditions of a table's CHECKs, by counting parentheses."""
    found = []
    for match in re.finditer(r"CHECK \(", text):
        depth, end = 1, match.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        found.append(" ".join(text[match.end() - 1 : end].split()))
    return sorted(found)


def _without_names(lines: list[str], qualifier: str, prefix: str) -> str:
    text = re.sub(qualifier, "", "\n".join(lines).strip() + "\n")
    return re.sub(rf'"?\b{prefix}(\w+)"?', r"\1", text) if prefix else text
