"""Reads `.sql` files, fills in identifiers, and renders parameters in a driver's style."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache, cached_property, partial
from importlib.resources import files
from importlib.resources.abc import Traversable

from holdfast.sql.functions import rights_parts, verb_parts

_PART = re.compile(r"^-- part: (\w+)$", re.MULTILINE)
_CONDITION = re.compile(r"^-- if: (\w+(?: or \w+)*)(?:; else (\w+))?$", re.MULTILINE)
_PARAMETER = re.compile(r"(?<!:):([a-z_]+)\b")
_COMMENT = re.compile(r"^--.*\n?", re.MULTILINE)
_IDENTIFIER = re.compile(r"/\*(schema\.|name|schema|bare|role)\*/(\w+)")
_CHANNEL = re.compile(r"/\*channel\*/holdfast")
_ID_TYPE = re.compile(r"/\*id\*/uuid")
_LITERAL = re.compile(r"/\*(limit)\*/\d+")
_ROWS = re.compile(r"/\*rows\*/(\([?, ]+\))")
_SLOT = re.compile(r"/\*(filters|tail_filters|order|status_order|tenant_order|sources)\*/[\w., ]+")
_DOCUMENT = re.compile(r"/\*document\*/[\w.]+")
_SHARED = re.compile(r"/\*(moment|microseconds)\*/\w+\(\)|/\*(taste|usual|marks)\*/(\w+)")
_SECTION = re.compile(r"^-- with: (\w+)$(.*?)^-- end$", re.MULTILINE | re.DOTALL)
#: what lists are composed of, and what many statements have in common
_FRAGMENTS, _COMMON = "job_fragments", "common/fragments"
#: of PostgreSQL's names, in bytes; what is longer it cuts without a word
_LONGEST_NAME = 63
_GENERATED = ("functions/verbs", "functions/rights")
_BETWEEN = {"filters": " AND ", "tail_filters": " AND ", "sources": " UNION ALL "}


class Style(Enum):
    """How a driver writes parameters."""

    NAMED = "named"  # sqlite3: :name
    PYFORMAT = "pyformat"  # psycopg: %(name)s
    NUMBERED = "numbered"  # asyncpg: $1


@dataclass(frozen=True, slots=True)
class Part:
    """One statement of a script.

    - `needs` (nothing): where all of these parameters are empty the statement changes nothing and is not sent: its
      value is then that of the parameter `otherwise`, or an empty list. That only saves time.
    """

    name: str
    text: str
    parameters: tuple[str, ...]
    needs: tuple[str, ...] = ()
    otherwise: str | None = None
    encoded: bytes = field(init=False)
    is_pragma: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "encoded", self.text.encode())
        object.__setattr__(self, "is_pragma", self.text.startswith("PRAGMA"))


@dataclass(frozen=True)
class Script:
    """The statements of one verb, in the order they run, and what its header promises."""

    name: str
    header: Mapping[str, str]
    parts: tuple[Part, ...]

    @cached_property
    def is_read_only(self) -> bool:
        return self.header.get("concurrency", "").startswith("read only")

    @cached_property
    def is_prepared(self) -> bool:
        return self.header.get("prepared", "").startswith("yes")

    @cached_property
    def returns_json_rows(self) -> bool:
        return self.header.get("returns", "").startswith("json rows")


@dataclass(frozen=True)
class SqlLibrary:
    """All scripts of one dialect, for one schema and prefix, in one parameter style."""

    dialect: str
    schema: str
    prefix: str
    style: Style
    id_type: str = "uuid"
    #: prefix of the notification channels
    channel: str = "holdfast"
    _cache: dict[tuple[object, ...], Script] = field(default_factory=dict, repr=False, compare=False)

    def script(
        self, name: str, literals: Mapping[str, int] | None = None, slots: Mapping[str, tuple[str, ...]] | None = None
    ) -> Script:
        """The rendered script of a verb.

        `literals` are numbers that must not be parameters, how often rows are repeated, and which sections (from
        `-- with: NAME` to `-- end`) are there; `slots` name the fragments that fill filters, order and sources. A slot
        reaches to the end of its line; left alone, what stands there holds.
        """
        key: tuple[object, ...] = (name,)
        if literals or slots:
            key = (name, *sorted((literals or {}).items()), *sorted((slots or {}).items()))
        script = self._cache.get(key)
        if script is None:
            if len(self._cache) > 500:  # noqa: PLR2004 - literals vary; forgetting now and then is enough
                self._cache.clear()
            script = self._cache[key] = self._render(name, literals or {}, slots or {})
        return script

    def migrations(self) -> list[Script]:
        """Every migration of the dialect, oldest first."""
        folder = _folder(self.dialect) / "migrations"
        names = sorted(entry.name.removesuffix(".sql") for entry in folder.iterdir() if entry.name.endswith(".sql"))
        return [self.script(f"migrations/{name}") for name in names]

    def functions(self) -> list[Script]:
        """What makes the functions of the database, in this order; nothing on SQLite, which has none."""
        names = _function_files(self.dialect)
        return [self.script(name) for name in ("functions/verbs", *names, "functions/rights", "roles/grant") if names]

    def _generated(self, name: str) -> dict[str, str]:
        texts = _function_files(self.dialect).values()
        return rights_parts(texts) if name == "functions/rights" else verb_parts(texts, self._read_verb)

    def _read_verb(self, name: str) -> tuple[dict[str, str], list[str]]:
        raw = _read(self.dialect, name)
        return _header(raw), [_COMMENT.sub("", text).strip().removesuffix(";") for _, text in _split(raw)]

    def _render(self, name: str, literals: Mapping[str, int], slots: Mapping[str, tuple[str, ...]]) -> Script:
        if name in _GENERATED:
            return Script(name, {}, tuple(self._part(*part, {}) for part in self._generated(name).items()))
        raw = _read(self.dialect, name)
        is_migration = name.startswith("migrations/")
        header = _header(raw)
        texts = dict(_split(raw))
        if slots or "/*document*/" in raw:
            fragments = {
                part: _with_common(self.dialect, text) for part, text in _fragments(self.dialect, _FRAGMENTS).items()
            }
            filled = {
                slot: _BETWEEN.get(slot, ", ").join(
                    f"({fragments[choice]})" if slot.endswith("filters") else fragments[choice] for choice in choices
                )
                for slot, choices in slots.items()
            }
            texts = {
                part: _DOCUMENT.sub(
                    lambda _: fragments["document"],
                    _SLOT.sub(lambda match: filled.get(match[1]) or match[0], text),
                )
                for part, text in texts.items()
            }
        return Script(
            name,
            header,
            tuple(self._part(part, text, literals, is_migration=is_migration) for part, text in texts.items()),
        )

    def _part(self, name: str, text: str, literals: Mapping[str, int], *, is_migration: bool = False) -> Part:
        text = _SECTION.sub(lambda match: match[2] if literals.get(match[1]) else "", text)
        condition = _CONDITION.search(text)
        text = _COMMENT.sub("", text).strip().removesuffix(";")
        text = _IDENTIFIER.sub(partial(self._identifier, is_migration=is_migration), text)
        text = _ID_TYPE.sub(self.id_type, text)
        text = _CHANNEL.sub(self.channel, text)
        text = _LITERAL.sub(lambda match: str(int(literals[match[1]])), text)
        text, has_rows = _ROWS.subn(lambda match: ", ".join([match[1]] * literals["rows"]), text)
        parameters: list[str] = []

        def render(match: re.Match[str]) -> str:
            if match[1] not in parameters:
                parameters.append(match[1])
            if self.style is Style.NUMBERED:
                return f"${parameters.index(match[1]) + 1}"
            if has_rows:  # drivers take values by their place or by name, not both; these come first
                return f"?{parameters.index(match[1]) + 1}"
            return f"%({match[1]})s" if self.style is Style.PYFORMAT else match[0]

        if self.style is Style.PYFORMAT:
            text = text.replace("%", "%%")
        text = _PARAMETER.sub(render, text)
        if condition is None:
            return Part(name, text, tuple(parameters))
        return Part(name, text, tuple(parameters), tuple(condition[1].split(" or ")), condition[2])

    def _identifier(self, match: re.Match[str], *, is_migration: bool) -> str:
        kind, name = match.groups()
        if kind == "schema":
            return f'"{self.schema}"'
        if kind == "bare":
            return f"{self.prefix}{name}"
        if kind == "role":
            return f'"{role_name(self.schema, self.prefix, name)}"'
        quoted = f'"{self.prefix}{name}"'
        if kind != "schema.":
            return quoted
        if self.dialect == "postgres":
            return f'"{self.schema}".{quoted}'
        # On a borrowed connection the TEMP table of that name would come first; CREATE INDEX takes no schema there.
        return quoted if is_migration else f"main.{quoted}"


def role_name(schema: str, prefix: str, name: str) -> str:
    """`SCHEMA_PREFIXname`; where PostgreSQL would cut that, the front is cut and told apart by a hash instead."""
    whole = f"{schema}_{prefix}{name}"
    if len(whole.encode()) <= _LONGEST_NAME:
        return whole
    behind = f"_{hashlib.sha256(f'{schema}_{prefix}'.encode()).hexdigest()[:8]}_{name}"
    front = f"{schema}_{prefix}".encode()[: _LONGEST_NAME - len(behind)].decode(errors="ignore")
    return front + behind


def verbs(dialect: str) -> list[str]:
    """The names of all scripts of a dialect, migrations aside."""
    return sorted(
        entry.name.removesuffix(".sql") for entry in _folder(dialect).iterdir() if entry.name.endswith(".sql")
    )


def _function_files(dialect: str) -> dict[str, str]:
    folder = _folder(dialect) / "functions"
    if not folder.is_dir():
        return {}
    names = sorted(f"functions/{entry.name.removesuffix('.sql')}" for entry in folder.iterdir())
    return {name: _read(dialect, name) for name in names}


def _folder(dialect: str) -> Traversable:
    return files("holdfast.sql") / dialect


def _read(dialect: str, name: str) -> str:
    """A file's text, with what it has in common with others filled in."""
    return _with_common(dialect, (_folder(dialect) / f"{name}.sql").read_text(encoding="utf-8"))


