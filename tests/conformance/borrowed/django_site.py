"""A Django site with the databases that a test gives it; each belongs to the thread that opens it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import django
from django.conf import settings
from django.db import connections, transaction
from django.db.utils import ConnectionHandler

if not settings.configured:
    settings.configure(DATABASES={}, USE_TZ=True, ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, LOGGING_CONFIG=None)
    django.setup()

#: the views of whoever tests with requests
urlpatterns: list[Any] = []


@contextlib.contextmanager
def django_database(url: str, alias: str = "default", **changes: Any) -> Iterator[Any]:
    """The connection of this thread to `url`; `changes` go into its entry of DATABASES."""
    entry = ConnectionHandler({"default": {}, alias: database_settings(url) | changes}).settings[alias]
    before = connections.settings.get(alias)
    with contextlib.suppress(AttributeError):
        del connections[alias]  # Django looks at all of them now and then
    connections.settings[alias] = entry
    try:
        yield connections[alias]
    finally:
        if connections[alias].connection is not None:
            connections[alias].close()
        del connections[alias]
        if before is None:
            del connections.settings[alias]
        else:
            connections.settings[alias] = before


def database_settings(url: str) -> dict[str, Any]:
    """An entry of DATABASES."""
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": parts.path[1:]}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path[1:],
        "USER": parts.username,
        "HOST": parts.hostname,
        "PORT": parts.port,
    }


class AtomicBlocks:
    """Django commits by leaving a block, so one follows the other."""

    def __init__(self, alias: str = "default") -> None:
        self._alias = alias
        self._block: Any = None

    def begin(self) -> None:
        self._block = transaction.atomic(self._alias)
        self._block.__enter__()

    def commit(self) -> None:
        self._block.__exit__(None, None, None)
        self.begin()

    def rollback(self) -> None:
        self.end()
        self.begin()

    def end(self) -> None:
        transaction.set_rollback(True, self._alias)
        self._block.__exit__(None, None, None)
