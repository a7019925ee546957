"""A blocker that the transaction cannot see, because it is newer than its snapshot."""

from __future__ import annotations

import psycopg
import pytest

from holdfast import App
from holdfast.errors import ChainNotFound
from holdfast.model.ids import new_id
from tests.conformance.borrowed.shop import Shop


def _app(shop: Shop) -> App:
    app = App(shop.url, notify=False)
    app.job(name="send")(_send)
    return app


def _send() -> None: ...


@pytest.mark.parametrize("isolation", ["REPEATABLE_READ", "SERIALIZABLE"])
def test_a_blocker_newer_than_the_snapshot(postgres_shop: Shop, isolation: str) -> None:
    """The message says what may be the matter, and nothing was written; the next transaction sees the chain."""
    app = _app(postgres_shop)
    with app.client() as client, psycopg.connect(postgres_shop.url) as connection:
        connection.isolation_level = psycopg.IsolationLevel[isolation]
        connection.execute("SELECT count(*) FROM note")
        newer = client.enqueue(app.call("send"))
        with pytest.raises(ChainNotFound, match=r"newer than the snapshot .* READ COMMITTED") as caught:
            client.enqueue(app.call("send"), blockers=[newer], tx=connection)
        assert caught.value.chain_id == newer.id
        connection.execute("INSERT INTO note VALUES ('still usable')")
        connection.commit()
        blocked = client.enqueue(app.call("send"), blockers=[newer], tx=connection)
        connection.commit()
        assert client.get_job(blocked.id).status == "blocked"
        assert len(client.list_jobs().items) == 2
    app.close()
    assert postgres_shop.notes() == ["still usable"]


@pytest.mark.parametrize("where", ["borrowed", "own", "sqlite"])
def test_without_a_snapshot_nobody_speaks_of_one(postgres_shop: Shop, sqlite_shop: Shop, where: str) -> None:
    """At READ COMMITTED, and on SQLite, every statement sees all there is."""
    shop = sqlite_shop if where == "sqlite" else postgres_shop
    app = _app(shop)
    with app.client() as client, psycopg.connect(postgres_shop.url) as connection:
        tx = connection if where == "borrowed" else None
        with pytest.raises(ChainNotFound) as caught:
            client.enqueue(app.call("send"), blockers=[new_id()], tx=tx)
        assert "snapshot" not in str(caught.value)
    app.close()
