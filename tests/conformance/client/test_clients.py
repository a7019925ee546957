"""What a client promises, on both databases and both faces."""

from __future__ import annotations

import asyncio
import enum
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import pydantic
import pytest

from holdfast import App, Context, JobHandle, Retry, SyncContext
from holdfast.errors import (
    DatabaseBusy,
    DatabaseUnavailable,
    HoldfastError,
    InvalidCursor,
    InvalidOption,
    JobNotFound,
    NotMigrated,
    SchemaTooNew,
    StoreError,
)
from holdfast.model.ids import new_id
from holdfast.model.job import Outcome
from holdfast.model.status import Status
from holdfast.testing import Drained, FakeClock, adrain
from tests.conformance.backdoors import PostgresBackdoor, SqliteBackdoor
from tests.conformance.client.conftest import Place, settled


def _add(app: App) -> JobHandle[..., Any]:
    def add(a: int, b: int = 0) -> int:
        return a + b

    return app.job(queue="sums")(add)


class Colour(enum.Enum):
    RED = "red"


class Lane(enum.StrEnum):
    FAST = "fast"


class Corner(str, enum.Enum):  # noqa: UP042 - it is no StrEnum: its str() is not its value
    SLOW = "slow"


class Urgency(enum.IntEnum):
    HIGH = -3


@dataclass
class Point:
    x: float
    inner: dict[str, Any]


class Movie(TypedDict):
    title: str


class Pair(NamedTuple):
    left: int
    right: str


class Order(pydantic.BaseModel):
    number: int
    total: Decimal


_VALUES: dict[str, tuple[Any, Any]] = {
    "datetime": (datetime, datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)),
    "date": (date, date(2026, 1, 2)),
    "timedelta": (timedelta, timedelta(days=2, microseconds=3)),
    "decimal": (Decimal, Decimal("10.10")),
    "uuid": (uuid.UUID, uuid.UUID(int=77)),
    "enum": (Colour, Colour.RED),
    "dataclass": (Point, Point(0.1, {"a": [None, 1e300]})),
    "typed_dict": (Movie, Movie(title="M")),
    "named_tuple": (Pair, Pair(1, "r")),
    "pydantic": (Order, Order(number=1, total=Decimal("9.90"))),
    "bytes": (bytes, b"\x00\xff"),
    "big_integer": (int, 2**70),
    "float": (float, 1e300),
    "emoji": (str, "👩‍👩‍👧 \u2028 'quoted' \\u0041"),
    "none": (type(None), None),
    "optional": (int | None, None),
    "list_of_models": (list[Order], [Order(number=2, total=Decimal(1))]),
    "set": (set[int], {1, 2}),
}