def _with_common(dialect: str, text: str) -> str:
    def fill(match: re.Match[str]) -> str:
        common = _with_common(dialect, _fragments(dialect, _COMMON)[match[1] or match[2]])
        return re.sub(r"\bjob\.", f"{match[3]}.", common) if match[3] else common

    return _SHARED.sub(fill, text)


@cache
def _fragments(dialect: str, name: str) -> dict[str, str]:
    raw = (_folder(dialect) / f"{name}.sql").read_text(encoding="utf-8")
    return {part: _COMMENT.sub("", text).strip() for part, text in _split(raw)}


def _split(raw: str) -> list[tuple[str, str]]:
    """Parts by name; what stands before the first marker is a part too if it holds a statement."""
    pieces = _PART.split(raw)
    found = list(zip(pieces[1::2], pieces[2::2], strict=True))
    first = _COMMENT.sub("", pieces[0]).strip()
    return [("first", pieces[0]), *found] if first else found


def _header(raw: str) -> dict[str, str]:
    """The fields of the comment block at the top: `-- field: value`, continued by indented lines."""
    fields: dict[str, str] = {}
    current = ""
    for line in raw.splitlines():
        if not line.startswith("--") or line.startswith("-- part:"):
            break
        if match := re.match(r"-- (\w[\w ]*): (.*)", line):
            current = match[1]
            fields[current] = match[2]
        elif line.startswith("--   ") and current:
            fields[current] += " " + line[5:]
    return fields
