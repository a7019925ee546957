"""Pages and their cursors: keyset on seq, and a fingerprint of the query that a cursor belongs to."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self, TypeVar

import msgspec

from holdfast.errors import InvalidCursor, InvalidOption
from holdfast.model.job import Page
from holdfast.model.payload import to_json

T = TypeVar("T")

MOST = 1000


class _Cursor(msgspec.Struct):
    seq: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    query: str


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Which page of a query is wanted: how many items, behind which place, in which direction."""

    limit: int
    seq: int | None
    newest_first: bool
    query: str

    @classmethod
    def of(
        cls, verb: str, filters: Mapping[str, object], *, limit: int, cursor: str | None, newest_first: bool
    ) -> Self:
        """Checked; `verb` and `filters` are what the cursor must have been made for."""
        check_page(limit, newest_first)
        query = hashlib.sha256(to_json([verb, filters, newest_first])).hexdigest()[:12]
        return cls(limit, None if cursor is None else _read_cursor(cursor, query), newest_first, query)

    @property
    def parameters(self) -> dict[str, object]:
        return {} if self.seq is None else {"seq": self.seq}

    @property
    def literals(self) -> dict[str, int]:
        """One more than asked for tells whether there is a next page."""
        return {"limit": self.limit + 1}

    @property
    def filters(self) -> tuple[str, ...]:
        """The fragment that begins behind the cursor."""
        return () if self.seq is None else ("below" if self.newest_first else "above",)

    @property
    def orders(self) -> dict[str, tuple[str, ...]]:
        direction = "newest_first" if self.newest_first else "oldest_first"
        return {
            "order": (direction,),
            "status_order": (f"{direction}_by_status",),
            "tenant_order": (f"{direction}_by_tenant",),
        }

    def page(self, items: Sequence[T], rows: Sequence[Sequence[Any]]) -> Page[T]:
        """`items` were made from the first `limit` rows, whose last column is seq."""
        has_more = len(rows) > self.limit
        return Page(list(items), _write_cursor(rows[self.limit - 1][-1], self.query) if has_more else None)


def check_page(limit: object, newest_first: object, *, option: str = "limit") -> None:
    """How many at a time, under the option's name, and in which direction."""
    if type(limit) is not int or not 1 <= limit <= MOST:
        raise InvalidOption(option, limit, f"must be a whole number from 1 to {MOST:,}")
    if not isinstance(newest_first, bool):
        raise InvalidOption("newest_first", newest_first, "must be True or False")


def _write_cursor(seq: int, query: str) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(_Cursor(seq, query))).decode().rstrip("=")


def _read_cursor(cursor: str, query: str) -> int:
    try:
        decoded = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        found = msgspec.json.decode(decoded, type=_Cursor)
    except (ValueError, TypeError, msgspec.MsgspecError):
        raise InvalidCursor(cursor) from None
    if found.query != query:
        raise InvalidCursor(cursor)
    return found.seq