class Promises:
    """The same on both databases."""

    async def test_batch(self, place: Place) -> None:
        """In order, with distinct ids, all created; options for all, those of a call win."""
        add = _add(place.app)
        calls = [add.call(1), add.call(2).options(priority=-5, tenant="own"), add.call(3)]
        chains = await settled(place.client.enqueue_many(calls, tenant="all", priority=9))
        jobs = await place.jobs()
        assert [job.id for job in jobs] == [chain.id for chain in chains]
        assert len({chain.id for chain in chains}) == 3
        assert [(chain.status, chain.outcome, chain.type_name) for chain in chains] == [
            ("pending", "created", "add")
        ] * 3
        assert [(job.input["a"], job.priority, job.tenant) for job in jobs] == [
            (1, 9, "all"),
            (2, -5, "own"),
            (3, 9, "all"),
        ]
        assert all(job.queue == "sums" for job in jobs)

    async def test_members_of_enums_are_names_and_numbers(self, place: Place) -> None:
        """One job and several, which go to the database in different ways."""
        add = _add(place.app)
        for queue in (Lane.FAST, Corner.SLOW):
            await settled(place.client.enqueue(add.call(1), queue=queue, priority=Urgency.HIGH))
            await settled(place.client.enqueue_many([add.call(2), add.call(3)], queue=queue, priority=Urgency.HIGH))
        jobs = await place.jobs()
        assert [(job.queue, job.priority) for job in jobs] == [("fast", -3)] * 3 + [("slow", -3)] * 3

    async def test_id_given_twice_is_kept(self, place: Place) -> None:
        """Enqueueing an id again changes nothing and says so, whatever became of the job."""
        add = _add(place.app)
        job_id = new_id()
        first = await settled(place.client.enqueue(add.call(1), id=job_id))
        second = await settled(place.client.enqueue(add.call(2), id=job_id.upper()))
        assert (first.outcome, second.outcome, second.id) == (Outcome.CREATED, Outcome.KEPT, job_id)
        await adrain(place.app)
        third = await settled(place.client.enqueue(add.call(3), id=job_id))
        assert (third.outcome, third.status) == (Outcome.KEPT, Status.COMPLETED)
        assert [job.input for job in await place.jobs()] == [{"a": 1}]

    async def test_id_in_other_spellings(self, place: Place) -> None:
        """A UUID object, capitals and braces name the same job."""
        chain = await settled(place.client.enqueue(_add(place.app).call(1)))
        for spelling in (uuid.UUID(chain.id), chain.id.upper(), f"{{{chain.id}}}", chain.id.replace("-", "")):
            assert (await settled(place.client.get_job(spelling))).id == chain.id

    @pytest.mark.parametrize("wrong", ["", "17", "not-a-uuid", "' OR 1=1 --", "\x00", 17, None])
    async def test_what_is_no_id(self, place: Place, wrong: object) -> None:
        """Refused by name before anything is sent."""
        call = _add(place.app).call(1)
        reads = (place.client.get_job, place.client.find_job, place.client.list_attempts)
        for attempt in (*reads, *([lambda given: place.client.enqueue(call, id=given)] if wrong is not None else [])):
            with pytest.raises(InvalidOption, match="id="):
                await settled(attempt(wrong))
        assert await place.jobs() == []

    async def test_times(self, place: Place) -> None:
        """The past means now; a delay counts from now; a time is kept."""
        add = _add(place.app)
        past = await settled(place.client.enqueue(add.call(1), at=datetime(2000, 1, 1, tzinfo=UTC)))
        later = await settled(place.client.enqueue(add.call(2), delay=timedelta(hours=1)))
        fixed = datetime(2999, 1, 1, 12, 30, 0, 5, tzinfo=UTC)
        exact = await settled(place.client.enqueue(add.call(3), at=fixed))
        job = await settled(place.client.get_job(past.id))
        assert job.scheduled_at == job.created_at == job.ready_at
        job = await settled(place.client.get_job(later.id))
        assert job.ready_at - job.created_at == pytest.approx(timedelta(hours=1), abs=timedelta(milliseconds=1))
        assert (await settled(place.client.get_job(exact.id))).ready_at == fixed
        assert await adrain(place.app) == Drained(completed=1)

    async def test_reading(self, place: Place) -> None:
        """get, find, list and attempts, with filters and pages."""
        add = _add(place.app)
        ids = [(await settled(place.client.enqueue(add.call(n), tenant=f"t{n % 2}"))).id for n in range(5)]
        client = place.client
        assert (await settled(client.find_job(ids[0]))).input == {"a": 0}
        assert await settled(client.find_job(new_id())) is None
        with pytest.raises(JobNotFound):
            await settled(client.get_job(new_id()))
        assert await settled(client.list_attempts(ids[0])) == []
        page = await settled(client.list_jobs(tenant="t0", limit=2, newest_first=False))
        assert [job.id for job in page.items] == [ids[0], ids[2]]
        rest = await settled(client.list_jobs(tenant="t0", limit=2, newest_first=False, cursor=page.next_cursor))
        assert ([job.id for job in rest.items], rest.next_cursor) == ([ids[4]], None)
        with pytest.raises(InvalidCursor):
            await settled(client.list_jobs(tenant="t1", cursor=page.next_cursor))

    @pytest.mark.parametrize("name", _VALUES)
    async def test_values_reach_the_handler_and_come_back(self, place: Place, name: str) -> None:
        """By type hint: what the caller passes is what an async and a plain handler see, and the output is stored."""
        annotation, value = _VALUES[name]
        seen: list[Any] = []

        async def asynchronous(ctx: Context, value: Any) -> Any:
            seen.append(value)
            return value

        def plain(ctx: SyncContext, value: Any) -> Any:
            seen.append(value)
            return value

        chains = []
        for handler in (asynchronous, plain):
            handler.__annotations__["value"] = handler.__annotations__["return"] = annotation
            job: JobHandle[..., Any] = place.app.job()(handler)
            chains.append(await settled(place.client.enqueue(job.call(value=value))))
        assert await adrain(place.app) == Drained(completed=2)
        assert seen == [value, value]
        assert [type(found) for found in seen] == [type(value)] * 2
        outputs = [(await settled(place.client.get_job(chain.id))).output for chain in chains]
        stored = (await settled(place.client.get_job(chains[0].id))).input["value"]
        assert outputs == [stored, stored]

    async def test_attempts_and_errors(self, place: Place) -> None:
        """A handler sees attempt 1, 2, 3 and, from the second on, the error before; each failure is remembered."""
        seen: list[tuple[int, str | None]] = []

        async def flaky(ctx: Context) -> str:
            before = ctx.job.last_attempt_error
            seen.append((ctx.attempt, before.message if before else None))
            if ctx.attempt < 3:
                raise ValueError(f"time {ctx.attempt}")
            return "done"

        job = place.app.job(retry=Retry(initial=0, jitter=0))(flaky)
        chain = await settled(place.client.enqueue(job.call()))
        assert await adrain(place.app) == Drained(completed=1, retried=2)
        assert seen == [(1, None), (2, "time 1"), (3, "time 2")]
        records = await settled(place.client.list_attempts(chain.id))
        assert [(record.attempt, record.outcome, record.error.type) for record in records] == [
            (1, "failed", "ValueError"), (2, "failed", "ValueError"),
        ]  # fmt: skip
        assert all("flaky" in record.error.traceback for record in records)

    async def test_output_of_the_wrong_type_fails_the_job(self, place: Place) -> None:
        """What a handler did not promise is not stored."""

        async def liar() -> int:
            return "seven"  # type: ignore[return-value]  # that is the lie

        job = place.app.job(retry=Retry(max_attempts=1))(liar)
        chain = await settled(place.client.enqueue(job.call()))
        assert await adrain(place.app) == Drained(dead=1)
        found = await settled(place.client.get_job(chain.id))
        assert (found.status, found.output, found.last_attempt_error.type) == ("dead_letter", None, "InvalidPayload")

    async def test_unknown_type_is_not_lost(self, place: Place) -> None:
        """A worker without the handler puts the job back, for one that has it."""
        add = _add(place.app)
        chain = await settled(place.client.enqueue(add.call(1)))
        stranger = App(place.url, notify=False)

        async def other() -> None: ...

        stranger.job(queue="sums")(other)
        drained = await adrain(stranger)
        assert drained == Drained(refused=drained.refused)
        assert drained.refused >= 1  # again after a second, if that has passed meanwhile
        found = await settled(place.client.get_job(chain.id))
        assert (found.status, found.attempt, found.last_attempt_error.type) == ("pending", 0, "UnknownJobType")
        stranger.close()

    async def test_shared_between_threads_or_tasks(self, place: Place) -> None:
        """One client, many users at once, nothing lost."""
        add = _add(place.app)
        if place.face == "sync":
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(lambda n: place.client.enqueue(add.call(n)), range(100)))
        else:
            await asyncio.gather(*(place.client.enqueue(add.call(n)) for n in range(100)))
        page = await settled(place.client.list_jobs(limit=1000))
        assert sorted(job.input["a"] for job in page.items) == list(range(100))

    async def test_closing(self, place: Place) -> None:
        """Twice is once, also before anything was opened; what was enqueued stays."""
        add = _add(place.app)
        await settled(place.client.enqueue(add.call(1)))
        await settled(place.client.close())
        await settled(place.client.close())
        unused = place.app.client() if place.face == "sync" else place.app.async_client()
        await settled(unused.close())
        await settled(unused.close())
        async with place.app.async_client() as fresh:
            assert (await fresh.list_jobs()).items[-1].input == {"a": 1}

    async def test_shorthands(self, place: Place) -> None:
        """`job.enqueue`, `job.aenqueue` and `.using` go through the app's own client."""
        add = _add(place.app)
        if place.face == "sync":
            chain = await asyncio.to_thread(add.using(priority=4).enqueue, a=1)
        else:
            chain = await add.using(priority=4).aenqueue(a=1)
            await (await place.app.shared_async_client()).close()
        assert (await settled(place.client.get_job(chain.id))).priority == 4

    async def test_too_new(self, place: Place) -> None:
        """A database that a newer release migrated: the error names the version, and a user's transaction goes on."""
        insert = "INSERT INTO {} (version, name, oldest_code) VALUES (9999, 'future', '99.0.0')"
        if place.app.store.dialect == "postgres":
            with closing(PostgresBackdoor(place.url)) as backdoor:
                backdoor.execute(insert.format("holdfast.migration"), {})
        else:
            SqliteBackdoor(place.url.removeprefix("sqlite:///")).execute(insert.format("holdfast_migration"), {})
        add = _add(place.app)
        with pytest.raises(SchemaTooNew, match=r"99\.0\.0"):
            await settled(place.client.enqueue(add.call(1)))
        connection = await place.connect()
        try:
            if place.app.store.dialect == "sqlite":
                await settled(connection.execute("CREATE TABLE orders (id integer)"))
            await settled(connection.execute("INSERT INTO orders VALUES (1)"))
            with pytest.raises(SchemaTooNew):
                await settled(place.client.enqueue(add.call(1), tx=connection))
            await settled(connection.commit())
            cursor = await settled(connection.execute("SELECT count(*) FROM orders"))
            assert await settled(cursor.fetchall()) == [(1,)]
        finally:
            await settled(connection.close())


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


