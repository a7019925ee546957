"""Deduplication: at most one chain of a type holds a key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from holdfast.errors import InvalidOption
from holdfast.model.clock import Duration, checked_duration

Scope = Literal["pending", "unfinished", "forever"]
OnConflict = Literal["keep", "replace", "replace_keep_schedule", "reject"]

_LONGEST_KEY = 500


@dataclass(frozen=True, slots=True)
class Dedup:
    """Which chains count as the same, and what happens to the second one; a plain string is `Dedup(string)`.

    - `key`: compared within one job type.
    - `scope` ("unfinished"): how long a chain holds the key: "pending" until it is first claimed, "unfinished" until it
      has ended, however many jobs it has, or can only expire, "forever" until it is removed, surviving retention.
    - `window` (none): a holder that took the key longer ago than this gives it up.
    - `on_conflict` ("keep"): "keep" returns the holder; "replace" gives a holder that waits, be it for another try,
      a new content, and starts a new chain beside one that runs or has gone on; "replace_keep_schedule" likewise,
      without touching its time; "reject" raises DuplicateKey.
    """

    key: str
    scope: Scope = "unfinished"
    window: Duration | None = None
    on_conflict: OnConflict = "keep"

    def __post_init__(self) -> None:
        key: object = self.key
        if not isinstance(key, str) or not key or len(key) > _LONGEST_KEY or "\x00" in key:
            raise InvalidOption("dedup", self.key, f"the key must be text of 1 to {_LONGEST_KEY} characters, no U+0000")
        try:
            self.key.encode()
        except UnicodeEncodeError:
            raise InvalidOption("dedup", self.key, "the key contains a lone surrogate") from None
        for option, allowed in (("scope", Scope), ("on_conflict", OnConflict)):
            if getattr(self, option) not in get_args(allowed):
                raise InvalidOption(option, getattr(self, option), f"must be one of {', '.join(get_args(allowed))}")
        if self.window is not None and not checked_duration("window", self.window):
            raise InvalidOption("window", self.window, "must be longer than nothing; leave it out for none")


def checked_dedup(value: object) -> Dedup:
    """A Dedup, or a string that stands for one."""
    if isinstance(value, str):
        return Dedup(value)
    if not isinstance(value, Dedup):
        raise InvalidOption("dedup", value, "must be a string or Dedup(…)")
    return value
