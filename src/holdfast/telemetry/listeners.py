"""Who listens to which events, and how they are told: at once, one after the other, in the thread where it happened."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from holdfast.errors import InvalidOption
from holdfast.telemetry.events import Event

_log = logging.getLogger("holdfast.events")

Listener = Callable[[Any], object]

#: a listener that fails is logged once in so long: events may come by the thousands
_LOG_SECONDS: Final = 1.0


class Listeners:
    """The listeners of an app, by the kind of event.

    `heard` is what is asked before anything is made: empty where nobody listens.
    """

    def __init__(self) -> None:
        self.heard: Mapping[type[Event], tuple[Listener, ...]] = {}
        self._added: list[tuple[Listener, tuple[type[Event], ...]]] = []
        #: of listeners that have failed: when it may be logged again, and how often it was not
        self._failed: dict[int, tuple[float, int]] = {}

    def add(self, listener: object, kinds: tuple[type[Event], ...]) -> None:
        """From now on; without `kinds`, all events. A kind stands for those below it too."""
        if not callable(listener) or _is_async(listener):
            raise InvalidOption(
                "listener", listener, "must be a plain function of one event: it is called, not awaited"
            )
        self._added.append((listener, kinds or (Event,)))
        # Another one each time, for a thread may just be walking it.
        self.heard = {
            kind: chosen
            for kind in _kinds(Event)
            if (chosen := tuple(each for each, of in self._added if issubclass(kind, of)))
        }

    def adopt(self, other: Listeners) -> None:
        """Tell those of another app too."""
        for listener, kinds in other._added:
            self.add(listener, kinds)

    def tell(self, events: Iterable[Event]) -> None:
        """Call who listens; what a listener raises harms nobody else."""
        heard = self.heard
        for event in events:
            for listener in heard.get(type(event), ()):
                try:
                    listener(event)
                except KeyboardInterrupt:
                    raise
                except BaseException:  # noqa: BLE001 - a listener that wants to exit, or was cancelled, has only failed
                    self._complain(listener, event)

    def _complain(self, listener: Listener, event: Event) -> None:
        now = time.monotonic()
        quiet_until, left_out = self._failed.get(id(listener), (now, 0))
        if now < quiet_until:
            self._failed[id(listener)] = (quiet_until, left_out + 1)
            return
        self._failed[id(listener)] = (now + _LOG_SECONDS, 0)
        name, more = getattr(listener, "__qualname__", listener), f", and {left_out} times before" if left_out else ""
        _log.exception("the listener %s failed at a %s%s", name, type(event).__name__, more)


def _is_async(listener: object) -> bool:
    called = type(listener).__call__ if callable(listener) else None
    return inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(called)


def _kinds(root: type[Event]) -> Iterator[type[Event]]:
    yield root
    for below in root.__subclasses__():
        yield from _kinds(below)
