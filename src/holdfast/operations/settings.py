"""Read and change what operators have set."""

from __future__ import annotations

from datetime import datetime

import msgspec

from holdfast.model.payload import to_json
from holdfast.model.settings import SettingRecord, setting_record
from holdfast.operations.statement import ATOMICALLY, Operation, Statement


class _Row(msgspec.Struct):
    name: str
    value: msgspec.Raw
    changed_at: datetime


_row = msgspec.json.Decoder(_Row)


def list_settings() -> Operation[list[SettingRecord]]:
    """All of them, by name."""
    rows = yield Statement("list_settings")
    found = [_row.decode(document) for (document,) in rows]
    return [setting_record(row.name, bytes(row.value), row.changed_at) for row in found]


def set_setting(key: str, value: object, actor: str | None) -> Operation[SettingRecord]:
    """From now on; on record with who did it."""
    yield ATOMICALLY
    ((document,),) = yield Statement("set_setting", {"name": key, "value": to_json(value).decode()})
    yield _audit("set_setting", key, actor, "set", value)
    row = _row.decode(document)
    return setting_record(row.name, bytes(row.value), row.changed_at)


def unset_setting(key: str, actor: str | None) -> Operation[bool]:
    """Back to what holds without it; whether it was set."""
    yield ATOMICALLY
    rows = yield Statement("unset_setting", {"name": key})
    yield _audit("unset_setting", key, actor, "unset" if rows else "not_set", None)
    return bool(rows)


def _audit(verb: str, key: str, actor: str | None, outcome: str, value: object) -> Statement:
    name, _, type_name = key.partition(":")
    detail: dict[str, object] = {"name": name, **({"type_name": type_name} if type_name else {})}
    if outcome == "set":
        detail["value"] = value
    entry = {"chain_id": None, "job_id": None, "outcome": outcome, "detail": detail}
    return Statement("record_audit", {"actor": actor, "verb": verb, "entries": to_json([entry]).decode()})
