"""How long finished chains are kept, and where they go then."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final, Literal, NamedTuple, Self

from holdfast.errors import InvalidOption
from holdfast.model.clock import Duration, checked_duration
from holdfast.model.payload import from_json
from holdfast.model.status import TERMINAL, Status

#: of a chain that is never removed
FOREVER: Final = "forever"
KeepFor = Duration | Literal["forever"]

_STATES: Final = ("completed", "dead_letter", "cancelled")


@dataclass(frozen=True, kw_only=True, slots=True)
class Keep:
    """For how long chains of a type, or of an app, are kept once they have ended, by how they ended.

    - `completed` (7 days), `dead_letter` (90 days), `cancelled` (30 days): a duration, or "forever"; 0 removes a chain
      within seconds of its end, unless somebody waits for it.
    - `archive` (no): whether they go to the archive then, where `get_job`, `get_chain`, `wait` and new blockers still
      find them, or are deleted.

    What is not given is the app's, and what the app does not say is as above. An operator's setting wins. A chain's
    type is that of its first job.
    """

    completed: KeepFor | None = None
    dead_letter: KeepFor | None = None
    cancelled: KeepFor | None = None
    archive: bool | None = None

    def __post_init__(self) -> None:
        for state in _STATES:
            checked_keep(state, getattr(self, state))
        if self.archive is not None and not isinstance(self.archive, bool):
            raise InvalidOption("archive", self.archive, "must be True or False")

    def over(self, other: Keep | None) -> Keep:
        """The same, with what it does not say from the other."""
        if other is None:
            return self
        given = {name: value for name in _FIELDS if (value := getattr(self, name)) is not None}
        return replace(other, **given)

    def document(self) -> dict[str, Any] | None:
        """What is stored with a type; None if it says nothing."""
        said = {name: value for name in _FIELDS if (value := getattr(self, name)) is not None}
        return {name: _stored(value) for name, value in said.items()} or None


_FIELDS: Final = (*_STATES, "archive")


def checked_keep(option: str, value: object) -> KeepFor | None:
    """A duration, "forever", or nothing said."""
    if value is None or (isinstance(value, str) and value == FOREVER):
        return value  # type: ignore[return-value]  # one of the two
    if isinstance(value, str):
        raise InvalidOption(option, value, 'must be a duration, or "forever"')
    return checked_duration(option, value)


def checked_keeps(keep: object) -> Keep | None:
    """As `@app.job(keep=…)` and `App(keep=…)` take it: a Keep, or a duration for what completed."""
    if keep is None or isinstance(keep, Keep):
        return keep
    if isinstance(keep, timedelta | int | float | str) and not isinstance(keep, bool):
        return Keep(completed=checked_keep("keep", keep))
    raise InvalidOption("keep", keep, "must be a Keep(…), or a duration for chains that completed")


class Fate(NamedTuple):
    """When a chain goes, counted from its end (None: never), and whether into the archive."""

    keep: timedelta | None
    is_archived: bool


_DEFAULTS: Final = Keep(
    completed=timedelta(days=7), dead_letter=timedelta(days=90), cancelled=timedelta(days=30), archive=False
)
_KEEP_ARCHIVE: Final = timedelta(days=365)
_KEEP_AUDIT: Final = timedelta(days=365)
#: settings that are not about chains
_OTHERS: Final = ("keep_archive", "keep_audit")


@dataclass(frozen=True, slots=True)
class Retention:
    """What holds in a database: an operator's setting for the type, his setting for all, the type's, the default.

    - `types`: what job types say; `settings`: what operators have set, by type, None for all.
    - `keep_archive`, `keep_audit` (365 days; None: for ever): for how long the archive is kept, and who did what.
    - `older_than`: instead of all this, whatever ended so long ago goes; where to, stays as it is.
    """

    types: Mapping[str, Keep] = field(default_factory=dict)
    settings: Mapping[str | None, Keep] = field(default_factory=dict)
    keep_archive: timedelta | None = _KEEP_ARCHIVE
    keep_audit: timedelta | None = _KEEP_AUDIT
    older_than: timedelta | None = None

    @classmethod
    def of(cls, rows: Iterable[tuple[str | None, str, str | bytes]]) -> Self:
        """From what `read_retention` returns."""
        types: dict[str, Keep] = {}
        settings: dict[str | None, Keep] = {}
        others: dict[str, timedelta | None] = {}
        for type_name, name, text in rows:
            value = from_json(text)
            if name == "keep":
                # A newer release may have written what this one does not know.
                types[str(type_name)] = Keep(**{key: span for key, span in value.items() if key in _FIELDS})
            elif name in _OTHERS:
                others[name] = _span(value)
            elif (key := name.removeprefix("keep_")) in _FIELDS:
                said = Keep(**{key: value})
                settings[type_name] = said.over(settings.get(type_name))
        return cls(types, settings, **others)

    def fate(self, type_name: str, status: Status | str) -> Fate:
        """Of a chain of that type that ended so."""
        layers = [self.settings.get(type_name), self.settings.get(None), self.types.get(type_name), _DEFAULTS]
        said = Keep()
        for layer in layers:
            said = said.over(layer)
        span = _span(getattr(said, Status(status).value)) if self.older_than is None else self.older_than
        return Fate(span, bool(said.archive))

    def spans(self) -> list[timedelta]:
        """Every length of time after which something may go, the longest first."""
        if self.older_than is not None:
            return [self.older_than]
        names = {*self.types, *self.settings}
        fates = (self.fate(name or "", status) for name in {*names, ""} for status in TERMINAL)
        return sorted({fate.keep for fate in fates if fate.keep is not None}, reverse=True)

    @property
    def has_archive(self) -> bool:
        """Whether anything may go into the archive."""
        return any(keep.archive for keep in (*self.types.values(), *self.settings.values()))


def _span(value: object) -> timedelta | None:
    return None if value == FOREVER else checked_duration("keep", value)


def _stored(value: object) -> object:
    if isinstance(value, str | bool):
        return value
    return checked_duration("keep", value).total_seconds()
