"""What goes out on PostgreSQL: once per queue, after the commit or with it, and nothing that was not asked for."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from holdfast import App


class Ear:
    """Listens as any program may."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._connection.execute("LISTEN holdfast_work")

    def heard(self, seconds: float = 0.7) -> Counter[str]:
        return Counter(notification.payload for notification in self._connection.notifies(timeout=seconds))

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def ear(direct_url: str) -> Iterator[Ear]:
    ear = Ear(direct_url)
    yield ear
    ear.close()


@pytest.fixture
def app(direct_url: str) -> Iterator[App]:
    with closing(App(direct_url)) as app:
        app.job()(note)
        yield app


def note(number: int = 0) -> None:
    """Is never run."""


def test_once_per_queue_with_the_callers_commit(app: App, ear: Ear, direct_url: str) -> None:
    """However often a transaction enqueues; before its commit nothing, after a rollback nothing."""
    with app.client() as client, psycopg.connect(direct_url) as connection:
        for number in range(50):
            client.enqueue(app.call("note", number), tx=connection, queue="a" if number % 2 else "b")
        assert ear.heard() == {}
        connection.commit()
        assert ear.heard() == {"a": 1, "b": 1}
        client.enqueue(app.call("note"), tx=connection)
        connection.rollback()
        assert ear.heard() == {}


def test_debounced_after_the_clients_own_commits(app: App, ear: Ear) -> None:
    """The first at once; of hundreds in a row most travel with others."""
    with app.client() as client:
        began = time.monotonic()
        for number in range(300):
            client.enqueue(app.call("note", number))
        lasted = time.monotonic() - began
    heard = ear.heard(1.5)["default"]
    # One every 5 ms from the sender, at most, and with commits a tenth of the time: those that carry one take no less.
    assert 1 <= heard <= min(150, lasted / 0.005 + 300 * 0.1 + 3)


def test_silence_on_request(app: App, ear: Ear, direct_url: str) -> None:
    """Of an enqueue, a call, a client, and the app; in the caller's transaction too."""
    silent = app.call("note").options(notify=False)
    with app.client() as client, app.client(notify=False) as mute, psycopg.connect(direct_url) as connection:
        client.enqueue(app.call("note"), notify=False)
        client.enqueue(silent)
        mute.enqueue(app.call("note"))
        client.enqueue(silent, tx=connection)
        mute.enqueue(app.call("note"), tx=connection)
        connection.commit()
        assert ear.heard() == {}
        client.enqueue_many([silent.options(queue="quiet"), app.call("note").options(queue="loud")], tx=connection)
        connection.commit()
        assert ear.heard() == {"loud": 1}
        client.enqueue_many([silent.options(queue="quiet"), app.call("note").options(queue="loud")])
        assert ear.heard() == {"loud": 1}
    with closing(App(direct_url, notify=False)) as still, still.client() as client:
        client.enqueue(still.job()(note).call())
        assert ear.heard() == {}


def test_wake(app: App, ear: Ear) -> None:
    """For what was committed where nobody saw it."""
    app.wake("default", "mail")
    assert ear.heard(1.5) == {"default": 1, "mail": 1}
