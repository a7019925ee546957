"""What an async handler is given; `sync_context.py` is generated from this file by `python3 dev.py generate`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext, suppress
from functools import partial
from typing import Any, ParamSpec, TypeVar, cast, overload

from holdfast.errors import (
    ChainNotFound,
    DatabaseBusy,
    DatabaseUnavailable,
    InvalidInput,
    JobLocked,
    LeaseLost,
    SerializationConflict,
)
from holdfast.model.call import Call
from holdfast.model.identifiers import checked_name
from holdfast.operations.complete_jobs import complete_jobs
from holdfast.operations.continue_jobs import continue_jobs
from holdfast.operations.drive import adrive
from holdfast.operations.fence import hold_lease, spoil_transaction
from holdfast.operations.lease import Settlement
from holdfast.operations.notify_work import notify_work
from holdfast.operations.process_once import process_once
from holdfast.operations.save_progress import save_progress
from holdfast.operations.save_step import list_steps, save_step
from holdfast.operations.statement import Verb
from holdfast.stores.borrowed import AsyncBorrowed, AsyncOwnTransaction, AsyncTransaction
from holdfast.worker.base_context import BaseContext
from holdfast.worker.next_job import NextJob
from holdfast.worker.patient_store import PatientStore
from holdfast.worker.steps import acall

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

#: how long a write waits for a row that somebody has locked, or for a database that cannot be reached
_PATIENCE_SECONDS = 5.0
_FIRST_PAUSE = 0.005
_LONGEST_PAUSE = 0.2


class Context(BaseContext[PatientStore]):
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
        saved = (await self._saved_steps()).get(name)
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
        transaction of `ctx.transaction()` the function runs in a savepoint: if it fails you may go on.
        """
        codec = self._steps.begin(name, fn)
        saved = (await self._saved_steps()).get(name)
        if saved is None:
            borrowed = await self._store.borrow(tx)
            async with tx.savepoint() if isinstance(tx, AsyncOwnTransaction) else nullcontext():
                saved = codec.encode(await acall(fn, args, kwargs))
            text = saved.decode()
            await self._persist_on(borrowed, lambda: save_step(self._attempt.lease, name, text))
        return codec.decode(saved)

    async def _saved_steps(self) -> dict[str, bytes]:
        """Read once, and not at all where nobody can have saved one: under the first generation."""
        if self._saved is None:
            self._saved = {}
            if self.lease_generation > 1:
                found = await self._store.run(lambda: list_steps(self._attempt.job.id), read_only=True)
                self._saved = {step.name: bytes(step.result) for step in found}
        return self._saved

    # --- notes --------------------------------------------------------------------------------------------------------

    async def progress(self, value: object, *, tx: AsyncTransaction | None = None) -> None:
        """Note how far the job is, as any JSON value; whoever reads the job sees the last one.

        A holder that has lost the job gets LeaseLost. While another transaction has the job's row locked, the note is
        left out: the next one will say more.
        """
        text = self._encode("progress", value)
        if tx is not None:
            borrowed = await self._store.borrow(tx)
            await self._persist_on(borrowed, lambda: save_progress(self._attempt.lease, text))
            return
        try:
            await self._store.run(lambda: save_progress(self._attempt.lease, text))
        except LeaseLost as error:
            self._told(error)
            raise

    async def once(self, key: str, *, tx: AsyncTransaction) -> bool:
        """Whether this is the first transaction to come here with `key`, for jobs of this type, of those that commit.

        True: do the work in the same transaction. False: it is done, by an earlier attempt or another job. A key is
        kept for 30 days.
        """
        checked_name("key", key)
        borrowed = await self._store.borrow(tx)
        async with self._spoiling(borrowed):
            return await adrive(process_once(self._attempt.lease, self._attempt.type_name, key), borrowed.execute)

    # --- the end of the job on a transaction of the handler's own -----------------------------------------------------

    async def complete(self, output: object = None, *, tx: AsyncTransaction) -> None:
        """Complete the job in your transaction: it is finished with your writes, or neither happens.

        Commit, then return; what you return is not used. A holder that has lost the job gets LeaseLost, and the
        transaction cannot be committed. If it was not committed when the handler leaves, the attempt has failed with
        CompletionNotCommitted.
        """
        completion = self._attempt.completion(output)
        await self._finish(tx, lambda: complete_jobs(self._attempt.worker_id, [completion]))

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
        return cast("R", next_job)

    async def _finish(self, tx: AsyncTransaction, verb: Verb[Settlement]) -> None:
        borrowed = await self._store.borrow(tx)
        # From here on only the database knows.
        self._attempt.is_self_completed = True
        async with self._spoiling(borrowed):
            # First, and without taking "completed already" for a success: a second transaction must not commit.
            await self._insist_on(borrowed, lambda: hold_lease(self._attempt.lease))
            try:
                settlement = await adrive(verb(), borrowed.execute)
            except (InvalidInput, ChainNotFound):
                # Refused before anything was written: the job is as it was, and may end otherwise.
                self._attempt.is_self_completed = False
                raise
            hints = self._equipment.hints
            woken = settlement.woken
            if woken and not borrowed.on_commit(partial(hints.send, woken)) and hints.channel is not None:
                await adrive(notify_work(hints.channel, woken), borrowed.execute)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncOwnTransaction]:
        """A transaction on the job's own database, for handlers that have no connection at hand.

        Committed at the end of the block if the job is still this handler's, rolled back if not, or if the block
        raises. `tx.execute(text, parameters)` runs SQL in the driver's style, `tx.savepoint()` is a block that may fail
        alone, and `tx` can be passed wherever a tx= is wanted.
        """
        async with self._store.transaction() as tx:
            yield tx
            if not self._attempt.is_self_completed:
                await self._insist_on(tx.borrowed, lambda: hold_lease(self._attempt.lease))

    # --- ways to the database -----------------------------------------------------------------------------------------

    @property
    def _store(self) -> PatientStore:
        return self._equipment.store

    async def _persist(self, verb: Verb[bool]) -> None:
        """On a connection of our own, until it is done: the fence makes a repetition harmless."""
        began = time.monotonic()
        pause = _FIRST_PAUSE
        while True:
            try:
                if await self._store.run(verb):
                    return
                if time.monotonic() - began > _PATIENCE_SECONDS:
                    raise JobLocked(self._attempt.job.id, time.monotonic() - began)
            except LeaseLost as error:
                self._told(error)
                raise
            except DatabaseBusy:
                raise
            except (DatabaseUnavailable, SerializationConflict):
                if time.monotonic() - began > _PATIENCE_SECONDS:
                    raise
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def _persist_on(self, borrowed: AsyncBorrowed, verb: Verb[bool]) -> None:
        """On the handler's connection; if that cannot be, its transaction must not commit."""
        async with self._spoiling(borrowed):
            await self._insist_on(borrowed, verb)

    async def _insist_on(self, borrowed: AsyncBorrowed, verb: Verb[bool]) -> None:
        """Renewals lock the row for a moment; whoever has it for longer is a transaction that this one is not."""
        began = time.monotonic()
        pause = _FIRST_PAUSE
        while not await adrive(verb(), borrowed.execute):
            if time.monotonic() - began > _PATIENCE_SECONDS:
                raise JobLocked(self._attempt.job.id, time.monotonic() - began)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    @asynccontextmanager
    async def _spoiling(self, borrowed: AsyncBorrowed) -> AsyncIterator[None]:
        """What was to be tied to the job cannot be: whoever swallows the error still cannot commit the rest."""
        try:
            yield
        except (LeaseLost, JobLocked) as error:
            if isinstance(error, LeaseLost):
                self._told(error)
            with suppress(Exception):  # it fails, that is its purpose
                await adrive(spoil_transaction(f"job {self._attempt.job.id} is not held any more"), borrowed.execute)
            raise
