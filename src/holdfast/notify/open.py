"""Which notifier belongs to which store and URL."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from urllib.parse import urlsplit

from holdfast.errors import InvalidOption, MissingExtra
from holdfast.notify.base import Notifier

_KINDS = "must be redis://, rediss://, unix://, nats://, tls:// or local"


@dataclass(frozen=True, kw_only=True, slots=True)
class NotifierConfig:
    """Where hints go.

    - `dialect`, `where`: the store's, and its URL, or the path of the SQLite file.
    - `channel`: prefix of all channels.
    - `url` (the database itself): `redis://…`, `nats://…`, or `local` for hints that do not leave the process.
    - `listen_url` (the store's): where to LISTEN, if a pooler stands before PostgreSQL.
    - `is_pooled` (found out): whether one does.
    """

    dialect: str
    where: str
    channel: str
    url: str | None = None
    listen_url: str | None = None
    is_pooled: bool | None = None


def checked_notifier(url: object) -> str:
    """Refuse a notifier that there is none for, before anything is opened."""
    if not isinstance(url, str) or (url != "local" and _scheme(url) not in {*_REDIS, *_NATS}):
        raise InvalidOption("notifier", url, _KINDS)
    try:
        _ = urlsplit(url).port
    except ValueError as error:
        # Without what may be a password.
        raise InvalidOption("notifier", f"{_scheme(url)}://…", f"is not a URL: {error}") from None
    extra = None if url == "local" else "redis" if _scheme(url) in _REDIS else "nats"
    if extra is not None and importlib.util.find_spec(extra) is None:
        raise MissingExtra(extra, extra)
    return url


_REDIS = ("redis", "rediss", "unix")
_NATS = ("nats", "tls")


def open_notifier(config: NotifierConfig) -> Notifier:
    """Opens no connection yet."""
    if config.url is not None:
        return _open_elsewhere(config, config.url)
    if config.dialect == "postgres":
        from holdfast.notify.postgres import PostgresNotifier

        return PostgresNotifier(
            config.where, config.channel, listen_conninfo=config.listen_url, is_pooled=config.is_pooled
        )
    from holdfast.notify.sqlite import FileNotifier

    return FileNotifier(config.where)


def _open_elsewhere(config: NotifierConfig, url: str) -> Notifier:
    from holdfast.notify.local import LocalNotifier
    from holdfast.notify.sqlite import FileNotifier

    file = FileNotifier(config.where) if config.dialect == "sqlite" else None
    if url == "local":
        return LocalNotifier(file=file)
    if _scheme(url) in _REDIS:
        from holdfast.notify.redis import RedisNotifier

        return RedisNotifier(url, config.channel, file=file)
    from holdfast.notify.nats import NatsNotifier

    return NatsNotifier(url, config.channel, file=file)


def _scheme(url: str) -> str:
    return url.partition("://")[0] if "://" in url else ""
