"""Hints through NATS: a queue group of those who wait, so that each message wakes one, and a subject per process."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time

import nats
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from holdfast.notify.counting import MOST_TOKENS, CountingNotifier

_GROUP = "waiting"
#: how often a hint is passed on by those who turn out to be busy
_MOST_HOPS = 5
#: how long a member that does not wait any more stays one: many wait again at once
_STAY_SECONDS = 0.5
_PING_SECONDS = 15
_FLUSHING_SECONDS = 5
#: a client whose server is gone may not want to go
_CLOSING_SECONDS = 2.0
_LOST = "the connection was lost"


class NatsNotifier(CountingNotifier):
    """Joins the group of a queue when somebody here begins to wait for it, and leaves when nobody does.

    NATS keeps nothing: what was said between somebody's last look and his joining is lost.  So who joins looks once.
    """

    name = "NATS"

    @property
    def errors(self) -> tuple[type[BaseException], ...]:
        return (nats.errors.Error, OSError, TimeoutError)

    async def _session(self) -> None:
        self._lost = lost = asyncio.Event()
        leaving = asyncio.Event()

        async def note_loss() -> None:
            if not leaving.is_set():
                # At once: to find out by what fails next may take seconds.
                self.board.fall_deaf()
            lost.set()
            self._stir.set()

        reasons: list[Exception] = []

        async def note_reason(error: Exception) -> None:
            """Said again by what fails because of it, but not by a connection that was refused."""
            reasons[:] = [error]

        # Reconnecting is ours: it begins with a look, and what is unsent by then is dropped.  Left alone, the client
        # would try to make its first connection for two minutes.
        try:
            client = await nats.connect(
                self._url,
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=5,
                ping_interval=_PING_SECONDS,
                max_outstanding_pings=2,
                error_cb=note_reason,
                disconnected_cb=note_loss,
                closed_cb=note_loss,
                name="holdfast",
            )
        except nats.errors.NoServersError as error:
            raise ConnectionError(str(reasons[0] if reasons else error)) from error
        self._members: dict[str, Subscription] = {}
        self._idle_until: dict[str, float] = {}
        self._hops: dict[str, int] = {}
        self._holding: set[asyncio.Task[None]] = set()
        try:
            await client.subscribe(self._inbox(self._address), cb=self._hear_letter)
            await self._flush(client)
            self._be_heard()
            while not self._is_over:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_STAY_SECONDS if self._members else None):
                        await self._stir.wait()
                self._stir.clear()
                if lost.is_set():
                    raise ConnectionError(_LOST)
                await self._join_and_leave(client)
                await self._send(client)
        finally:
            leaving.set()
            for task in self._holding:
                task.cancel()
            with contextlib.suppress(*self.errors):
                async with asyncio.timeout(_CLOSING_SECONDS):
                    await client.close()

    async def _flush(self, client: Client) -> None:
        """Until the server has everything; a flush would not notice that its connection is lost."""
        flushing = asyncio.create_task(client.flush(_FLUSHING_SECONDS))
        losing = asyncio.create_task(self._lost.wait())
        try:
            await asyncio.wait([flushing, losing], return_when=asyncio.FIRST_COMPLETED)
        finally:
            losing.cancel()
            flushing.cancel()
        if not flushing.done():
            raise ConnectionError(_LOST)
        flushing.result()

    async def _send(self, client: Client) -> None:
        work, letters = self._outgoing()
        for queue, count in work.items():
            # Nobody here waits for it, and as a member we might be given it, and perhaps end before it is passed on.
            await self._leave(queue)
            hops = self._hops.pop(queue, 0)
            for _ in range(min(count, MOST_TOKENS)):
                await client.publish(self._subject(queue), f"{hops} {queue}".encode())
        for letter in letters:
            await client.publish(self._inbox(letter.inbox), letter.text.encode())
        if work or letters:
            await self._flush(client)

    async def _join_and_leave(self, client: Client) -> None:
        now = time.monotonic()
        idle = self.board.idle_queues
        self._idle_until |= dict.fromkeys(idle, now + _STAY_SECONDS)
        joining = idle - self._members.keys()
        for queue in joining:
            self._members[queue] = await client.subscribe(self._subject(queue), queue=_GROUP, cb=self._hear_work)
        if joining:
            await self._flush(client)
            for queue in joining:
                self.board.tell_work(queue)
        for queue in [queue for queue in self._members if self._idle_until[queue] < now]:
            await self._leave(queue)

    async def _leave(self, queue: str) -> None:
        membership = self._members.pop(queue, None)
        if membership is not None:
            # What is on its way to us still comes, and is passed on.
            await membership.drain()  # type: ignore[no-untyped-call]  # nats-py leaves it without annotations

    async def _hear_work(self, message: Msg) -> None:
        hops, _, queue = message.data.decode().partition(" ")
        if not self.board.offer_work(queue):
            # Beside: those that came with it must not wait behind it.
            task = asyncio.create_task(self._hold(queue, int(hops)))
            self._holding.add(task)
            task.add_done_callback(self._holding.discard)

    async def _hold(self, queue: str, hops: int) -> None:
        if await self._was_taken(queue):
            return
        with contextlib.suppress(*self.errors):
            # First, or it might come back to us.
            await self._leave(queue)
        if hops < _MOST_HOPS:
            self._hops[queue] = hops + 1
            self._put_back(queue)

    async def _hear_letter(self, message: Msg) -> None:
        self._read(message.data.decode())

    def _subject(self, queue: str) -> str:
        """Names of queues may contain what subjects may not."""
        return f"{self._prefix}.work.{hashlib.sha256(queue.encode()).hexdigest()[:32]}"

    def _inbox(self, address: str) -> str:
        return f"{self._prefix}.inbox.{address.removeprefix('*')}"