@pytest.mark.parametrize("face", ["sync", "async"])
async def test_empty_batch_sends_nothing(face: str) -> None:
    """Not even a connection is opened: here there is no server."""
    app = App("postgresql://127.0.0.1:1/none", notify=False)
    client: Any = app.client() if face == "sync" else app.async_client()
    assert await settled(client.enqueue_many([])) == []
    await settled(client.close())


@pytest.mark.parametrize("face", ["sync", "async"])
async def test_not_migrated(face: str, empty_postgres_database: tuple[str, PostgresBackdoor]) -> None:
    """PostgreSQL without our tables: the error names the commands, and a user's transaction goes on."""
    url, backdoor = empty_postgres_database
    backdoor.execute("CREATE TABLE public.orders (id integer)", {})
    app = App(url, notify=False)
    add = _add(app)
    client: Any = app.client() if face == "sync" else app.async_client()
    here = Place(app, face, url, client)
    with pytest.raises(NotMigrated, match="holdfast migrate up"):
        await settled(client.enqueue(add.call(1)))
    connection = await here.connect()
    await settled(connection.execute("INSERT INTO orders VALUES (1)"))
    with pytest.raises(NotMigrated):
        await settled(client.enqueue(add.call(1), tx=connection))
    await settled(client.migrate())
    await settled(client.enqueue(add.call(1), tx=connection))
    await settled(connection.commit())
    await settled(connection.close())
    assert [job.input for job in await here.jobs()] == [{"a": 1}]
    await settled(client.close())


