"""`client.complete_job` and `client.complete_chain`, on both databases and both faces."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from holdfast import App, Cancellation, Context, JobHandle, Status, WorkerConfig
from holdfast.errors import AlreadyFinished, ChainNotFound, InvalidOption, InvalidPayload, JobNotFound
from holdfast.model.ids import new_id
from holdfast.testing import adrain
from tests.conformance.client.conftest import Place, settled


def _order(app: App) -> tuple[JobHandle[[int], str], JobHandle[[str], str]]:
    """Two steps of one chain: somebody outside confirms an order, then it is shipped."""

    def confirm(number: int) -> str:
        raise AssertionError(f"order {number} is confirmed by a person")

    def ship(address: str) -> str:
        return f"shipped to {address}"

    return app.job(queue="people")(confirm), app.job()(ship)


class Promises:
    """The same on both databases."""

    async def test_with_an_output(self, place: Place) -> None:
        """Named by chain, job, id or UUID; what comes back is the job as it is now."""
        confirm, _ = _order(place.app)
        for name in (lambda chain: chain, lambda chain: chain.id, lambda chain: UUID(chain.id), place.client.get_job):
            chain = await settled(place.client.enqueue(confirm.call(1)))
            job = await settled(place.client.complete_job(await settled(name(chain)), "yes"))
            assert (job.id, job.status, job.output, job.completed_by) == (chain.id, Status.COMPLETED, "yes", None)
            assert await settled(place.client.wait(chain)) == "yes"

    async def test_with_a_call(self, place: Place) -> None:
        """The chain goes on: a worker runs the next job, and the chain's output is that one's."""
        confirm, ship = _order(place.app)
        chain = await settled(place.client.enqueue(confirm.call(1), tenant="acme"))
        job = await settled(place.client.complete_job(chain, ship.call("Vienna").options(priority=-3)))
        assert (job.chain_id, job.chain_index, job.status) == (chain.id, 1, Status.PENDING)
        assert (job.type_name, job.queue, job.tenant, job.priority) == ("ship", "default", "acme", -3)
        await adrain(place.app, queues=["default"])
        assert await settled(place.client.wait(chain)) == "shipped to Vienna"

    async def test_several_steps(self, place: Place) -> None:
        """In one call; only the last may be an output."""
        confirm, ship = _order(place.app)
        chain = await settled(place.client.enqueue(confirm.call(1)))
        with pytest.raises(InvalidOption, match="must be the last"):
            await settled(place.client.complete_chain(chain, "yes", ship.call("Graz")))
        assert (await settled(place.client.get_job(chain))).status is Status.PENDING
        job = await settled(place.client.complete_chain(chain, confirm.call(2), ship.call("Graz"), "by hand"))
        assert (job.type_name, job.output, job.chain_index) == ("ship", "by hand", 2)
        page = await settled(place.client.list_chain_jobs(chain))
        assert [(each.type_name, each.status.value, each.completed_by) for each in page.items] == [
            ("confirm", "completed", None),
            ("confirm", "completed", None),
            ("ship", "completed", None),
        ]
        assert await settled(place.client.wait(chain)) == "by hand"

    async def test_step_by_step(self, place: Place) -> None:
        """The chain's last job is meant, however far it has come."""
        confirm, ship = _order(place.app)
        chain = await settled(place.client.enqueue(confirm.call(1)))
        for number in (2, 3):
            await settled(place.client.complete_chain(chain, confirm.call(number)))
        await settled(place.client.complete_chain(chain.id, ship.call("Linz")))
        await settled(place.client.complete_chain(chain, "done"))
        assert (await settled(place.client.get_chain(chain))).job_count == 4
        with pytest.raises(AlreadyFinished, match="completed"):
            await settled(place.client.complete_chain(chain, "again"))

    async def test_outputs_are_checked(self, place: Place) -> None:
        """Against the job type, where the app knows it; else any JSON will do."""
        confirm, ship = _order(place.app)
        chain = await settled(place.client.enqueue(confirm.call(1)))
        before = await settled(place.client.get_job(chain))
        for wrong in (17, None, ["yes"], object(), float("nan")):
            with pytest.raises(InvalidPayload, match="confirm"):
                await settled(place.client.complete_job(chain, wrong))
        with pytest.raises(InvalidPayload, match="ship"):
            await settled(place.client.complete_chain(chain, ship.call("Wels"), 17))
        assert await settled(place.client.get_job(chain)) == before
        stranger = App(place.url, notify=False)
        async with stranger.async_client() as client:
            job = await client.complete_job(chain.id, {"any": [1, None]})
            assert job.output == {"any": [1, None]}
        stranger.close()

    async def test_without_an_output(self, place: Place) -> None:
        """None, for those who return nothing."""

        def tell() -> None: ...

        job = place.app.job()(tell)
        for complete in (place.client.complete_job, place.client.complete_chain):
            chain = await settled(place.client.enqueue(job.call()))
            assert (await settled(complete(chain))).output is None
            assert await settled(place.client.wait(chain)) is None

    async def test_unknown(self, place: Place) -> None:
        with pytest.raises(JobNotFound):
            await settled(place.client.complete_job(new_id(), 1))
        with pytest.raises(ChainNotFound):
            await settled(place.client.complete_chain(new_id(), 1))
        with pytest.raises(InvalidOption, match="id="):
            await settled(place.client.complete_job("no id", 1))

    @pytest.mark.parametrize("commits", [True, False])
    async def test_in_a_transaction(self, place: Place, commits: bool) -> None:
        """With the caller's writes or not at all; a refusal leaves the transaction usable."""
        confirm, ship = _order(place.app)
        chain, other, done = await settled(place.client.enqueue_many([confirm.call(1)] * 3))
        dependant = await settled(place.client.enqueue(ship.call("Steyr"), blockers=[chain]))
        await settled(place.client.complete_job(done, "before"))
        connection = await place.connect()
        try:
            await settled(place.client.complete_job(chain, "yes", tx=connection))
            await settled(place.client.complete_chain(other, ship.call("Enns"), tx=connection))
            with pytest.raises(AlreadyFinished):
                await settled(place.client.complete_job(done, "again", tx=connection))
            with pytest.raises(InvalidPayload):
                await settled(place.client.complete_chain(other, 17, tx=connection))
            assert (await settled(place.client.get_job(chain))).status is Status.PENDING
            if place.app.store.dialect == "postgres":
                cursor = await settled(connection.execute("SHOW synchronous_commit"))
                assert await settled(cursor.fetchall()) == [("on",)]
            await settled(connection.commit() if commits else connection.rollback())
        finally:
            await settled(connection.close())
        statuses = [(await settled(place.client.get_chain(each))).status for each in (chain, other, dependant)]
        assert statuses == [Status.COMPLETED if commits else Status.PENDING, Status.PENDING,
                            Status.PENDING if commits else Status.BLOCKED]  # fmt: skip
        assert (await settled(place.client.get_chain(other))).job_count == (2 if commits else 1)

    async def test_the_running_handler_learns_of_it(self, place: Place) -> None:
        """It is cancelled and told why, and its own ending changes nothing."""
        started = asyncio.Event()
        told: list[Any] = []

        async def long(ctx: Context) -> str:
            started.set()
            try:
                await asyncio.sleep(60)
            finally:
                told.append(ctx.cancelled)
            return "inside"

        job = place.app.job()(long)
        chain = await settled(place.client.enqueue(job.call()))
        config = WorkerConfig(renew=timedelta(seconds=0.2), poll=timedelta(seconds=0.1))
        async with place.app.worker(config=config):
            await started.wait()
            await settled(place.client.complete_job(chain, "outside"))
            async with asyncio.timeout(15):
                while not told:  # noqa: ASYNC110 - the handler's end is what is waited for
                    await asyncio.sleep(0.01)
        assert told == [Cancellation.COMPLETED_ELSEWHERE]
        found = await settled(place.client.get_job(chain))
        assert (found.status, found.output, found.completed_by) == (Status.COMPLETED, "outside", None)


class TestSqlite(Promises):
    """Jobs in a file."""

    @pytest.fixture
    def place(self, sqlite_place: Place) -> Place:
        return sqlite_place


class TestPostgres(Promises):
    """Jobs in each PostgreSQL that is installed."""

    @pytest.fixture
    def place(self, postgres_place: Place) -> Place:
        return postgres_place
