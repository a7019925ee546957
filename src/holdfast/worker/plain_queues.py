"""Which queues probably hold nothing but plain jobs, which a shorter statement claims."""

from __future__ import annotations

from collections.abc import Iterable

#: so many claims of a queue are not tried the short way after one that was in vain: a statement more for each of them
_WARY_CLAIMS = 50


class PlainQueues:
    """All of them, until a claim has met jobs with partition keys or limits; and again after a while."""

    def __init__(self) -> None:
        #: how many claims of a queue still go the long way at once
        self._wary: dict[str, int] = {}

    def are_worth_a_try(self, queues: Iterable[str]) -> bool:
        """Whether to try the short way for a claim of these; asked once for each claim."""
        if not self._wary:
            return True
        wary = self._wary.keys() & set(queues)
        for queue in wary:
            self._wary[queue] -= 1
            if not self._wary[queue]:
                del self._wary[queue]
        return not wary

    def were_not_plain(self, queues: Iterable[str]) -> None:
        """There were other jobs in one of these."""
        self._wary |= dict.fromkeys(queues, _WARY_CLAIMS)
