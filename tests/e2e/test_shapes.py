"""The programs in examples/: they print what docs/shapes.md shows, and each keeps the promise that it is there for."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import importlib.util
import os
import re
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError, OperationalError

from holdfast.testing import drain
from tools.hint_servers import NatsServer

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))
_SHOWN = re.compile(r"^\$ python examples/(\w+)\.py\n(.*?)^```$", re.MULTILINE | re.DOTALL)

Load = Callable[[str], ModuleType]


class StreamServer(NatsServer):
    """NATS with streams, in memory's reach for as long as the test lasts."""

    def command(self) -> list[str]:
        return [*super().command(), "--jetstream", "--store_dir", str(self.directory / "streams")]


@pytest.fixture
def nats() -> Iterator[StreamServer]:
    with StreamServer() as server:
        yield server


@pytest.fixture
def load(url: str, nats: StreamServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Imports an example that works on `url`."""
    loaded: list[ModuleType] = []

    def load_example(name: str) -> ModuleType:
        monkeypatch.setenv("DATABASE_URL", url)
        monkeypatch.setenv("NATS_URL", nats.url)
        spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        loaded.append(module)
        return module

    yield load_example
    for module in loaded:
        module.app.close()
        if hasattr(module, "engine"):
            module.engine.dispose()


def _rows(example: ModuleType, statement: str) -> list[tuple[Any, ...]]:
    with example.engine.begin() as connection:
        return [tuple(row) for row in connection.execute(text(statement))]


def _execute(example: ModuleType, *statements: str) -> None:
    with example.engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))


@pytest.mark.parametrize("name", NAMES)
def test_it_prints_what_the_page_shows(name: str, url: str, nats: StreamServer, tmp_path: Path) -> None:
    """As typed, on a file of its own or on PostgreSQL; what runs side by side may be printed in any order."""
    shown = dict(_SHOWN.findall((ROOT / "docs" / "shapes.md").read_text(encoding="utf-8")))
    assert sorted(shown) == NAMES
    variables = {key: value for key, value in os.environ.items() if key != "DATABASE_URL"}
    if not url.startswith("sqlite"):
        variables["DATABASE_URL"] = url
    ended = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / f"{name}.py"],
        env={**variables, "TMPDIR": str(tmp_path), "NATS_URL": nats.url},
        cwd=tmp_path, check=False, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert sorted(ended.stdout.splitlines()) == sorted(shown[name].splitlines())


def test_the_outbox_keeps_the_order_of_every_key(load: Load) -> None:
    """Events of many orders, some published twice by the relay: each is in the stream once, in its order's order."""
    outbox = load("outbox")
    events = ["placed", "paid", "packed", "paid", "shipped"]
    with outbox.app.client() as client:
        client.migrate()
        _execute(outbox, "CREATE TABLE orders (id integer PRIMARY KEY, state text)")
        for event in events:
            with outbox.engine.begin() as connection:
                for order_id in range(8):
                    outbox.change_order(client, connection, order_id, event)
        with outbox.engine.connect() as connection:
            outbox.change_order(client, connection, 99, "placed")
            connection.rollback()
        assert outbox.app.run_worker(until_idle=True, concurrency=20) == 0
        assert min(job.attempt for job in client.iter_jobs() if job.input["event"] == "paid") > 1
    found = defaultdict(list)
    for subject, event in asyncio.run(outbox.published()):
        found[subject].append(event)
    assert found == {f"orders.{order_id}": events for order_id in range(8)}
    assert _rows(outbox, "SELECT id, state FROM orders ORDER BY id") == [(n, "shipped") for n in range(8)]


def test_the_inbox_applies_a_message_once(load: Load) -> None:
    """Ten deliveries of each of four messages at a time, those of one with attempts that fail after the commit."""
    inbox = load("inbox")
    messages = {f"transfer-{number}": 10**number for number in range(4)}
    with inbox.app.client() as client:
        client.migrate()
        _execute(
            inbox,
            "CREATE TABLE account (name text PRIMARY KEY, balance integer NOT NULL)",
            "INSERT INTO account VALUES ('ada', 0)",
        )
        client.enqueue_many([inbox.receive.call(name, "ada", messages[name]) for _ in range(10) for name in messages])
        assert inbox.app.run_worker(until_idle=True, concurrency=10) == 0
        assert {job.status for job in client.iter_jobs()} == {"completed"}
        assert min(job.attempt for job in client.iter_jobs() if job.input["message_id"] == "transfer-2") > 1
    assert _rows(inbox, "SELECT balance FROM account") == [(1111,)]


def test_the_inbox_gives_a_message_back_that_was_not_applied(load: Load) -> None:
    """An attempt that fails before its commit has not used up the message."""
    inbox = load("inbox")
    with inbox.app.client() as client:
        chain = client.enqueue(inbox.receive.call("transfer-7", "ada", 7))
        # There is no table yet; on a slow machine its second attempt is due before the first drain is over.
        assert drain(inbox.app).retried >= 1
        failed = client.get_job(chain).attempt
        _execute(
            inbox,
            "CREATE TABLE account (name text PRIMARY KEY, balance integer NOT NULL)",
            "INSERT INTO account VALUES ('ada', 0)",
        )
        assert inbox.app.run_worker(until_idle=True) == 0
        assert client.get_job(chain).attempt == failed + 1
    assert _rows(inbox, "SELECT balance FROM account") == [(7,)]


def _append(projection: ModuleType, client: Any, account: str, amount: int) -> None:
    """As an application does it: whoever loses the race for a version, or for the file, tries again."""
    while True:
        try:
            with projection.engine.begin() as connection:
                projection.append(client, connection, account, amount)
        except (IntegrityError, OperationalError):
            continue
        return


def test_the_projection_is_rebuilt_while_events_come(load: Load) -> None:
    """Four writers, a table damaged under them, a rebuild in between: in the end it is what the events say."""
    projection = load("projection")
    amounts = [7, -12, 3, -20, 30, -1]
    with projection.app.client() as client:
        client.migrate()
        _execute(projection, projection.EVENTS, projection.BALANCES)

        def write(number: int) -> None:
            for position, amount in enumerate(amounts * 2):
                _append(projection, client, ("ada", "bob", "eve")[position % 3], amount + number)

        writers = [threading.Thread(target=write, args=[number]) for number in range(4)]
        for writer in writers[:2]:
            writer.start()
        drain(projection.app)
        _execute(projection, "UPDATE balance SET balance = 4711, lowest = -4711")
        for writer in writers[2:]:
            writer.start()
        for writer in writers[:2]:
            writer.join()
        projection.rebuild(client)
        for writer in writers[2:]:
            writer.join()
        drain(projection.app)
    expected = {}
    for account in ("ada", "bob", "eve"):
        balance = lowest = 0
        events = _rows(projection, f"SELECT amount FROM event WHERE account = '{account}' ORDER BY version")
        for (amount,) in events:
            balance += amount
            lowest = min(lowest, balance)
        expected[account] = (len(events), balance, lowest)
    assert sum(count for count, _, _ in expected.values()) == len(amounts) * 2 * 4
    found = _rows(projection, "SELECT account, version, balance, lowest FROM balance")
    assert {account: rest for account, *rest in found} == {key: list(value) for key, value in expected.items()}


class _Receiver(BaseHTTPRequestHandler):
    """Notes what comes, and takes the third."""

    received: list[tuple[dict[str, str], bytes]]

    def do_POST(self) -> None:
        self.received.append((dict(self.headers), self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204 if len(self.received) == 3 else 500)
        self.end_headers()

    def log_message(self, *_: Any) -> None: ...


def test_a_webhook_is_signed_and_retried(load: Load) -> None:
    """Each attempt under the same id, with a signature that the receiver can check, after a wait that grows."""
    webhooks = load("webhooks")
    received: list[tuple[dict[str, str], bytes]] = []
    _Receiver.received = received
    with ThreadingHTTPServer(("127.0.0.1", 0), _Receiver) as server, webhooks.app.client() as client:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        chain = client.enqueue(webhooks.deliver.call(f"http://127.0.0.1:{server.server_port}/", {"order": 1}))
        assert webhooks.app.run_worker(until_idle=True) == 0
        server.shutdown()
        thread.join()
        job = client.get_job(chain)
        starts = [*(attempt.started_at for attempt in client.list_attempts(chain.job)), job.last_attempt_at]
    assert (job.status, job.attempt, job.output) == ("completed", 3, 204)
    waits = [(after - before).total_seconds() for before, after in pairwise(starts)]
    assert [wait > least for wait, least in zip(waits, (0.09, 0.18), strict=True)] == [True, True]
    for headers, body in received:
        assert headers["Webhook-Id"] == chain.job
        signed = headers["Webhook-Timestamp"].encode() + b"." + body
        assert headers["Webhook-Signature"] == hmac.new(webhooks.SECRET, signed, hashlib.sha256).hexdigest()
        assert body == b'{"order": 1}'
    assert len(received) == 3


def test_webhooks_that_nobody_takes_are_dead_letters(load: Load) -> None:
    """After the last attempt, or at once if the receiver says that it has gone; no forged request passes."""
    webhooks = load("webhooks")
    webhooks.main()
    with webhooks.app.client() as client:
        dead = client.list_jobs(status="dead_letter", newest_first=False).items
        assert [(job.input["url"].rpartition("/")[2], job.attempt) for job in dead] == [("broken", 4), ("gone", 1)]
        assert [attempt.error.type for attempt in client.list_attempts(dead[0].id)] == ["HTTPError"] * 4
    statuses = defaultdict(list)
    for path, _, status in webhooks.Receiver.requests:
        statuses[path].append(status)
    assert statuses == {"/orders": [503, 503, 200], "/broken": [503] * 4, "/gone": [410]}
    assert webhooks.sign("1", b"a") not in {webhooks.sign("2", b"a"), webhooks.sign("1", b"b")}


def test_a_saga_undoes_in_reverse_order(load: Load) -> None:
    """Though it is cut short in the middle of that: nothing is done twice, nothing is left."""
    saga = load("saga")
    saga.main()
    ledger = _rows(saga, "SELECT what FROM ledger WHERE trip = 'moon' ORDER BY number")
    assert [what for (what,) in ledger] == ["hotel reserved", "flight reserved", "flight cancelled", "hotel cancelled"]
    ledger = _rows(saga, "SELECT what FROM ledger WHERE trip = 'rome' ORDER BY number")
    assert [what for (what,) in ledger] == ["hotel reserved", "flight reserved", "card charged"]
    with saga.app.client() as client:
        assert min(job.attempt for job in client.iter_jobs() if job.input["trip"] == "moon") > 1


def test_a_saga_does_not_change_its_mind(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that would work in the second attempt stays refused: half of the trip is undone already."""
    saga = load("saga")
    calls: list[str] = []

    def charge(connection: Connection, trip: str) -> None:
        calls.append(trip)
        if trip == "moon" and calls.count(trip) == 1:
            raise saga.Refused("not today")
        saga.note(connection, trip, "card charged")

    steps = [*saga.STEPS[:2], ("card", charge, saga.STEPS[2][2])]
    monkeypatch.setattr(saga, "STEPS", steps)
    saga.main()
    with saga.app.client() as client:
        outputs = {job.input["trip"]: job.output for job in client.iter_jobs()}
    assert outputs == {"rome": "booked", "moon": "undone, because not today"}
    assert calls.count("moon") == 1
    ledger = _rows(saga, "SELECT what FROM ledger WHERE trip = 'moon' ORDER BY number")
    assert [what for (what,) in ledger] == ["hotel reserved", "flight reserved", "flight cancelled", "hotel cancelled"]


def test_a_job_and_its_row_come_and_go_together(load: Load) -> None:
    """A refused row takes its job along, a row without a job is refused, and a deleted job takes its row along."""
    subtype = load("subtype")
    with subtype.app.client() as client:
        client.migrate()
        _execute(subtype, subtype.TABLE)
        with pytest.raises(IntegrityError), subtype.engine.begin() as connection:
            subtype.enqueue_email(client, connection, "no address", "spring")
        assert client.list_jobs().items == []
        with pytest.raises(IntegrityError), subtype.engine.begin() as connection:
            connection.execute(
                text("INSERT INTO email_job (job_id, recipient, campaign) VALUES (:id, 'a@b.c', 'spring')"),
                {"id": "0198c5a0-5b1e-7c3a-9d1b-3f2a6c0e4d11"},
            )
        with subtype.engine.begin() as connection:
            chains = [subtype.enqueue_email(client, connection, f"{name}@b.c", "spring") for name in ("a", "b")]
        assert drain(subtype.app).completed == 2
        client.delete_chains(chains[:1])
        assert [job.id for job in client.list_jobs().items] == [chains[1].job]
    found = _rows(subtype, "SELECT job_id, receipt FROM email_job")
    assert [(str(job_id), receipt) for job_id, receipt in found] == [(chains[1].job, "sent to b@b.c")]
