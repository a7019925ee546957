"""Fixtures for pytest, loaded by the entry point of the package."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.app import App
from holdfast.client import Client
from holdfast.model.clock import FakeClock
from holdfast.testing.temporary import temporary_app


@pytest.fixture
def holdfast_source_app() -> App | None:
    """Override it in your conftest.py to return your application's `App`: `holdfast_app` then has its job types."""
    return None


@pytest.fixture
def holdfast_clock() -> FakeClock:
    """The clock of `holdfast_app`: stands still until `advance`d."""
    return FakeClock()


@pytest.fixture
def holdfast_app(holdfast_source_app: App | None, holdfast_clock: FakeClock) -> Iterator[App]:
    """An app on a private temporary SQLite file, with the job types of `holdfast_source_app`."""
    with temporary_app(holdfast_source_app, clock=holdfast_clock) as app:
        yield app


@pytest.fixture
def holdfast_client(holdfast_app: App) -> Iterator[Client]:
    """A client of `holdfast_app`."""
    with holdfast_app.client() as client:
        yield client
