"""`holdfast worker` behind a transaction pooler: with a way past it to listen, and without."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest

from holdfast import App
from tests.e2e import shop
from tests.e2e.conftest import CommandLine
from tools.pgbouncer import Pgbouncer
from tools.postgres_server import PostgresAddress


@pytest.fixture
def direct_url(
    postgres_addresses: dict[int, PostgresAddress], migrated_template: Callable[[int], str], worker_id: str
) -> Iterator[str]:
    name = f"pooled_worker_{worker_id}"
    yield postgres_addresses[18].create_database(name, template=migrated_template(18))
    postgres_addresses[18].drop_database(name)


@pytest.fixture
def app(direct_url: str) -> Iterator[App]:
    app = shop.make_app(direct_url)
    yield app
    app.close()


@pytest.mark.parametrize("may_listen", [True, False])
def test_it_runs_jobs(command: CommandLine, direct_url: str, app: App, may_listen: bool) -> None:
    """Its poll is minutes away: it hears of jobs, or knows that it does not and looks every second."""
    with Pgbouncer(urlsplit(direct_url).port or 0) as pooler, app.client() as client:
        options = ["--listen-url", direct_url] if may_listen else []
        worker = command.start("worker", "shop:make_app", "--poll=5m", *options, HOLDFAST_URL=pooler.url(direct_url))
        worker.expect("serves")
        if not may_listen:
            assert "listen_url" in worker.expect("do not arrive")
        for name in ("Ada", "Bob", "Cleo"):
            time.sleep(0.5)
            client.enqueue(app.call("greet", name=name))
            worker.expect(f"hello {name}")
        worker.signal()
        assert worker.exit_code() == 0
        assert may_listen == (not any("do not arrive" in line for line in worker.lines))
