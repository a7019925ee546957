"""migrate: from nothing to this code's schema, once, whoever comes first."""

from __future__ import annotations

import asyncio

from holdfast.errors import HoldfastError, NotMigrated, SchemaTooNew
from holdfast.model.ids import new_id
from holdfast.model.status import Status
from holdfast.operations.get_job import find_job
from holdfast.operations.migrate import read_migrations
from holdfast.testing.conformance.case import POSTGRES, Cases
from holdfast.testing.conformance.harness import Harness, lease_of, refused

CASES = Cases("migrate")


@CASES.on_empty
async def fresh_and_repeated(h: Harness) -> None:
    """Everything is applied once, in order; a second time there is nothing to do."""
    applied = await h.migrate()
    assert [migration.version for migration in applied] == list(range(1, len(applied) + 1))
    assert await h.migrate() == []
    assert await h.run(read_migrations, read_only=True) == applied
    await h.ensure_ready()
    await _works(h)


@CASES.on_empty
async def twenty_at_once(h: Harness) -> None:
    """Race: one of them applies each migration, nobody fails, and all can work."""
    stores = h.neighbours(20)
    results = await asyncio.gather(*(store.migrate() for store in stores))
    applied = [migration.version for result in results for migration in result]
    assert applied == list(range(1, len(applied) + 1))
    assert h.count("migration") == len(applied)
    await asyncio.gather(*(store.ensure_ready() for store in stores))
    await _works(h)


@CASES.on_empty
async def verbs_before_it_say_what_is_missing(h: Harness) -> None:
    """A verb on an empty database raises NotMigrated, which tells the way out."""
    error = await refused(NotMigrated, h.run(lambda: find_job(new_id()), read_only=True))
    assert "migrate" in str(error)


async def _not_ready(h: Harness) -> None:
    error = await refused(NotMigrated, h.ensure_ready())
    assert error.found == 0
    assert error.needed >= 1
    assert "holdfast migrate up" in str(error)
    await h.migrate()
    await h.ensure_ready()


CASES.add(
    "empty_database_is_refused",
    "Nothing is created behind the user's back.",
    _not_ready,
    dialects=POSTGRES,
    is_on_empty=True,
)


async def _migrates_itself(h: Harness) -> None:
    async with h.sibling(auto_migrate=True) as own:
        await own.ensure_ready()
        await _works(own)


CASES.add(
    "auto_migrate_does_it_on_first_use",
    "Asked to, and SQLite always, a store migrates itself.",
    _migrates_itself,
    is_on_empty=True,
)


@CASES
async def from_the_future_is_refused(h: Harness) -> None:
    """A schema that no longer allows this code is refused, and the version needed is named."""
    _add_version(h, 9_999, "99.1.0")
    async with h.sibling() as other:
        error = await refused(SchemaTooNew, other.ensure_ready())
    assert (error.found, error.oldest_code) == (9_999, "99.1.0")
    assert "99.1.0" in str(error)


@CASES
async def newer_but_compatible_is_accepted(h: Harness) -> None:
    """A newer schema that still allows this code is worked with, so that deploys need no stop."""
    _add_version(h, 9_999, "0.1.0")
    async with h.sibling() as other:
        await other.ensure_ready()
        await _works(other)


@CASES.on_empty
async def failed_migration_leaves_nothing(h: Harness) -> None:
    """If a step fails, none of the others stays; once the obstacle is gone, it works."""
    if h.dialect == "postgres":
        h.sql('CREATE SCHEMA "holdfast"')
    h.sql("CREATE TABLE {setting} (obstacle integer)")
    await refused(HoldfastError, h.migrate())
    if h.dialect == "postgres":
        left = h.sql("SELECT table_name FROM information_schema.tables WHERE table_schema = 'holdfast'")
    else:
        left = h.sql("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'holdfast%'")
    assert [name.removeprefix("holdfast_") for (name,) in left] == ["setting"]
    h.sql("DROP TABLE {setting}")
    await h.migrate()
    await _works(h)


@CASES.on_empty
async def prefixes_live_side_by_side(h: Harness) -> None:
    """Two prefixes in one database are two worlds."""
    async with h.sibling(prefix="left_") as left, h.sibling(prefix="right_") as right:
        await left.migrate()
        await right.migrate()
        await _works(left)
        assert (left.count("job"), right.count("job")) == (1, 0)
        await _works(right)


@CASES.on_empty
async def empty_prefix(h: Harness) -> None:
    """No prefix at all, with tables named as they are."""
    async with h.sibling(prefix="") as plain:
        await plain.migrate()
        await _works(plain)


@CASES.on_empty
async def longest_prefix(h: Harness) -> None:
    """The longest prefix that is accepted leaves all names distinct."""
    async with h.sibling(prefix="p" * 31) as other:
        await other.migrate()
        await _works(other)


async def _schemas(h: Harness) -> None:
    async with h.sibling(schema="jobs_of_1") as first, h.sibling(schema="select", prefix="t_") as second:
        await first.migrate()
        await second.migrate()
        await _works(first)
        await _works(second)
    names = h.sql("SELECT nspname FROM pg_namespace WHERE nspname IN ('jobs_of_1', 'select', 'holdfast') ORDER BY 1")
    assert names == [("jobs_of_1",), ("select",)]


CASES.add(
    "custom_schemas",
    "Two schemas, one named like a keyword; the default one is not made.",
    _schemas,
    dialects=POSTGRES,
    is_on_empty=True,
)


async def _text_ids(h: Harness) -> None:
    async with h.sibling(id_type="text") as other:
        await other.migrate()
        await _works(other)
        rows = other.sql("SELECT id FROM {job}")
        assert isinstance(rows[0][0], str)


CASES.add("ids_as_text", "With id_type text every verb works.", _text_ids, dialects=POSTGRES, is_on_empty=True)


@CASES
async def status_table_says_what_the_code_says(h: Harness) -> None:
    """The reference table has every state, terminal and claimable as in the model."""
    rows = h.sql("SELECT status, is_terminal, is_claimable FROM {job_status}")
    found = {status: (bool(is_terminal), bool(is_claimable)) for status, is_terminal, is_claimable in rows}
    assert found == {str(status): (status.is_terminal, status.is_claimable) for status in Status}


def _add_version(h: Harness, version: int, oldest_code: str) -> None:
    text = "INSERT INTO {migration} (version, name, oldest_code) VALUES (:version, 'future', :oldest_code)"
    h.sql(text, version=version, oldest_code=oldest_code)


async def _works(h: Harness) -> None:
    """A job from enqueue to every kind of end."""
    job_id = await h.put_one(input={"n": 1})
    (claimed,) = await h.claim()
    assert claimed.id == job_id
    lease = lease_of(claimed)
    await h.renew(lease)
    await h.release(lease)
    lease = await h.claim_one()
    await h.fail(lease)
    await h.claim(worker="gone")
    assert (await h.reap()).returned == 1
    h.sql("UPDATE {job} SET crash_count = 0")
    h.clock.advance(3600)
    settlement = await h.complete(await h.claim_one(), output="2")
    assert not settlement.lost
    job = await h.job(job_id)
    assert (job.status, job.output, job.attempt, len(await h.attempts(job_id))) == (Status.COMPLETED, 2, 3, 2)
