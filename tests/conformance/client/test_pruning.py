"""`client.admin` on both faces: prune, vacuum, and what is left to see of what is gone."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from holdfast import App, JobFilter, Keep, PruneCounts
from holdfast.errors import ChainNotFound, InvalidOption, JobNotFound
from holdfast.testing import adrain
from tests.conformance.client.conftest import Place, settled


def register(app: App, **options: Any) -> Any:
    async def bill(order_id: int) -> str:
        return f"paid {order_id}"

    return app.job(**options)(bill)


async def completed(place: Place, job: Any, count: int) -> list[Any]:
    """So many chains that have just completed; their types are known to the database."""
    chains: list[Any] = await settled(place.client.enqueue_many([job.call(order_id=n) for n in range(count)]))
    await adrain(place.app)
    return chains


async def test_older_than(place: Place) -> None:
    """What ended so long ago goes, whatever types say; what is gone is not found."""
    chains = await completed(place, register(place.app), 3)
    waiting = await settled(place.client.enqueue(place.app.call("bill", order_id=9), delay=3600))
    assert (await settled(place.client.admin.prune())).removed == 0
    assert (await settled(place.client.admin.prune(older_than=timedelta(hours=1)))).removed == 0
    dry = await settled(place.client.admin.prune(older_than=0, dry_run=True))
    assert (dry.removed, len(await place.jobs())) == (3, 4)
    seen: list[int] = []

    counts = await settled(place.client.admin.prune(older_than=0, progress=lambda counts: seen.append(counts.removed)))

    assert (counts.removed, counts.jobs, seen[-1]) == (3, 3, 3)
    assert [job.id for job in await place.jobs()] == [waiting.id]
    with pytest.raises(JobNotFound):
        await settled(place.client.get_job(chains[0].id))
    with pytest.raises(ChainNotFound):
        await settled(place.client.wait(chains[0].id, timeout=5))


async def test_the_archive_answers(place: Place) -> None:
    """Get, wait and new blockers find what is in the archive; lists do not show it, and verbs do not act on it."""
    (chain,) = await completed(place, register(place.app, keep=Keep(completed=0, archive=True)), 1)
    worker_knows = await settled(place.client.admin.prune())
    assert (worker_knows.archived, await place.jobs()) == (1, [])
    assert (await settled(place.client.get_job(chain.id))).output == "paid 0"
    assert (await settled(place.client.get_chain(chain))).status == "completed"
    assert await settled(place.client.wait(chain, timeout=5)) == "paid 0"
    (retried,) = await settled(place.client.retry(chain))
    assert retried.outcome == "not_found"
    behind = await settled(place.client.enqueue(place.app.call("bill", order_id=2), blockers=[chain]))
    (blocker,) = await settled(place.client.get_blockers(behind.id))
    assert (behind.status, blocker.output) == ("pending", "paid 0")


async def test_an_app_says_it_for_its_types(place: Place) -> None:
    """`App(keep=…)` goes for types that say nothing themselves."""
    app = App(place.url, notify=False, keep=Keep(completed=0, dead_letter="forever"))
    register(app)

    @app.job(keep=3600)
    async def own() -> None: ...

    with app.client() as client:
        client.enqueue_many([app.call("bill", order_id=1), own.call()])
        await adrain(app)
        counts = client.admin.prune()
        assert (counts.removed, [job.type_name for job in client.list_jobs().items]) == (1, ["own"])
    app.close()


async def test_vacuum(place: Place) -> None:
    """Room is given back; a file of ours becomes smaller bit by bit."""
    job = register(place.app)
    await settled(place.client.enqueue_many([job.call(order_id=n) for n in range(3000)]))
    await settled(place.client.cancel(JobFilter(status="pending")))
    assert (await settled(place.client.admin.prune(older_than=0))).removed == 3000
    slices: list[int] = []

    counts = await settled(place.client.admin.vacuum(progress=lambda counts: slices.append(counts.freed_pages)))

    assert counts.is_incremental
    assert counts.free_pages == 0
    if place.app.store.dialect == "sqlite":
        assert counts.freed_pages > 100
        assert slices[-1] == counts.freed_pages


async def test_files_of_others_are_rewritten_on_demand(sqlite_place: Place) -> None:
    """A file that cannot become smaller says so, and can afterwards."""
    connection = await sqlite_place.connect(autocommit=True)
    await settled(connection.execute("PRAGMA auto_vacuum = NONE"))
    await settled(connection.execute("VACUUM"))
    await settled(connection.close())
    assert not (await settled(sqlite_place.client.admin.vacuum())).is_incremental
    counts = await settled(sqlite_place.client.admin.vacuum(enable_incremental=True))
    assert (counts.is_incremental, counts.free_pages) == (True, 0)


async def test_postgres_has_no_file_to_rewrite(postgres_place: Place) -> None:
    with pytest.raises(InvalidOption, match="enable_incremental"):
        await settled(postgres_place.client.admin.vacuum(enable_incremental=True))


@pytest.mark.parametrize("older_than", [-1, "1d", True])
async def test_bad_ages(sqlite_place: Place, older_than: Any) -> None:
    """Named, and nothing goes."""
    with pytest.raises(InvalidOption, match="older_than"):
        await settled(sqlite_place.client.admin.prune(older_than=older_than))


@pytest.mark.parametrize(
    "keep", [{"completed": -1}, {"dead_letter": "never"}, {"cancelled": True}, {"archive": 1}, {"archive": "yes"}]
)
def test_bad_keeps(keep: dict[str, Any]) -> None:
    """Where they are written down."""
    with pytest.raises(InvalidOption, match=next(iter(keep))):
        Keep(**keep)


@pytest.mark.parametrize("keep", ["a week", [7], {"completed": 1}])
def test_bad_keeps_of_types(keep: Any) -> None:
    app = App("sqlite:///unused.db")
    with pytest.raises(InvalidOption, match="keep"):
        app.job(keep=keep)
    with pytest.raises(InvalidOption, match="keep"):
        App("sqlite:///unused.db", keep=keep)
    app.close()


def test_counts_add_up() -> None:
    counts = PruneCounts(removed=1)
    counts.add(removed=2, needed=1)
    assert counts == PruneCounts(removed=3, needed=1)
