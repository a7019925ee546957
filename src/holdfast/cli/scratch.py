"""Schemas that a command makes for itself, and removes."""

from __future__ import annotations

from contextlib import suppress

from holdfast.app import App
from holdfast.errors import NotMigrated


def drop_schema(app: App, schema: str) -> None:
    store = app.store.sync()
    try:
        with suppress(NotMigrated), store.transaction() as tx:  # it may not have come to a schema
            tx.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')
    finally:
        store.close()
