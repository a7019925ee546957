"""What operators set while everything runs; `settings.py` is generated from this file."""

from __future__ import annotations

from holdfast.client.again_async import run_repeatable
from holdfast.model.identifiers import checked_name
from holdfast.model.settings import SettingRecord, checked_setting, checked_value
from holdfast.operations.settings import list_settings, set_setting, unset_setting
from holdfast.stores import AsyncStore

#: inside the class `list` is a method
SettingRecords = list[SettingRecord]


class AsyncSettings:
    """`client.settings`."""

    def __init__(self, store: AsyncStore) -> None:
        self._store = store

    async def list(self) -> SettingRecords:
        """What is set, by name; what is not in it is as the code says."""
        await self._store.ensure_ready()
        return await self._store.run(list_settings, read_only=True)

    async def set(
        self,
        name: str,
        value: object,
        *,
        type_name: str | None = None,
        actor: str | None = None,
    ) -> SettingRecord:
        """Have a setting hold from now on, in all workers within seconds.

        - `name`: `max_attempts`; `retry_initial`, `retry_factor`, `retry_maximum`, `retry_jitter`; `keep_completed`,
          `keep_dead_letter`, `keep_cancelled`, `archive`, `keep_archive`, `keep_audit`.
        - `value`: as in `Retry` and `Keep`: durations are timedelta or seconds.
        - `type_name` (all): only for jobs of this type; for them it wins over what is set for all.
        - `actor`: who wants it, for the record.

        It wins over what types and apps say in code; a job's own `max_attempts` wins over it.
        """
        key = checked_setting(name, type_name)
        stored = checked_value(name, value)
        who = None if actor is None else checked_name("actor", actor)
        await self._store.ensure_ready()
        return await run_repeatable(self._store, lambda: set_setting(key, stored, who))

    async def unset(self, name: str, *, type_name: str | None = None, actor: str | None = None) -> bool:
        """Take a setting back; whether it was set."""
        key = checked_setting(name, type_name)
        who = None if actor is None else checked_name("actor", actor)
        await self._store.ensure_ready()
        return await run_repeatable(self._store, lambda: unset_setting(key, who))
