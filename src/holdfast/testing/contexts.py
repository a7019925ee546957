"""Contexts for calling a handler as the plain function it is, without a database or a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Generic, NamedTuple, NoReturn, TypedDict, TypeVar, Unpack, cast

from msgspec import Raw

from holdfast.client import AsyncClient, Client
from holdfast.model.call import Call
from holdfast.model.clock import Duration, iso
from holdfast.model.ids import Ids, checked_uuid, new_id
from holdfast.model.job import Chain, JobError, Outcome
from holdfast.model.payload import PayloadCodec, from_json, to_json
from holdfast.model.status import Status
from holdfast.operations.claim_jobs import ClaimedJob
from holdfast.operations.drive import adrive, drive
from holdfast.operations.lease import Lease
from holdfast.operations.read_blockers import Blocker
from holdfast.operations.save_step import SavedStep
from holdfast.operations.signal_chain import Heard
from holdfast.operations.statement import Rows, Statement, Verb
from holdfast.worker import Cancellation, Context, Equipment, Hints, SyncContext
from holdfast.worker.attempt import Attempt
from holdfast.worker.next_job import NextJob
from holdfast.worker.waits import Known, NoDefault, checked_calls, checked_policy, checked_sleep, gathered, outcome_of

R = TypeVar("R")
T = TypeVar("T")
S = TypeVar("S")


class AttemptValues(TypedDict, total=False):
    """What a context may be told about its attempt.

    - `attempt` (1), `lease_generation` (the attempt), `cancelled` (None).
    - `job_id` (a new one), `type_name` ("test"), `queue` ("default"), `priority` (0), `input` ({}), `tenant`,
      `headers`, `max_attempts`, `timeout_ms`, `crash_count`, `chain_id` (the job's), `chain_index` (0): for `ctx.job`.
    - `last_attempt_error` (None): what the attempt before failed with.
    - `created_at` (now): when the job was enqueued.
    - `steps` (none): results of steps that an earlier attempt saved, by name.
    - `processed` (none): keys for which `ctx.once` is False.
    - `blockers` (none): for `ctx.blockers`.
    - `signals` (none): payloads that `ctx.wait_signal` finds, by the name of the step; for what is not here, the time
      is over.
    - `children` (none): what `ctx.gather` finds as outputs, by the name under which they are enqueued; a list of them
      for `ctx.enqueue_many`.
    """

    attempt: int
    lease_generation: int
    cancelled: Cancellation | None
    job_id: str
    type_name: str
    queue: str
    priority: int
    input: object
    tenant: str | None
    headers: dict[str, str] | None
    max_attempts: int | None
    timeout_ms: int | None
    crash_count: int
    chain_id: str
    chain_index: int
    last_attempt_error: JobError | None
    created_at: datetime
    steps: Mapping[str, object]
    processed: Sequence[str]
    blockers: Sequence[Blocker]
    signals: Mapping[str, object]
    children: Mapping[str, object]


class LoggedLine(NamedTuple):
    """What a handler wrote with `ctx.log`."""

    level: str
    message: str
    fields: dict[str, Any]


class Notes:
    """What a handler left behind, for a test to look at.

    - `steps`: results of saved steps by name; `progress`: all values noted; `logged`: all lines.
    - `processed`: keys of `ctx.once`.
    - `slept`: how long, or until when, by name; `enqueued`: the calls of children by name.
    - `completed_with`: the output of `ctx.complete(…)`; `continued_with`: the call of `ctx.continue_with(…)`.
    """

    def __init__(self, values: AttemptValues) -> None:
        self.steps: dict[str, Any] = dict(values.get("steps", {}))
        self.progress: list[Any] = []
        self.logged: list[LoggedLine] = []
        self.processed: set[str] = set(values.get("processed", ()))
        self.slept: dict[str, Duration | datetime] = {}
        self.enqueued: dict[str, list[Call[Any]]] = {}
        self.completed_with: object = None
        self.continued_with: Call[Any] | None = None

    def write(self, lease: Lease, level: str, message: str, fields: bytes | None) -> None:  # noqa: ARG002 - as a journal does
        self.logged.append(LoggedLine(level, message, {} if fields is None else from_json(fields)))

    def answer(self, statement: Statement) -> Rows:
        """As a database in which nothing goes wrong."""
        values = cast("dict[str, Any]", statement.parameters)
        match statement.name:
            case "save_step":
                self.steps[values["name"]] = from_json(values["result"])
            case "save_progress":
                self.progress.append(from_json(values["progress"]))
            case "list_steps":
                return []  # nothing is known here of transactions and their ends
            case "process_once":
                is_first = values["key"] not in self.processed
                self.processed.add(values["key"])
                return [("first" if is_first else "repeated",)]
        return [("held",)]


class _Fake(Generic[S]):
    """What the two kinds share."""

    def __init__(self, values: AttemptValues, client: object, store: Callable[[Notes], S]) -> None:
        #: what the handler left behind
        self.notes = Notes(values)
        self._signals = values.get("signals", {})
        self._places: dict[str, int] = {}
        self._outputs = values.get("children", {})
        hints = Hints(lambda _: None)
        equipment = Equipment(client, store(self.notes), self.notes, Ids(), hints)
        super().__init__(_attempt(values), equipment)  # type: ignore[call-arg]  # a context's
        self._saved: dict[str, SavedStep] | None = {
            name: SavedStep(name, 0, datetime.now(UTC), Raw(to_json(result)))
            for name, result in self.notes.steps.items()
        }

    def _slept(self, name: str, delay: Duration | None, until: datetime | None) -> None:
        checked_sleep(delay, until)
        self._steps.use(name)  # type: ignore[attr-defined]  # a context's
        self.notes.slept[name] = until or cast("Duration", delay)

    def _heard(self, name: str, signal: str | None, payload: Any, default: object) -> Any:
        self._steps.use(name)  # type: ignore[attr-defined]  # as above
        codec: PayloadCodec[Any] = PayloadCodec(f"signal {name}", payload)
        said = Raw(codec.encode(self._signals[name])) if name in self._signals else Raw(b"null")
        heard = Heard(said, timed_out=name not in self._signals)
        return outcome_of(heard, codec, self.job.id, signal or name, default)  # type: ignore[attr-defined]  # as above

    def _enqueued(self, name: str, calls: Iterable[Call[Any]]) -> list[Chain[Any]]:
        self._steps.use(name)  # type: ignore[attr-defined]  # as above
        self.notes.enqueued[name] = chosen = checked_calls(calls, 0)
        chains: list[Chain[Any]] = [
            Chain(new_id(), call.job_type.name, Status.PENDING, Outcome.CREATED) for call in chosen
        ]
        for place, (chain, call) in enumerate(zip(chains, chosen, strict=True)):
            self._children[chain.id] = Known(name, call.job_type.output)  # type: ignore[attr-defined]  # as above
            self._places[chain.id] = place
        return chains

    def _gathered(self, children: Sequence[object], on_failure: str) -> tuple[Any, ...]:
        checked_policy(on_failure)
        results = [self._output_of(each) for each in gathered(children, self._children)]  # type: ignore[attr-defined]  # as above
        for result in results:
            if isinstance(result, BaseException) and on_failure != "return":
                raise result
        return tuple(results)

    def _output_of(self, chain_id: str) -> Any:
        name, codec = self._children[chain_id]  # type: ignore[attr-defined]  # as above
        if name not in self._outputs:
            raise KeyError(f"gather: no output of child {name!r}; pass context(children={{{name!r}: …}})")
        output = self._outputs[name]
        if len(self.notes.enqueued[name]) > 1:
            output = cast("Sequence[object]", output)[self._places[chain_id]]
        return output if isinstance(output, BaseException) else codec.decode(codec.encode(output))

    def _continued(self, call: Call[R]) -> R:
        self.notes.continued_with = call
        return cast("R", NextJob(call.next_document(new_id())))


class FakeContext(_Fake["_AsyncNotebook"], Context):
    """A `Context` whose `cancelled` can be set; `notes` has what the handler left behind."""

    @property
    def cancelled(self) -> Cancellation | None:
        return self._attempt.cancelled

    @cancelled.setter
    def cancelled(self, reason: Cancellation | None) -> None:
        self._attempt.cancelled = reason

    async def complete(self, output: object = None, *, tx: object) -> None:  # noqa: ARG002 - nothing is written
        """Note the output."""
        self.notes.completed_with = output

    async def continue_with(self, call: Call[R], *, tx: object = None) -> R:  # noqa: ARG002 - as above
        """Note the call; what it returns is for the worker only."""
        return self._continued(call)

    async def sleep(self, name: str, delay: Duration | None = None, *, until: datetime | None = None) -> None:
        """Note it, and go on at once."""
        self._slept(name, delay, until)

    async def wait_signal(
        self,
        name: str,
        timeout: Duration | None = None,  # noqa: ARG002 - it is over, or not
        *,
        signal: str | None = None,
        payload: Any = Any,
        default: object = NoDefault.TOKEN,
    ) -> Any:
        """What the test gave as `signals`."""
        return self._heard(name, signal, payload, default)

    async def enqueue(self, name: str, call: Call[R], *, tx: object = None, **options: object) -> Chain[R]:  # noqa: ARG002 - nothing is written
        """Note the call."""
        return self._enqueued(name, [call])[0]

    async def enqueue_many(
        self,
        name: str,
        calls: Iterable[Call[R]],
        *,
        tx: object = None,  # noqa: ARG002 - as above
        **options: object,  # noqa: ARG002 - as above
    ) -> list[Chain[R]]:
        """Note the calls."""
        return self._enqueued(name, calls)

    async def gather(self, *children: Any, on_failure: str = "raise") -> Any:
        """What the test gave as `children`."""
        return self._gathered(children, on_failure)

    def transaction(self) -> NoReturn:
        """There is no database."""
        raise RuntimeError(_NO_DATABASE)


class FakeSyncContext(_Fake["_Notebook"], SyncContext):
    """A `SyncContext` whose `cancelled` can be set; `notes` has what the handler left behind."""

    @property
    def cancelled(self) -> Cancellation | None:
        return self._attempt.cancelled

    @cancelled.setter
    def cancelled(self, reason: Cancellation | None) -> None:
        self._attempt.cancelled = reason

    def complete(self, output: object = None, *, tx: object) -> None:  # noqa: ARG002 - nothing is written
        """Note the output."""
        self.notes.completed_with = output

    def continue_with(self, call: Call[R], *, tx: object = None) -> R:  # noqa: ARG002 - as above
        """Note the call; what it returns is for the worker only."""
        return self._continued(call)

    def sleep(self, name: str, delay: Duration | None = None, *, until: datetime | None = None) -> None:
        """Note it, and go on at once."""
        self._slept(name, delay, until)

    def wait_signal(
        self,
        name: str,
        timeout: Duration | None = None,  # noqa: ARG002 - it is over, or not
        *,
        signal: str | None = None,
        payload: Any = Any,
        default: object = NoDefault.TOKEN,
    ) -> Any:
        """What the test gave as `signals`."""
        return self._heard(name, signal, payload, default)

    def enqueue(self, name: str, call: Call[R], *, tx: object = None, **options: object) -> Chain[R]:  # noqa: ARG002 - nothing is written
        """Note the call."""
        return self._enqueued(name, [call])[0]

    def enqueue_many(
        self,
        name: str,
        calls: Iterable[Call[R]],
        *,
        tx: object = None,  # noqa: ARG002 - as above
        **options: object,  # noqa: ARG002 - as above
    ) -> list[Chain[R]]:
        """Note the calls."""
        return self._enqueued(name, calls)

    def gather(self, *children: Any, on_failure: str = "raise") -> Any:
        """What the test gave as `children`."""
        return self._gathered(children, on_failure)

    def transaction(self) -> NoReturn:
        """There is no database."""
        raise RuntimeError(_NO_DATABASE)


_NO_DATABASE = "ctx.transaction(): this context has no database; run the job with temporary_app(…) and drain(…)"


def context(*, client: AsyncClient | None = None, **values: Unpack[AttemptValues]) -> FakeContext:
    """A context for an `async def` handler; see `AttemptValues` for what it may be told.

    `client` is what the handler finds as `ctx.client`; using it without giving one is an error that says so. Whatever
    is passed as tx= is left alone.

        ctx = holdfast.testing.context(attempt=3)
        result = await send_receipt.fn(ctx, order_id=1, email="a@b.c")
        assert ctx.notes.steps == {"mail": "sent"}
    """
    return FakeContext(values, client or _NoClient("context"), _AsyncNotebook)


def sync_context(*, client: Client | None = None, **values: Unpack[AttemptValues]) -> FakeSyncContext:
    """A context for a `def` handler; otherwise as `context`."""
    return FakeSyncContext(values, client or _NoClient("sync_context"), _Notebook)


def _attempt(values: AttemptValues) -> Attempt:
    number = values.get("attempt", 1)
    job_id = checked_uuid(values["job_id"]) if "job_id" in values else new_id()
    error = values.get("last_attempt_error")
    headers = values.get("headers")
    job = ClaimedJob(
        id=job_id,
        lease_generation=values.get("lease_generation", number),
        type_name=values.get("type_name", "test"),
        input=to_json(values.get("input", {})),
        attempt=number,
        queue=values.get("queue", "default"),
        priority=values.get("priority", 0),
        ready_at=iso(values.get("created_at") or datetime.now(UTC)),
        seq=1,
        timeout_ms=values.get("timeout_ms"),
        claimed_at=None,
        crash_count=values.get("crash_count"),
        chain_id=values.get("chain_id"),
        chain_index=values.get("chain_index"),
        chain_type_name=None,
        created_at=None,
        scheduled_at=None,
        max_attempts=values.get("max_attempts"),
        last_attempt_error=None if error is None else to_json(error),
        tenant=values.get("tenant"),
        headers=None if headers is None else to_json(headers),
        has_blockers=None,
        partition_key=None,
        partition_seq=None,
        standing=None,
    )
    attempt = Attempt(job, None, "test-worker")
    attempt.cancelled = values.get("cancelled")
    attempt.blockers = list(values.get("blockers", ()))
    return attempt


class _Notebook:
    """Where a store would be."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def run(self, verb: Verb[T], *, read_only: bool = False) -> T:  # noqa: ARG002 - as a store does
        return drive(verb(), self.execute)

    def borrow(self, tx: object) -> _Notebook:  # noqa: ARG002 - whatever it is
        return self

    def execute(self, statement: Statement) -> Rows:
        return self._notes.answer(statement)


class _AsyncNotebook:
    """The same, awaited."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    async def run(self, verb: Verb[T], *, read_only: bool = False) -> T:  # noqa: ARG002 - as a store does
        return await adrive(verb(), self.execute)

    async def borrow(self, tx: object) -> _AsyncNotebook:  # noqa: ARG002 - whatever it is
        return self

    async def execute(self, statement: Statement) -> Rows:
        return self._notes.answer(statement)


class _NoClient:
    def __init__(self, maker: str) -> None:
        self._maker = maker

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"ctx.client.{name}: this context has no client; pass one with {self._maker}(client=…)")
