"""The entry of a handler process: `python -m holdfast.app.handler_process SOCKET`, started by a worker."""

from __future__ import annotations

import socket
import sys
import types
from typing import Any

from holdfast.app.app import App
from holdfast.app.job_handle import JobHandle
from holdfast.worker.executors.handler_process import HandlerProcess, Kit


def make_kit(settings: dict[str, Any], found: object, module: types.ModuleType) -> Kit:
    """The handlers of the app that the code has, on the database that the worker's app has."""
    owner = found.app if isinstance(found, JobHandle) else _app_in(module)
    return App.like(owner, settings).handler_kit()


def _app_in(module: types.ModuleType) -> App:
    """Where a handler's name stands for something else than its job type: decorated once more, perhaps."""
    for value in vars(module).values():
        if isinstance(value, App):
            return value
        if isinstance(value, JobHandle):
            return value.app
    raise ImportError(f"{module.__name__} has neither an App nor a job type at its top level")


if __name__ == "__main__":
    HandlerProcess(socket.socket(fileno=int(sys.argv[1])), make_kit).serve()
