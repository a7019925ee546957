"""A handler process runs the worker's script anew, for its functions; it must not become a worker by that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.errors import WorkerCannotWork

_importing: list[bool] = []


@contextmanager
def importing_main() -> Iterator[None]:
    """Around the run of somebody's script."""
    _importing.append(True)
    try:
        yield
    finally:
        _importing.pop()


def refuse_while_importing() -> None:
    """Called where a worker is made, and where something is enqueued without further ado."""
    if _importing:
        raise WorkerCannotWork(
            'this script is imported for a handler with executor="process", and would start a worker by that; '
            'put what it does below: if __name__ == "__main__":'
        )
