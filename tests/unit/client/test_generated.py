"""The sync client is what the generator makes of the async one."""

from __future__ import annotations

import inspect
from pathlib import Path

from holdfast.client import AsyncClient, Client
from tools.generate_client import SOURCE, TARGET, render


def test_client_is_fresh() -> None:
    """Edited by hand, or stale, it would differ."""
    assert Path(TARGET).read_text(encoding="utf-8") == render(Path(SOURCE).read_text(encoding="utf-8"))


def test_faces_have_the_same_methods() -> None:
    """Same names and parameters; what is awaited on one side is plain on the other."""
    names = {name for name, _ in inspect.getmembers(AsyncClient, inspect.isfunction) if not name.startswith("_")}
    assert names == {name for name, _ in inspect.getmembers(Client, inspect.isfunction) if not name.startswith("_")}
    for name in names:
        one, other = getattr(AsyncClient, name), getattr(Client, name)
        assert list(inspect.signature(one).parameters) == list(inspect.signature(other).parameters)
        assert not inspect.iscoroutinefunction(other)
