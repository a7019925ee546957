"""Deduplication keys under their locks: whose they are, and taking them over.

The row of a key is where everybody meets who wants it: whoever takes it or gives it up has that row locked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.model.payload import to_json
from holdfast.operations.statement import Operation, Rows, Statement

#: keys that are given up, entered or replaced while we look are looked at again
_LOOKS = 10


class Key(NamedTuple):
    """At most one chain holds it at a time."""

    type_name: str
    key: str


class Claim(NamedTuple):
    """The key that a chain was enqueued with and has not given up, under every name of its type."""

    keys: tuple[Key, ...]
    scope: str


class Holder(NamedTuple):
    """Who took a key last, and whether he still holds it."""

    chain_id: str
    is_holding: bool


@dataclass(slots=True)
class LockedKeys:
    """Keys that nobody else takes or gives up until the transaction ends, and what is known of them.

    - `claims`: by chain.
    - `holders`: those who took them before; keys that were free are in `entered`, with the chains entered for them.
    - `unlocked`: keys whose rows somebody else has locked.
    """

    claims: dict[str, Claim] = field(default_factory=dict)
    holders: dict[Key, Holder] = field(default_factory=dict)
    entered: dict[Key, str] = field(default_factory=dict)
    unlocked: set[Key] = field(default_factory=set)

    def holder_but(self, chain_id: str, key: Key) -> str | None:
        """The other chain that holds the key."""
        holder = self.holders.get(key)
        return holder.chain_id if holder and holder.is_holding and holder.chain_id != chain_id else None

    def point(self, taking: Mapping[Key, str]) -> Operation[None]:
        """Make chains the holders of keys."""
        if taking:
            yield Statement("point_keys", {"keys": self._document(taking)})

    def give_back(self, keep: Collection[Key] = ()) -> Operation[None]:
        """Forget what was entered here for nothing."""
        unused = {key: chain_id for key, chain_id in self.entered.items() if key not in keep}
        if unused:
            yield Statement("return_keys", {"keys": self._document(unused)})

    def _document(self, chains: Mapping[Key, str]) -> str:
        claims = {chain_id: self.claims.get(chain_id) for chain_id in chains.values()}
        scopes = {chain_id: None if claim is None else claim.scope for chain_id, claim in claims.items()}
        return _document((key, chain_id, scopes[chain_id]) for key, chain_id in sorted(chains.items()))


def lock_keys_of_chains(
    ids: Collection[str], *, patient: bool, aliases: Mapping[str, tuple[str, ...]]
) -> Operation[LockedKeys]:
    """The keys of the chains that the ids of jobs name; those that nobody took are entered, to have a row to lock."""
    asked = {"jobs": to_json(sorted(set(ids))).decode()}
    rows = yield Statement("find_keys", asked)
    keys = LockedKeys()
    for _ in range(_LOOKS):
        keys.claims = _claims(rows, aliases)
        wanted = {key: chain_id for chain_id, claim in keys.claims.items() for key in claim.keys}
        if not wanted:
            break
        locked = yield from lock_keys(wanted, patient=patient)
        keys.holders = yield from judge_keys(wanted)
        keys.unlocked = keys.holders.keys() - locked
        free = {key: chain_id for key, chain_id in wanted.items() if key not in keys.holders}
        if free:
            entries = [(key, chain_id, keys.claims[chain_id].scope) for key, chain_id in sorted(free.items())]
            entered = yield Statement("enter_keys", {"keys": _document(entries)})
            for type_name, key in entered:
                keys.entered[Key(type_name, key)] = free[Key(type_name, key)]
        rows = yield Statement("find_keys", asked)
        known = keys.holders.keys() | keys.entered.keys()
        found = _claims(rows, aliases)
        if all(key in known for claim in found.values() for key in claim.keys):
            keys.claims = found
            break
    return keys


def _claims(rows: Rows, aliases: Mapping[str, tuple[str, ...]]) -> dict[str, Claim]:
    return {chain_id: Claim(keys_of(Key(type_name, key), aliases), scope) for chain_id, type_name, key, scope in rows}


def keys_of(key: Key, aliases: Mapping[str, tuple[str, ...]]) -> tuple[Key, ...]:
    """The same under every name of its type."""
    return (key, *(Key(name, key.key) for name in aliases.get(key.type_name, ())))


def lock_keys(keys: Iterable[Key], *, patient: bool) -> Operation[set[Key]]:
    """Those that have a row."""
    rows = yield Statement(
        "lock_keys", {"keys": _document((key, None, None) for key in sorted(keys)), "patient": patient}
    )
    return {Key(type_name, key) for type_name, key in rows}


def judge_keys(keys: Iterable[Key]) -> Operation[dict[Key, Holder]]:
    """Who took each of them last; those that nobody took are left out."""
    ordered: Sequence[Key] = sorted(keys)
    rows = yield Statement("judge_keys", {"keys": _document((key, None, None) for key in ordered)})
    return {ordered[place]: Holder(chain_id, bool(is_holding)) for place, chain_id, is_holding, *_ in rows}


def return_keys(keys: Iterable[Key], chain_id: str) -> Operation[None]:
    """Forget that the chain took the keys."""
    yield Statement("return_keys", {"keys": _document((key, chain_id, None) for key in sorted(keys))})


def _document(entries: Iterable[tuple[Key, str | None, str | None]]) -> str:
    return to_json(
        [
            {"place": place, "type_name": key.type_name, "key": key.key, "chain_id": chain_id, "scope": scope}
            for place, (key, chain_id, scope) in enumerate(entries)
        ]
    ).decode()
