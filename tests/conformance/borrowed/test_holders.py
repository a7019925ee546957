"""What a holder writes in its own transaction, through every kind of connection: with the commit, or not at all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from holdfast.errors import LeaseLost, TransactionError
from holdfast.model.status import Status
from holdfast.operations.complete_jobs import Completion, complete_jobs
from holdfast.operations.fence import hold_lease, spoil_transaction
from holdfast.operations.get_job import get_job
from holdfast.operations.lease import Lease
from holdfast.operations.process_once import process_once
from holdfast.operations.save_progress import save_progress
from holdfast.operations.save_step import list_steps, save_step
from tests.conformance.borrowed.kinds import KINDS, Kind, Opened
from tests.conformance.borrowed.shop import Shop


def _named(dialect: str) -> list[Any]:
    return [pytest.param(kind, id=kind.name) for kind in KINDS if kind.dialect == dialect]


class Holders:
    """The cases; a subclass says which database and which kinds."""

    @pytest.fixture
    async def opened(self, kind: Kind, shop: Shop) -> AsyncIterator[Opened]:
        async with kind.open(shop, None) as opened:
            yield opened

    @pytest.mark.parametrize("ending", ["commit", "rollback"])
    async def test_completion(self, opened: Opened, ending: str) -> None:
        """Completed with the application's write, or neither."""
        lease = Lease(opened.shop.put_running_job(), 1)
        await opened.write("mine")
        assert await opened.run(lambda: hold_lease(lease))
        settlement = await opened.run(lambda: complete_jobs("w", [Completion(lease.id, 1, '"done"')]))
        assert (settlement.lost, settlement.locked) == (set(), set())
        await (opened.commit() if ending == "commit" else opened.rollback())
        job = opened.shop.face.run(lambda: get_job(lease.id), read_only=True)
        is_done = ending == "commit"
        assert (job.status, job.output) == ((Status.COMPLETED, "done") if is_done else (Status.RUNNING, None))
        assert opened.shop.notes() == (["mine"] if is_done else [])

    @pytest.mark.parametrize("ending", ["commit", "rollback"])
    async def test_steps_progress_and_keys(self, opened: Opened, ending: str) -> None:
        """Saved with the commit."""
        lease = Lease(opened.shop.put_running_job(), 1)
        assert await opened.run(lambda: save_step(lease, "one", '{"a": [1, "ä"]}'))
        assert await opened.run(lambda: save_progress(lease, "0.5"))
        assert await opened.run(lambda: process_once(lease, "send_receipt", "key"))
        assert not await opened.run(lambda: process_once(lease, "send_receipt", "key"))
        await (opened.commit() if ending == "commit" else opened.rollback())
        steps = opened.shop.face.run(lambda: list_steps(lease.id), read_only=True)
        assert [step.name for step in steps] == (["one"] if ending == "commit" else [])
        is_first = opened.shop.face.run(lambda: process_once(lease, "send_receipt", "key"))
        assert is_first == (ending == "rollback")

    async def test_refusal_says_why_and_breaks_nothing(self, opened: Opened) -> None:
        """A stale holder gets LeaseLost; the transaction is as it was."""
        lease = Lease(opened.shop.put_running_job(), 7)
        await opened.write("mine")
        for verb in (
            lambda: hold_lease(lease),
            lambda: save_step(lease, "one", "1"),
            lambda: save_progress(lease, "1"),
            lambda: process_once(lease, "send_receipt", "key"),
        ):
            with pytest.raises(LeaseLost):
                await opened.run(verb)
        await opened.commit()
        assert opened.shop.notes() == ["mine"]

    async def test_a_spoilt_transaction_cannot_be_committed(self, opened: Opened) -> None:
        """What was written before is gone, whatever the application does; after a rollback the connection works on."""
        await opened.write("mine")
        with pytest.raises(Exception, match=r"holdfast|status"):
            await opened.run(lambda: spoil_transaction("the lease was lost"))
        with suppress(Exception):  # some libraries say that there is nothing to commit
            await opened.commit()
        with suppress(Exception):
            await opened.rollback()
        assert opened.shop.notes() == []
        await opened.write("again")
        await opened.commit()
        assert opened.shop.notes() == ["again"]

    async def test_nothing_is_committed_after_a_loss(self, opened: Opened) -> None:
        """Nor what is written after it, whoever swallows what; a rollback makes the connection what it was."""
        await opened.write("before")
        await opened.spoil()
        for _ in range(2):
            with pytest.raises(Exception, match=r"not authorized|aborted|atomic|transaction"):
                await opened.write("after")
        with pytest.raises(TransactionError):
            await opened.enqueue()
        with suppress(Exception):  # some libraries take it for a rollback, others refuse
            await opened.commit()
        assert opened.shop.notes() == []
        with suppress(Exception):
            await opened.rollback()
        await opened.write("again")
        await opened.enqueue()
        await opened.commit()
        assert opened.shop.notes() == ["again"]
        await opened.write("and again")
        await opened.commit()
        assert opened.shop.notes() == ["again", "and again"]


class TestPostgres(Holders):
    """psycopg, asyncpg, SQLAlchemy, Django."""

    @pytest.fixture(params=_named("postgres"))
    def kind(self, request: pytest.FixtureRequest) -> Kind:
        found: Kind = request.param
        return found

    @pytest.fixture
    def shop(self, postgres_shop: Shop) -> Shop:
        return postgres_shop


class TestSqlite(Holders):
    """sqlite3, aiosqlite, SQLAlchemy, Django."""

    @pytest.fixture(params=_named("sqlite"))
    def kind(self, request: pytest.FixtureRequest) -> Kind:
        found: Kind = request.param
        return found

    @pytest.fixture
    def shop(self, sqlite_shop: Shop) -> Shop:
        return sqlite_shop
