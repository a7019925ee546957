"""Every verb runs on every kind of borrowed connection, and says the same there as on a connection of our own."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from holdfast.errors import AlreadyFinished
from holdfast.model.job import JobError
from holdfast.operations.complete_jobs import Completion, complete_jobs
from holdfast.operations.fail_jobs import Failure, fail_jobs
from holdfast.operations.fence import spoil_transaction
from holdfast.operations.get_job import find_job, get_job, list_attempts
from holdfast.operations.identify_database import identify_database
from holdfast.operations.lease import Settlement
from holdfast.operations.list_jobs import list_jobs
from holdfast.operations.signal_chain import signal_chain
from holdfast.operations.statement import Operation, Rows, Statement
from holdfast.operations.suspend_jobs import Suspension, suspend_jobs
from holdfast.sql.library import verbs
from tests.conformance.borrowed.kinds import KINDS, Kind, Opened
from tests.conformance.borrowed.shop import Shop
from tests.contract.samples import sample, sampled_verbs

#: what any driver hands out alike; SQLite has no truth values
PLAIN = {"postgres": (str, int, bool, type(None)), "sqlite": (str, int, type(None))}
#: one fails on purpose, one is for no transaction at all, three have lines or rows behind them, the others belong to a
#: migration
APART = {
    *("spoil_transaction", "vacuum", "copy_jobs", "insert_alike", "insert_rows"),
    *("lock_migrations", "record_migration", "stamp_functions"),
}
#: for workers, whose connections are always our own: JSON and instants come as they are on the wire
OF_WORKERS = {"claim_jobs", "claim_suspect", "find_lanes", "find_tenants", "find_reapable"}


def _named(dialect: str) -> list[Any]:
    return [pytest.param(kind, id=kind.name) for kind in KINDS if kind.dialect == dialect]


def _operation(statement: Statement) -> Operation[Rows]:
    rows = yield statement
    return rows


class EveryVerb:
    """The cases; a subclass says which database and which kinds."""

    @pytest.fixture
    async def opened(self, kind: Kind, shop: Shop) -> AsyncIterator[Opened]:
        async with kind.open(shop, None) as opened:
            yield opened

    async def test_every_verb_runs(self, opened: Opened, shop: Shop) -> None:
        """With the parameters that its operation sends; what comes back is as plain as the drivers are different."""
        for verb in sorted({*verbs(shop.dialect)} & sampled_verbs() - OF_WORKERS - APART):
            statement = sample(shop.dialect, verb)
            rows = await opened.run(partial(_operation, statement))
            assert [value for row in rows for value in row if type(value) not in PLAIN[shop.dialect]] == [], verb
            await opened.rollback()

    async def test_reading_verbs_say_the_same(self, opened: Opened, shop: Shop) -> None:
        """A job with everything that a job can have, its attempts, and pages of them."""
        job = shop.put_running_job(max_attempts=5)
        failure = Failure(job, 1, JobError("ValueError", "é € \\ \" ' %s {}"), 0, is_final=False, max_attempts=5)
        shop.face.run(lambda: fail_jobs("w", [failure]))
        ours = shop.face.run(lambda: get_job(job), read_only=True)
        assert await opened.run(lambda: get_job(job)) == ours
        assert ours.last_attempt_error is not None
        attempts = shop.face.run(lambda: list_attempts(job), read_only=True)
        assert await opened.run(lambda: list_attempts(job)) == attempts
        assert len(attempts) == 1
        page = shop.face.run(lambda: list_jobs(limit=1), read_only=True)
        assert await opened.run(lambda: list_jobs(limit=1)) == page
        assert [found.id for found in page.items] == [job]
        await opened.rollback()

    async def test_what_the_transaction_wrote_is_read(self, opened: Opened, shop: Shop) -> None:
        """A reading verb sees the transaction it runs in; others do not."""
        job = await opened.enqueue()
        found = await opened.run(lambda: get_job(job))
        assert (found.id, found.input) == (job, {"text": "100 % é"})
        assert [item.id for item in (await opened.run(list_jobs)).items] == [job]
        await opened.rollback()
        assert await opened.run(lambda: find_job(job)) is None
        await opened.rollback()

    @pytest.mark.parametrize("ending", ["commit", "rollback"])
    async def test_a_completion_shares_the_transactions_fate(self, opened: Opened, shop: Shop, ending: str) -> None:
        """A verb that writes several things and answers with rows."""
        job = shop.put_running_job()
        completion = Completion(job, 1, '{"sent": true}')
        settled = await opened.run(lambda: complete_jobs("w", [completion]))
        assert settled == Settlement()
        await getattr(opened, ending)()
        found = shop.face.run(lambda: get_job(job), read_only=True)
        assert (found.status, found.output) == (
            ("completed", {"sent": True}) if ending == "commit" else ("running", None)
        )

    @pytest.mark.parametrize("ending", ["commit", "rollback"])
    async def test_a_signal_shares_the_transactions_fate(self, opened: Opened, shop: Shop, ending: str) -> None:
        """A job that waits for it is woken with the commit, and only then."""
        job = shop.put_running_job()
        wait = Suspension(job, 1, "signal", "heard", "go")
        shop.face.run(lambda: suspend_jobs([wait]))
        assert await opened.run(lambda: signal_chain(job, "go", '{"by": "é"}')) == {"mail"}
        await getattr(opened, ending)()
        found = shop.face.run(lambda: get_job(job), read_only=True)
        assert found.status == ("pending" if ending == "commit" else "blocked")

    async def test_a_refused_signal_leaves_the_transaction_usable(self, opened: Opened, shop: Shop) -> None:
        """Nothing is written for a chain that has ended."""
        job = shop.put_running_job()
        shop.face.run(lambda: complete_jobs("w", [Completion(job, 1)]))
        with pytest.raises(AlreadyFinished):
            await opened.run(lambda: signal_chain(job, "go", "1"))
        await opened.write("mine")
        await opened.commit()
        assert shop.notes() == ["mine"]

    async def test_a_spoilt_transaction_cannot_be_committed(self, opened: Opened, shop: Shop) -> None:
        """Whatever the application does about the error, and however its library commits."""
        await opened.write("mine")
        job = await opened.enqueue()
        with pytest.raises(Exception, match=r"cannot be committed|UNIQUE constraint failed"):
            await opened.run(lambda: spoil_transaction("the lease was lost"))
        with contextlib.suppress(Exception):
            await opened.commit()
        assert shop.notes() == []
        assert not shop.has(job)
        await opened.rollback()

    async def test_a_stale_completion_comes_back_as_a_row(self, opened: Opened, shop: Shop) -> None:
        """The transaction stays usable."""
        job = shop.put_running_job()
        settled = await opened.run(lambda: complete_jobs("w", [Completion(job, 7)]))
        assert settled.lost == {job}
        await opened.write("mine")
        await opened.commit()
        assert shop.notes() == ["mine"]


@pytest.mark.parametrize("kind", _named("postgres"))
class TestPostgres(EveryVerb):
    """On a server."""

    @pytest.fixture
    def shop(self, postgres_shop: Shop) -> Shop:
        return postgres_shop

    async def test_the_database_has_one_identity(self, opened: Opened, shop: Shop) -> None:
        """Whoever asks."""
        ours = shop.face.run(identify_database, read_only=True)
        assert await opened.run(identify_database) == ours
        assert ours.identity is not None
        await opened.rollback()


@pytest.mark.parametrize("kind", _named("sqlite"))
class TestSqlite(EveryVerb):
    """On a file."""

    @pytest.fixture
    def shop(self, sqlite_shop: Shop) -> Shop:
        return sqlite_shop
