"""Registration and composition."""

from __future__ import annotations

import importlib.util
import sys
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from holdfast import App, Call, Context, Retry, SyncContext
from holdfast.errors import DuplicateJobType, HoldfastError, InvalidJobType, InvalidOption, UnknownJobType


@pytest.fixture
def app(tmp_path: Path) -> App:
    return App(f"sqlite:///{tmp_path / 'never-opened.db'}")


def test_names_and_policies(app: App) -> None:
    """The function's name unless another is given; policies as asked."""

    @app.job(queue="mail", priority=-3, retry=Retry(max_attempts=8), timeout=timedelta(seconds=2))
    async def send(order_id: int) -> str:
        """Send it."""
        return str(order_id)

    @app.job(name="other.name")
    def plain() -> None: ...

    assert (send.name, plain.name) == ("send", "other.name")
    assert set(app.job_types) == {"send", "other.name"}
    kind = send.job_type
    assert (kind.queue, kind.priority, kind.retry.max_attempts, kind.timeout) == ("mail", -3, 8, timedelta(seconds=2))
    assert send.__doc__ == "Send it."


async def test_plain_function_stays_callable(app: App) -> None:
    """`.fn` is the function itself; calling the handle says what to do instead."""

    @app.job()
    async def double(n: int) -> int:
        return 2 * n

    assert await double.fn(4) == 8
    with pytest.raises(TypeError, match=r"double\.enqueue.*double\.fn"):
        double(n=4)


def test_call_by_name(app: App) -> None:
    """A registered name, or an error that lists what there is."""

    @app.job()
    def known(a: int) -> None: ...

    assert isinstance(app.call("known", a=1), Call)
    with pytest.raises(UnknownJobType, match=r"'unknown'.*registered: known") as caught:
        app.call("unknown")
    assert (caught.value.type_name, caught.value.known) == ("unknown", ("known",))


def test_duplicate_names(app: App) -> None:
    """Two functions of one name are refused, with both places."""

    @app.job(name="same")
    def first() -> None: ...

    with pytest.raises(DuplicateJobType, match=r"same.*test_app\.py:\d+.*test_app\.py:\d+"):

        @app.job(name="same")
        def second() -> None: ...


def test_module_imported_twice(app: App, tmp_path: Path) -> None:
    """A module that runs as __main__ and is imported under its name defines its jobs once."""
    path = tmp_path / "tasks.py"
    path.write_text("def work() -> None: ...\n", encoding="utf-8")
    for name in ("tasks_as_main", "tasks_as_module"):
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        app.job()(module.work)
    assert list(app.job_types) == ["work"]


def _generator():  # type: ignore[no-untyped-def]  # noqa: ANN202 - without a hint nothing else gives it away
    yield 1


async def _async_generator():  # type: ignore[no-untyped-def]  # noqa: ANN202 - as above
    yield 1


async def _wants_sync(ctx: SyncContext) -> None: ...
def _wants_async(ctx: Context) -> None: ...
def _bad_output() -> object: ...


class _Callable:
    def __call__(self) -> None: ...


@pytest.mark.parametrize(
    "wrong",
    [
        _wants_sync, _wants_async, _bad_output, _Callable(), _Callable, partial(print), 7, None, "name", _generator,
        _async_generator,
    ],
    ids=lambda value: getattr(value, "__name__", repr(value))[:30],
)  # fmt: skip
def test_refused_functions(app: App, wrong: Any) -> None:
    """What could not run as a job is refused when it is defined."""
    with pytest.raises(InvalidJobType):
        app.job()(wrong)
    assert app.job_types == {}


def test_decorator_without_parentheses(app: App) -> None:
    """The commonest slip gets its own words."""
    with pytest.raises(InvalidJobType, match="parentheses"):

        @app.job  # type: ignore[call-overload]  # that is the slip
        def work() -> None: ...


@pytest.mark.parametrize(
    ("option", "wrong"),
    [
        ("name", ""),
        ("name", "x" * 201),
        ("queue", "a\x00"),
        ("queue", 5),
        ("priority", 1.5),
        ("priority", 40_000),
        ("priority", True),
        ("retry", 5),
        ("timeout", -1),
        ("timeout", 0),
        ("timeout", "1m"),
    ],
)
def test_bad_options_of_a_job(app: App, option: str, wrong: Any) -> None:
    """Named in the error, and nothing is registered."""

    def work() -> None: ...

    with pytest.raises(InvalidOption) as caught:
        app.job(**{option: wrong})(work)
    assert caught.value.option == option
    assert app.job_types == {}


@pytest.mark.parametrize(
    ("option", "wrong"),
    [
        ("name", ""),
        ("schema", "a b"),
        ("schema", 'a"b'),
        ("schema", "a.b"),
        ("prefix", "a'b"),
        ("channel", "a b"),
        ("id_type", "int"),
        ("synchronous", "off"),
        ("journal", "memory"),
        ("pool_size", 0),
        ("pool_size", "10"),
        ("payload_limit", 0),
        ("payload_limit", "1M"),
    ],
)
def test_bad_options_of_an_app(option: str, wrong: Any, tmp_path: Path) -> None:
    """Named in the error, before any database is touched."""
    with pytest.raises(InvalidOption) as caught:
        App(f"sqlite:///{tmp_path / 'x.db'}", **{option: wrong})
    assert caught.value.option == option
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "wrong",
    [
        "", "mysql://x", "sqlite:", "sqlite://x.db", "sqlite:///", "sqlite:///:memory:", "sqlite:///x.db?mode=ro",
        "x.db", "/srv/x.db",
    ],
)  # fmt: skip
def test_bad_urls(wrong: str) -> None:
    """What names no database that we know is refused, with the forms that are."""
    with pytest.raises(InvalidOption, match=r"sqlite:///|must name a file") as caught:
        App(wrong)
    assert caught.value.option == "url"


def test_url_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """HOLDFAST_URL is the default; an argument wins over it."""
    monkeypatch.setenv("HOLDFAST_URL", f"sqlite:///{tmp_path}/environment.db")
    assert App().store.url.endswith("/environment.db")
    assert App(f"sqlite:///{tmp_path}/argument.db").store.url.endswith("/argument.db")


def test_url_by_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without any, a file in the working directory, whose absolute path is printed."""
    monkeypatch.delenv("HOLDFAST_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    app = App()
    assert app.store.url == f"sqlite:///{tmp_path / 'holdfast.db'}"
    assert str(tmp_path / "holdfast.db") in capsys.readouterr().err
    assert not (tmp_path / "holdfast.db").exists()


def test_passwords_are_not_shown() -> None:
    """The URL of a store can be printed."""
    shown = App("postgresql://user:s3cret@db.example/app").store.url
    assert "s3cret" not in shown
    assert "user" in shown
    assert "db.example" in shown


def test_missing_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL without psycopg: an error with the command that installs it."""
    for name in [name for name in sys.modules if name.startswith("holdfast.stores.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(HoldfastError, match=r"pip install 'holdfast\[postgres\]'") as caught:
        App("postgresql://localhost/x")
    assert isinstance(caught.value, ImportError)
