"""What an async handler is given; `sync_context.py` is generated from this file by `python3 dev.py generate`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, nullcontext, suppress
from datetime import datetime
from functools import partial
from typing import Any, Literal, ParamSpec, TypeVar, Unpack, cast, overload

from holdfast.errors import (
    ChainNotFound,
    ChildFailed,
    DatabaseBusy,
    DatabaseUnavailable,
    InvalidInput,
    JobLocked,
    LeaseLost,
    SerializationConflict,
)
from holdfast.model.call import Call, EnqueueOptions
from holdfast.model.clock import Duration
from holdfast.model.identifiers import checked_name
from holdfast.model.job import Chain
from holdfast.model.payload import PayloadCodec
from holdfast.operations.children import await_children, save_children
from holdfast.operations.complete_jobs import complete_jobs
from holdfast.operations.continue_jobs import continue_jobs
from holdfast.operations.drive import adrive
from holdfast.operations.fence import hold_lease, spoil_transaction
from holdfast.operations.lease import Settlement
from holdfast.operations.notify_work import notify_work
from holdfast.operations.process_once import process_once
from holdfast.operations.read_blockers import read_children
from holdfast.operations.save_progress import save_progress
from holdfast.operations.save_step import SavedStep, list_steps, save_step
from holdfast.operations.signal_chain import heard_in, take_signal
from holdfast.operations.statement import Verb
from holdfast.stores import AsyncAccess
from holdfast.stores.borrowed import AsyncBorrowed, AsyncOwnTransaction, AsyncTransaction
from holdfast.worker.base_context import BaseContext, as_datetime
from holdfast.worker.next_job import NextJob
from holdfast.worker.steps import acall
from holdfast.worker.waits import (
    Known,
    NoDefault,
    Patience,
    are_over,
    checked_calls,
    checked_policy,
    checked_sleep,
    checked_timeout,
    children_of,
    gathered,
    outcome_of,
    results_of,
    saved_chains,
)

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
D = TypeVar("D")
A1 = TypeVar("A1")
A2 = TypeVar("A2")
A3 = TypeVar("A3")
A4 = TypeVar("A4")
A5 = TypeVar("A5")


class Context(BaseContext[AsyncAccess]):
    """For `async def` handlers; `client` is an `AsyncClient`."""

    # --- steps --------------------------------------------------------------------------------------------------------

    @overload
    async def step(self, name: str, fn: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    async def step(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    async def step(self, name: str, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Do a part of the job once: its result is saved, and later attempts get it without calling `fn`.

        The result comes back through JSON, on the first run too, in the type that `fn` says it returns. A name may be
        used once in a run. A failing step is not saved, and the job's retry policy applies.

            receipt = await ctx.step("charge", charge_card, order_id)
        """
        codec = self._steps.begin(name, fn)
        known = await self._saved_step(name)
        saved: Any = None if known is None else known.result
        if saved is None:
            saved = codec.encode(await acall(fn, args, kwargs))
            text = saved.decode()
            await self._persist(lambda: save_step(self._attempt.lease, name, text))
        return codec.decode(saved)

    @overload
    async def step_tx(
        self, tx: AsyncTransaction, name: str, fn: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...
    @overload
    async def step_tx(
        self, tx: AsyncTransaction, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...
    async def step_tx(
        self, tx: AsyncTransaction, name: str, fn: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Any:
        """A step that is saved if and only if your transaction commits, together with what `fn` wrote in it.

        A holder that has lost the job cannot save: LeaseLost is raised, and the transaction cannot be committed. In a
        transaction of `ctx.transaction()` the function runs in a savepoint: if it fails you may go on. After a rollback
        you may repeat the transaction with the same names.
        """
        with self._steps.begin_in_transaction(name, fn) as (codec, is_repeated):
            known = await self._saved_step(name)
            saved: Any = None if known is None else known.result
            if saved is None or is_repeated:
                borrowed = await self._store.borrow(tx)
                if is_repeated:
                    steps = await adrive(list_steps(self._attempt.job.id), borrowed.execute)
                    self._steps.refuse_saved(name, [step.name for step in steps])
                async with tx.savepoint() if isinstance(tx, AsyncOwnTransaction) else nullcontext():
                    saved = codec.encode(await acall(fn, args, kwargs))
                text = saved.decode()
                await self._persist_on(tx, borrowed, lambda: save_step(self._attempt.lease, name, text))
            return codec.decode(saved)

    async def _saved_step(self, name: str, kind: str | None = None) -> SavedStep | None:
        """What an earlier attempt has saved under the name."""
        return self._as_saved((await self._saved_steps()).get(name), name, kind)

    async def _saved_steps(self) -> dict[str, SavedStep]:
        """Read once, and not at all where nobody can have saved one: under the first generation."""
        if self._saved is None:
            self._saved = {}
            if self.lease_generation > 1:
                self._saved = await self._read_steps()
        return self._saved

    async def _read_steps(self) -> dict[str, SavedStep]:
        found = await self._store.run(lambda: list_steps(self._attempt.job.id), read_only=True)
        return {step.name: step for step in found}

    # --- waits without a slot -----------------------------------------------------------------------------------------

    async def sleep(self, name: str, delay: Duration | None = None, *, until: datetime | None = None) -> None:
        """Go on after `delay`, or at `until`; the slot is given back meanwhile, and the attempt is not counted.

        The run of the handler ends here, by an exception that is to pass, and a later one comes here through its saved
        steps: only what is inside steps is not repeated. The end is decided when the job first comes here, and stays,
        whatever crashes. Names are those of steps, and used once in a run.

            await ctx.sleep("trial", timedelta(days=14))
        """
        end = checked_sleep(delay, until)
        self._refuse_wait("ctx.sleep")
        self._steps.use(name)
        saved = await self._saved_step(name, "sleep")
        # By the database's clock: the job became claimable then.
        if saved is None or saved.ends_at is None or saved.ends_at > as_datetime(self._attempt.job.ready_at):
            raise self._suspended("sleep", f"the end of {name!r}", name=name, **end)

    @overload
    async def wait_signal(
        self,
        name: str,
        timeout: Duration | None = None,
        *,
        signal: str | None = None,
    ) -> Any: ...
    @overload
    async def wait_signal(
        self,
        name: str,
        timeout: Duration | None = None,
        *,
        signal: str | None = None,
        payload: type[R],
    ) -> R: ...
    @overload
    async def wait_signal(
        self,
        name: str,
        timeout: Duration | None = None,
        *,
        signal: str | None = None,
        default: object,
    ) -> Any: ...
    @overload
    async def wait_signal(
        self,
        name: str,
        timeout: Duration | None = None,
        *,
        signal: str | None = None,
        payload: type[R],
        default: D,
    ) -> R | D: ...
    async def wait_signal(
        self,
        name: str,
        timeout: Duration | None = None,
        *,
        signal: str | None = None,
        payload: Any = Any,
        default: object = NoDefault.TOKEN,
    ) -> Any:
        """The payload of the next signal that was sent to this chain with `client.signal`; waits for it without a slot.

        - `timeout` (none): after it SignalTimeout is raised, or `default` returned, if one is given. Counted from when
          the job first came here.
        - `signal` (the name): the signal's name, where the step is to have another one: several waits for signals of
          one name are several steps, and take them one by one, in the order in which they were sent.
        - `payload` (anything): its type.

        A signal that comes first is kept. Else as `sleep`.

            verdict = await ctx.wait_signal("approval", timedelta(days=3), default=None)
        """
        end = checked_timeout(timeout)
        wanted = name if signal is None else checked_name("signal", signal)
        self._refuse_wait("ctx.wait_signal")
        self._steps.use(name)
        codec: PayloadCodec[Any] = PayloadCodec(f"signal {wanted}", payload, self._payload_limit)
        saved = await self._saved_step(name, "signal")
        if saved is None or saved.is_open:
            taken = await self._persist(lambda: take_signal(self._attempt.lease, name, wanted))
            heard = taken.heard
        else:
            heard = heard_in(saved.result)
        if heard is None:
            raise self._suspended("signal", f"the signal {wanted!r}", name=name, signal=wanted, **end)
        return outcome_of(heard, codec, self._attempt.job.id, wanted, default)

    # --- children -----------------------------------------------------------------------------------------------------

    async def enqueue(
        self,
        name: str,
        call: Call[R],
        *,
        tx: AsyncTransaction | None = None,
        **options: Unpack[EnqueueOptions],
    ) -> Chain[R]:
        """Enqueue a chain once, however often this job is run: a child, for `gather`, or to be left alone.

        It is a step: later runs get the same chain. With `tx` it is enqueued if and only if your transaction commits.
        Until the job has ended, nobody can delete its children; they live on when it is cancelled. Options as for
        `client.enqueue`.

            part = await ctx.enqueue("left", count_half.call(1))
        """
        chains = await self.enqueue_many(name, [call], tx=tx, **options)
        return chains[0]

    async def enqueue_many(
        self,
        name: str,
        calls: Iterable[Call[R]],
        *,
        tx: AsyncTransaction | None = None,
        **options: Unpack[EnqueueOptions],
    ) -> list[Chain[R]]:
        """Several at once, all or none, under one name; else as `enqueue`."""
        chosen = checked_calls(calls, len(self._children))
        if tx is None:
            chains = await self._enqueue_apart(name, chosen, options)
        else:
            chains = await self._enqueue_with(tx, name, chosen, options)
        for chain, call in zip(chains, chosen, strict=True):
            self._children[chain.id] = Known(name, call.job_type.output)
        return chains

    async def _enqueue_with(
        self,
        tx: AsyncTransaction,
        name: str,
        calls: list[Call[Any]],
        options: EnqueueOptions,
    ) -> list[Chain[Any]]:
        with self._steps.use_in_transaction(name) as is_repeated:
            saved = await self._saved_step(name, "child")
            if saved is not None and not is_repeated:
                return saved_chains(saved, calls)
            borrowed = await self._store.borrow(tx)
            if is_repeated:
                steps = await adrive(list_steps(self._attempt.job.id), borrowed.execute)
                self._steps.refuse_saved(name, [step.name for step in steps])
            async with self._spoiling(tx, borrowed):
                return await self._enqueue_in(tx, borrowed, name, calls, options)

    async def _enqueue_apart(
        self,
        name: str,
        calls: list[Call[Any]],
        options: EnqueueOptions,
    ) -> list[Chain[Any]]:
        self._steps.use(name)
        saved = await self._saved_step(name, "child")
        patience = Patience()
        while saved is None:
            try:
                async with self._store.transaction() as own:
                    chains = await self._enqueue_in(own, own.borrowed, name, calls, options)
            except LeaseLost as error:
                self._told(error)
                raise
            except DatabaseBusy:
                raise
            except (DatabaseUnavailable, SerializationConflict):
                if patience.is_over:
                    raise
            else:
                for chain in chains:
                    chain.is_tentative = False
                return chains
            await asyncio.sleep(patience.pause())
            # The commit may have come through without its answer.
            saved = self._as_saved((await self._read_steps()).get(name), name, "child")
        return saved_chains(saved, calls)

    async def _enqueue_in(
        self,
        tx: Any,
        borrowed: AsyncBorrowed,
        name: str,
        calls: list[Call[Any]],
        options: EnqueueOptions,
    ) -> list[Chain[Any]]:
        """First the fence: whoever has lost the job enqueues nothing."""
        lease = self._attempt.lease
        await self._insist_on(borrowed, lambda: hold_lease(lease))
        chains: list[Chain[Any]] = await self.client.enqueue_many(calls, tx=tx, **options)
        children = children_of(chains)
        await self._insist_on(borrowed, lambda: save_children(lease, name, children))
        return chains

    @overload
    async def gather(
        self,
        children: Iterable[Chain[R]],
        /,
        *,
        on_failure: Literal["raise", "wait"] = "raise",
    ) -> tuple[R, ...]: ...
    @overload
    async def gather(
        self,
        child: Chain[A1],
        /,
        *,
        on_failure: Literal["raise", "wait"] = "raise",
    ) -> tuple[A1]: ...
    @overload
    async def gather(
        self,
        child1: Chain[A1],
        child2: Chain[A2],
        /,
        *,
        on_failure: Literal["raise", "wait"] = "raise",
    ) -> tuple[A1, A2]: ...
    @overload
    async def gather(
        self,
        child1: Chain[A1],
        child2: Chain[A2],
        child3: Chain[A3],
        /,
        *,
        on_failure: Literal["raise", "wait"] = "raise",
    ) -> tuple[A1, A2, A3]: ...
    @overload
    async def gather(
        self,
        child1: Chain[A1],
        child2: Chain[A2],
        child3: Chain[A3],
        child4: Chain[A4],
        /,
        *,
        on_failure: Literal["raise", "wait"] = "raise",
    ) -> tuple[A1, A2, A3, A4]: ...
    @overload
    async def gather(
        self,
        child1: Chain[A1],
        child2: Chain[A2],
        child3: Chain[A3],
        child4: Chain[A4],
        child5: Chain[A5],
        /,
        *,
        on_failure: Literal["raise", "wait"] = "raise",
    ) -> tuple[A1, A2, A3, A4, A5]: ...
    @overload
    async def gather(
        self,
        *children: Chain[R],
        on_failure: Literal["raise", "wait"] = "raise",
    ) -> tuple[R, ...]: ...
    @overload
    async def gather(
        self,
        children: Iterable[Chain[R]],
        /,
        *,
        on_failure: Literal["return"],
    ) -> tuple[R | ChildFailed, ...]: ...
    @overload
    async def gather(
        self,
        *children: Chain[R],
        on_failure: Literal["return"],
    ) -> tuple[R | ChildFailed, ...]: ...
    async def gather(
        self,
        *children: Any,
        on_failure: str = "raise",
    ) -> Any:
        """The outputs of children, in the order given, when all of them have ended; waits for them without a slot.

        - `children`: what `enqueue` returned, or one list of these.
        - `on_failure`: what a dead letter, or a cancelled one, means: "raise" (ChildFailed, which names the first; the
          job's retry policy applies), "return" (it stands in its place), or "wait" (until somebody has retried it, and
          it completes).

        Needs no name, because the outputs are kept by the children. Else as `sleep`.

            left, right = await ctx.gather(left, right)
        """
        policy = checked_policy(on_failure)
        wanted = gathered(children, self._children)
        self._refuse_wait("ctx.gather")
        states = {
            state.chain_id: state
            for state in await self._store.run(lambda: read_children(self._attempt.job.id), read_only=True)
        }
        if are_over(wanted, states, policy):
            return results_of(wanted, states, self._children, raises=on_failure != "return")
        there = {chain_id for chain_id in wanted if chain_id in states and states[chain_id].status is not None}
        await self._await_children(there, policy)
        raise self._suspended("children", f"{len(wanted)} children")

    async def _await_children(
        self,
        chain_ids: set[str],
        policy: Literal["run", "wait"],
    ) -> None:
        attempt = self._attempt
        patience = Patience()
        while True:
            try:
                async with self._store.transaction() as own:
                    verb = await_children(attempt.lease, attempt.job.chain_id or attempt.job.id, chain_ids, policy)
                    if await adrive(verb, own.borrowed.execute):
                        return
                if patience.is_over:
                    raise JobLocked(attempt.job.id, patience.spent)
            except LeaseLost as error:
                self._told(error)
                raise
            except DatabaseBusy:
                raise
            except (DatabaseUnavailable, SerializationConflict):
                if patience.is_over:
                    raise
            await asyncio.sleep(patience.pause())

    # --- notes --------------------------------------------------------------------------------------------------------

    async def progress(self, value: object, *, tx: AsyncTransaction | None = None) -> None:
        """Note how far the job is, as any JSON value; whoever reads the job sees the last one.

        A holder that has lost the job gets LeaseLost. While another transaction has the job's row locked, the note is
        left out: the next one will say more.
        """
        text = self._encode("progress", value)
        if tx is not None:
            borrowed = await self._store.borrow(tx)
            await self._persist_on(tx, borrowed, lambda: save_progress(self._attempt.lease, text))
            return
        try:
            await self._store.run(lambda: save_progress(self._attempt.lease, text))
        except LeaseLost as error:
            self._told(error)
            raise

    async def once(self, key: str, *, tx: AsyncTransaction) -> bool:
        """Whether this is the first transaction to come here with `key`, for jobs of this type, of those that commit.

        True: do the work in the same transaction. False: it is done, by an earlier attempt or another job, under
        whichever name of the type. A key is kept for 30 days.
        """
        checked_name("key", key)
        attempt = self._attempt
        borrowed = await self._store.borrow(tx)
        async with self._spoiling(tx, borrowed):
            verb = process_once(attempt.lease, attempt.type_name, key, aliases=attempt.aliases)
            return await adrive(verb, borrowed.execute)

    # --- the end of the job on a transaction of the handler's own -----------------------------------------------------

    async def complete(self, output: object = None, *, tx: AsyncTransaction) -> None:
        """Complete the job in your transaction: it is finished with your writes, or neither happens.

        Commit, then return; what you return is not used. A holder that has lost the job gets LeaseLost, and the
        transaction cannot be committed. If it was not committed when the handler leaves, the attempt has failed with
        CompletionNotCommitted.
        """
        completion = self._attempt.completion(output)
        await self._finish(tx, lambda: complete_jobs(self._attempt.worker_id, [completion]))
        self._attempt.self_continued = None

    async def continue_with(self, call: Call[R], *, tx: AsyncTransaction | None = None) -> R:
        """Finish the job by the next one of its chain; return what this gives.

        With `tx` the job is finished in your transaction, as with `complete`; without, when the handler has returned.
        The type is that of the chain's output, which the next job, or one after it, will have.

            return await ctx.continue_with(ship_order.call(order_id))
        """
        next_job = NextJob(call.next_document(self._equipment.ids.make(1)[0]))
        if tx is None:
            self._attempt.next_job = next_job
        else:
            continuation = self._attempt.continuation(next_job)
            await self._finish(tx, lambda: continue_jobs(self._attempt.worker_id, [continuation]))
            self._attempt.self_continued = (continuation.next.id, continuation.next.type_name)
        return cast("R", next_job)

    async def _finish(self, tx: AsyncTransaction, verb: Verb[Settlement]) -> None:
        borrowed = await self._store.borrow(tx)
        was_self_completed = self._attempt.is_self_completed
        # From here on only the database knows.
        self._attempt.is_self_completed = True
        async with self._spoiling(tx, borrowed):
            try:
                # First, and without taking "completed already" for a success: a second transaction must not commit.
                await self._insist_on(borrowed, lambda: hold_lease(self._attempt.lease))
                settlement = await adrive(verb(), borrowed.execute)
            except (LeaseLost, InvalidInput, ChainNotFound):
                # Refused before anything was written: the job is as it was, and may end otherwise. Not so where its row
                # was locked: what was to be committed with it is lost, and returning must not pass for success.
                self._attempt.is_self_completed = was_self_completed
                raise
            self._finished_in = tx
            hints = self._equipment.hints
            woken = settlement.woken
            if woken and not borrowed.on_commit(partial(hints.send, woken)) and hints.channel is not None:
                await adrive(notify_work(hints.channel, woken), borrowed.execute)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncOwnTransaction]:
        """A transaction on the job's own database, for handlers that have no connection at hand.

        Committed at the end of the block if the job is still this handler's, or was completed in it; if not, rolled
        back with LeaseLost, whatever the block has swallowed. Rolled back too if the block raises. `tx.execute(text,
        parameters)` runs SQL in the driver's style, `tx.savepoint()` is a block that may fail alone, and `tx` can be
        passed wherever a tx= is wanted.
        """
        async with self._store.transaction() as tx:
            yield tx
            await tx.check()
            try:
                await self._insist_on(tx.borrowed, lambda: hold_lease(self._attempt.lease))
            except LeaseLost as error:
                # What this very transaction has completed is still its own.
                if error.reason != "completed_here" or self._finished_in is not tx:
                    self._told(error)
                    raise

    # --- ways to the database -----------------------------------------------------------------------------------------

    @property
    def _store(self) -> AsyncAccess:
        return self._equipment.store

    async def _persist(self, verb: Verb[R | None]) -> R:
        """On a connection of our own, until it is done: the fence makes a repetition harmless."""
        patience = Patience()
        while True:
            try:
                if done := await self._store.run(verb):
                    return done
                if patience.is_over:
                    raise JobLocked(self._attempt.job.id, patience.spent)
            except LeaseLost as error:
                self._told(error)
                raise
            except DatabaseBusy:
                raise
            except (DatabaseUnavailable, SerializationConflict):
                if patience.is_over:
                    raise
            await asyncio.sleep(patience.pause())

    async def _persist_on(self, tx: AsyncTransaction, borrowed: AsyncBorrowed, verb: Verb[bool]) -> None:
        """On the handler's connection; if that cannot be, its transaction must not commit."""
        async with self._spoiling(tx, borrowed):
            await self._insist_on(borrowed, verb)

    async def _insist_on(self, borrowed: AsyncBorrowed, verb: Verb[bool]) -> None:
        """Renewals lock the row for a moment; whoever has it for longer is a transaction that this one is not."""
        patience = Patience()
        while not await adrive(verb(), borrowed.execute):
            if patience.is_over:
                raise JobLocked(self._attempt.job.id, patience.spent)
            await asyncio.sleep(patience.pause())

    @asynccontextmanager
    async def _spoiling(self, tx: AsyncTransaction, borrowed: AsyncBorrowed) -> AsyncIterator[None]:
        """What was to be tied to the job cannot be: whoever swallows the error still cannot commit the rest."""
        try:
            yield
        except (LeaseLost, JobLocked) as error:
            if isinstance(error, LeaseLost):
                self._told(error)
            if isinstance(tx, AsyncOwnTransaction):
                tx.refusal = error
            with suppress(Exception):  # it fails, that is its purpose
                await adrive(spoil_transaction(f"job {self._attempt.job.id} is not held any more"), borrowed.execute)
            with suppress(Exception):  # a connection that is lost commits nothing either
                await borrowed.refuse_commit()
            raise
