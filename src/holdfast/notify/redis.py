"""Hints through Redis or Valkey: tokens in a list per queue, each taken by one who waits, and a list per process.

All keys carry the prefix in braces, so that a cluster keeps them in one place.
"""

from __future__ import annotations

import asyncio
import contextlib

import redis.asyncio
from redis.exceptions import RedisError

from holdfast.notify.counting import MOST_TOKENS, CountingNotifier

#: tokens that nobody took are forgotten when everybody has looked by himself
_TOKEN_SECONDS = 10
_LETTER_SECONDS = 60
_MOST_LETTERS = 1000
#: a connection that is silent for longer than the server was asked to be is half open
_BLOCK_SECONDS = 5.0
_SOCKET_SECONDS = 15.0
_STIR = "!"


class RedisNotifier(CountingNotifier):
    """Takes tokens by BLPOP, so that each wakes one process; the same call waits for letters."""

    name = "Redis"

    @property
    def errors(self) -> tuple[type[BaseException], ...]:
        return (RedisError, OSError, TimeoutError)

    async def _session(self) -> None:
        client = redis.asyncio.Redis.from_url(
            self._url, decode_responses=True, socket_connect_timeout=5, socket_timeout=_SOCKET_SECONDS
        )
        async with client:
            await client.ping()
            self._be_heard()
            self._asked: frozenset[str] = frozenset()
            taking = asyncio.create_task(self._take(client))
            try:
                await self._send(client, taking)
            finally:
                taking.cancel()
                with contextlib.suppress(asyncio.CancelledError, *self.errors):
                    await taking

    async def _send(self, client: redis.asyncio.Redis, taking: asyncio.Task[None]) -> None:
        """What is outgoing; and a word to ourselves when what is asked for is not what somebody here waits for."""
        while not self._is_over:
            stirred = asyncio.create_task(self._stir.wait())
            await asyncio.wait([stirred, taking], return_when=asyncio.FIRST_COMPLETED)
            stirred.cancel()
            if taking.done():
                taking.result()
            self._stir.clear()
            work, letters = self._outgoing()
            pipe = client.pipeline(transaction=True)
            if not self._asked.isdisjoint(work) or not self.board.idle_queues <= self._asked:
                # Nobody here waits for what is outgoing; asked for by now, it would come back, and perhaps die with us.
                pipe.rpush(self._inbox_key(self._address), _STIR)
                pipe.expire(self._inbox_key(self._address), _LETTER_SECONDS)
            for queue, count in work.items():
                key = self._queue_key(queue)
                pipe.rpush(key, *[queue] * min(count, MOST_TOKENS))
                pipe.ltrim(key, -MOST_TOKENS, -1)
                pipe.expire(key, _TOKEN_SECONDS)
            for letter in letters:
                key = self._inbox_key(letter.inbox)
                pipe.rpush(key, letter.text)
                pipe.ltrim(key, -_MOST_LETTERS, -1)
                pipe.expire(key, _LETTER_SECONDS)
            if len(pipe):
                await pipe.execute()

    async def _take(self, client: redis.asyncio.Redis) -> None:
        inbox = self._inbox_key(self._address)
        holding: set[asyncio.Task[None]] = set()
        try:
            while True:
                self._asked = self.board.idle_queues
                keys = [inbox, *(self._queue_key(queue) for queue in sorted(self._asked))]
                taken = await client.blpop(keys, timeout=_BLOCK_SECONDS)
                if taken is None:
                    continue
                key, text = str(taken[0]), str(taken[1])
                if key == inbox:
                    self._read(text)
                elif not self.board.offer_work(text):
                    task = asyncio.create_task(self._hold(text))
                    holding.add(task)
                    task.add_done_callback(holding.discard)
        finally:
            for task in holding:
                task.cancel()

    async def _hold(self, queue: str) -> None:
        if not await self._was_taken(queue):
            self._put_back(queue)

    def _queue_key(self, queue: str) -> str:
        return f"{{{self._prefix}}}:work:{queue}"

    def _inbox_key(self, address: str) -> str:
        return f"{{{self._prefix}}}:inbox:{address}"
