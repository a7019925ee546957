"""What operators may set while everything runs: for all job types, or for one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Self

import msgspec

from holdfast.errors import InvalidOption
from holdfast.model.clock import checked_duration
from holdfast.model.identifiers import checked_name
from holdfast.model.payload import from_json
from holdfast.model.retention import FOREVER, checked_keep
from holdfast.model.retry import Retry, checked_max_attempts


class SettingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A setting as it stands.

    - `type_name`: the job type for which it goes; None: for all.
    - `value`: a number, true or false, or "forever"; durations are in seconds.
    """

    name: str
    type_name: str | None = None
    value: Any
    changed_at: datetime


def _seconds(name: str, value: object) -> float:
    return checked_duration(name, value).total_seconds()


def _kept(name: str, value: object) -> float | str:
    if value is None:
        raise InvalidOption(name, value, 'must be a duration, or "forever"; unset it to go back')
    checked = checked_keep(name, value)
    return FOREVER if isinstance(checked, str) else _seconds(name, checked)


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidOption(name, value, "must be true or false")
    return value


def _of_retry(field_name: str) -> Callable[[str, object], object]:
    """As a retry policy with that value is checked."""

    def checked(name: str, value: object) -> object:
        try:
            Retry(**{field_name: value})  # type: ignore[arg-type]  # that is what is checked
        except InvalidOption as error:
            raise InvalidOption(name, value, str(error).partition(": ")[2]) from None
        return _seconds(name, value) if field_name in {"initial", "maximum"} else value

    return checked


@dataclass(frozen=True, slots=True)
class Kind:
    """How a setting is checked, what it does, and whether it may be for one type."""

    check: Callable[[str, object], object]
    does: str
    is_per_type: bool = True


KINDS: Final[Mapping[str, Kind]] = {
    "max_attempts": Kind(lambda _, value: checked_max_attempts(value), "attempts before a job becomes a dead letter"),
    "retry_initial": Kind(_of_retry("initial"), "how long the first retry waits"),
    "retry_factor": Kind(_of_retry("factor"), "by how much each further retry waits longer"),
    "retry_maximum": Kind(_of_retry("maximum"), "how long a retry waits at most"),
    "retry_jitter": Kind(_of_retry("jitter"), "the share by which waits are spread, 0 to 1"),
    "keep_completed": Kind(_kept, "how long chains are kept that completed"),
    "keep_dead_letter": Kind(_kept, "how long dead letters are kept"),
    "keep_cancelled": Kind(_kept, "how long cancelled chains are kept"),
    "archive": Kind(_flag, "whether chains go to the archive then, or for good"),
    "keep_archive": Kind(_kept, "how long the archive is kept", is_per_type=False),
    "keep_audit": Kind(_kept, "how long it is kept who did what", is_per_type=False),
}
_RETRY_FIELDS: Final = ("initial", "factor", "maximum", "jitter")


def checked_setting(name: object, type_name: object = None) -> str:
    """The key under which it is stored."""
    if not isinstance(name, str) or name not in KINDS:
        raise InvalidOption("name", name, f"is no setting; there are {', '.join(KINDS)}")
    if type_name is None:
        return name
    if not KINDS[name].is_per_type:
        raise InvalidOption("type_name", type_name, f"{name} is the same for all types")
    return f"{name}:{checked_name('type_name', type_name)}"


def checked_value(name: str, value: object) -> object:
    """As it is stored."""
    return KINDS[name].check(name, value)


def _is_valid(name: str, value: object) -> bool:
    try:
        checked_value(name, value)
    except InvalidOption:
        return False
    return True


def setting_record(key: str, value: str | bytes, changed_at: datetime) -> SettingRecord:
    """From what is stored."""
    name, _, type_name = key.partition(":")
    return SettingRecord(name=name, type_name=type_name or None, value=from_json(value), changed_at=changed_at)


@dataclass(frozen=True, slots=True)
class RetrySettings:
    """What operators have set for waits between attempts, by type; None for all types."""

    said: Mapping[str | None, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: Iterable[tuple[str, Any]]) -> Self:
        """From keys and values; what is not about retries is passed over, and what somebody wrote there by hand amiss.

        A failure that could not be written because of it would be worse than a wait of the type's own length.
        """
        said: dict[str | None, dict[str, Any]] = {}
        for key, value in settings:
            name, _, type_name = key.partition(":")
            field_name = name.removeprefix("retry_")
            if name.startswith("retry_") and field_name in _RETRY_FIELDS and _is_valid(name, value):
                said.setdefault(type_name or None, {})[field_name] = value
        return cls(said)

    def over(self, retry: Retry, type_name: str) -> Retry:
        """The policy with what was set: for the type, else for all, else its own."""
        if not self.said:
            return retry
        return replace(retry, **{**self.said.get(None, {}), **self.said.get(type_name, {})})