async def test_forgotten_tx(sqlite_place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite, inside one's own write transaction and without tx=: DatabaseBusy asks the right question."""
    monkeypatch.setattr("holdfast.stores.sqlite_writer.BUSY_SECONDS", 0.1)
    add = _add(sqlite_place.app)
    connection = await sqlite_place.connect()
    try:
        await settled(connection.execute("CREATE TABLE orders (id integer)"))
        await settled(connection.execute("INSERT INTO orders VALUES (1)"))
        with pytest.raises(DatabaseBusy, match="did you mean tx="):
            await settled(sqlite_place.client.enqueue(add.call(1)))
        await settled(sqlite_place.client.enqueue(add.call(2), tx=connection))
        await settled(connection.commit())
    finally:
        await settled(connection.close())
    assert [job.input for job in await sqlite_place.jobs()] == [{"a": 2}]


@pytest.mark.parametrize("face", ["sync", "async"])
@pytest.mark.parametrize(
    ("path", "error"),
    [("missing/directory/x.db", DatabaseUnavailable), ("garbage.db", StoreError), (".", DatabaseUnavailable)],
)
async def test_file_that_cannot_be_used(face: str, path: str, error: type[HoldfastError], tmp_path: Path) -> None:
    """A directory that is not there, a file that is no database: an error of ours with the path in it."""
    garbage = tmp_path / "garbage.db"
    garbage.write_bytes(b"not a database at all, but long enough to be looked at" * 40)
    app = App(f"sqlite:///{tmp_path / path}")
    add = _add(app)
    client: Any = app.client() if face == "sync" else app.async_client()
    with pytest.raises(error) as caught:
        await settled(client.enqueue(add.call(1)))
    assert str((tmp_path / path).resolve()) in str(caught.value)
    await settled(client.close())


async def test_own_payload_limit(sqlite_file: Path) -> None:
    """The app's limit holds for inputs and for outputs."""
    app = App(f"sqlite:///{sqlite_file}", payload_limit=100, clock=FakeClock())

    async def repeat(n: int) -> str:
        return "x" * n

    job = app.job(retry=Retry(max_attempts=1))(repeat)
    async with app.async_client() as client:
        await client.enqueue_many([job.call(98), job.call(99)])
        assert await adrain(app) == Drained(completed=1, dead=1)


async def test_ids_that_are_no_uuids(
    postgres_server: Any, empty_postgres_database: tuple[str, PostgresBackdoor]
) -> None:
    """With id_type text, the ids of one's own generator can be looked up."""
    numbers = iter(range(100))
    app = App(
        empty_postgres_database[0], id_type="text", auto_migrate=True, notify=False,
        new_ids=lambda count: [f"job-{next(numbers)}" for _ in range(count)],
    )  # fmt: skip
    add = _add(app)
    async with app.async_client() as client:
        chain = await client.enqueue(add.call(1))
        assert chain.id == "job-0"
        assert (await client.get_job("job-0")).input == {"a": 1}
