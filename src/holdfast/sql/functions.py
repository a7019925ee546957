"""Verbs as functions of the database: SQL users run the very statements that Python runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

_ASIDE = re.compile(r"\([^)]*\)")
_CREATED = re.compile(r"^CREATE OR REPLACE FUNCTION /\*schema\.\*/(\w+)", re.MULTILINE)
_USED = re.compile(r"/\*schema\.\*/verb_(\w+)")
_LIMIT = re.compile(r"/\*limit\*/\d+")
_PARAMETER = re.compile(r"(?<!:):([a-z_]+)\b")

#: as on our own connections: what a plan made for an empty table would still do when the table has grown
_SETTINGS = "SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off"
#: as in Python, which prepares only what says so: a join planned for a small table reads a large one from end to end,
#: and a limit that the planner does not know costs four fifths of the throughput
_CUSTOM_PLANS = " SET plan_cache_mode = force_custom_plan"


#: from the name of a verb to its header and its statements
ReadVerb = Callable[[str], tuple[Mapping[str, str], Sequence[str]]]


def verb_parts(texts: Iterable[str], read_verb: ReadVerb) -> dict[str, str]:
    """Statements that make a function `verb_NAME` of every verb that the functions in `texts` call.

    The old ones are dropped, because a result that has changed cannot be replaced; nothing but our own functions refers
    to them, and these do so by name.
    """
    names = _used(texts)
    prepared = {
        # Bodies are checked by tests; checking them again here takes longer than all the rest.
        "unchecked": "SELECT set_config('check_function_bodies', 'off', true)",
        "old": "DROP FUNCTION IF EXISTS " + _listed(f"verb_{name}" for name in names),
    }
    return prepared | {name: _verb_function(name, *read_verb(name)) for name in names}


def rights_parts(texts: Iterable[str]) -> dict[str, str]:
    """Take everybody's rights away.

    By name alone: an older form of a function that was left behind makes this fail, instead of staying open to all.
    """
    texts = list(texts)
    names = [name for text in texts for name in _CREATED.findall(text)] + [f"verb_{name}" for name in _used(texts)]
    return {"nobody": f"REVOKE ALL ON FUNCTION {_listed(names)} FROM PUBLIC"}


def _used(texts: Iterable[str]) -> list[str]:
    return sorted({name for text in texts for name in _USED.findall(text)})


def _verb_function(name: str, header: Mapping[str, str], statements: Sequence[str]) -> str:
    *before, last = statements
    columns = _declared(header["returns"])
    returns = ", ".join(f"{column} {type_}" for column, type_ in columns)
    body = ";\n".join([*before, ("RETURN QUERY " if columns else "") + last])
    parameters = [(parameter, type_.replace("json", "text")) for parameter, type_ in _declared(header["params"])]
    has_limit = _LIMIT.search(body) is not None
    is_planned_anew = has_limit or not header.get("prepared", "").startswith("yes")
    if has_limit:
        parameters.append(("limit", "integer"))
        body = _LIMIT.sub(":limit", body)
    places = {parameter: place for place, (parameter, _) in enumerate(parameters, 1)}
    body = _PARAMETER.sub(lambda match: f"${places[match[1]]}", body)
    given = ", ".join(f'"{parameter}" {type_} DEFAULT NULL' for parameter, type_ in parameters)
    return (
        f"CREATE FUNCTION /*schema.*/verb_{name}({given}) RETURNS {f'TABLE ({returns})' if columns else 'void'}\n"
        f"LANGUAGE plpgsql {_SETTINGS}{_CUSTOM_PLANS if is_planned_anew else ''} AS $verb$\n"
        f"#variable_conflict use_column\nBEGIN\n{body};\nEND\n$verb$"
    )


def _declared(field: str) -> list[tuple[str, str]]:
    text = _ASIDE.sub("", field).strip()
    if text in ("none", "nothing"):
        return []
    return [(name, type_) for name, type_ in (entry.split() for entry in text.split(","))]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"/*schema.*/{name}" for name in names)
