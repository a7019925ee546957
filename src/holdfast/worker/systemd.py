"""Tells systemd how we are (`Type=notify`): ready, stopping, still alive; see sd_notify(3)."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from contextlib import suppress

from holdfast.worker.vitals import TakeVitals

_log = logging.getLogger("holdfast.systemd")

_LOOK_SECONDS = 0.25


class ServiceManager:
    """The datagram socket that NOTIFY_SOCKET names."""

    def __init__(self, address: str, watchdog_seconds: float | None) -> None:
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self.watchdog_seconds = watchdog_seconds
        self._is_ready_told = False
        self._is_stopping_told = False
        self._status = ""

    @classmethod
    def from_environment(cls) -> ServiceManager | None:
        """None if nobody asks. The variables are taken out: programs that handlers start are not the service."""
        address = os.environ.pop("NOTIFY_SOCKET", "")
        microseconds = os.environ.pop("WATCHDOG_USEC", "")
        watched_pid = os.environ.pop("WATCHDOG_PID", "")
        if not address.startswith(("/", "@")):
            return None
        is_watched = microseconds.isdigit() and int(microseconds) > 0 and watched_pid in {"", str(os.getpid())}
        return cls(address, int(microseconds) / 1e6 if is_watched else None)

    async def keep_informed(self, take_vitals: TakeVitals) -> None:
        """For ever; `say_stopping` is the caller's last word."""
        loop = asyncio.get_running_loop()
        pause = _LOOK_SECONDS if self.watchdog_seconds is None else min(_LOOK_SECONDS, self.watchdog_seconds / 4)
        next_sign = 0.0
        while True:
            vitals = take_vitals()
            if vitals.is_ready and not self._is_ready_told:
                self._is_ready_told = True
                self._send("READY=1")
            if vitals.summary != self._status:
                self._status = vitals.summary
                self._send(f"STATUS={vitals.summary}")
            if self.watchdog_seconds is not None and vitals.is_live and loop.time() >= next_sign:
                next_sign = loop.time() + self.watchdog_seconds / 2
                self._send("WATCHDOG=1")
            await asyncio.sleep(pause)

    def say_stopping(self) -> None:
        """Once, however often it is called."""
        if not self._is_stopping_told:
            self._is_stopping_told = True
            self._send("STOPPING=1")

    def _send(self, message: str) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as datagrams:
            datagrams.settimeout(0)
            with suppress(OSError):  # a service manager that does not listen must not hurt the service
                datagrams.sendto(message.encode(), self._address)
                return
        _log.debug("nobody heard %s", message)
