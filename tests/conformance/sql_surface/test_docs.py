"""The page about SQL: its examples run in psql, and its tables name what there is."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import psycopg

from holdfast import App
from tests.conformance.sql_surface.conftest import ROLES, Surface, psql_program
from tests.docs.blocks import ROOT, blocks

PAGE = ROOT / "docs" / "sql.md"


def test_examples_run(postgres_url: str) -> None:
    """One after the other, as on the page, in one database; pg_cron aside."""
    app = App(postgres_url)
    with app.client() as client:
        client.migrate()
    app.close()
    text = "\n".join(block.text for block in blocks(PAGE, "sql"))
    ended = subprocess.run(
        [psql_program(), "-X", "-v", "ON_ERROR_STOP=1", "-f", "-", postgres_url],
        input=text, check=False, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    with psycopg.connect(postgres_url) as connection:
        rows = connection.execute("SELECT status, output FROM holdfast.jobs WHERE finished_at IS NOT NULL").fetchall()
        assert rows == [("completed", "sent")]
        payload = connection.execute("SELECT input FROM holdfast.jobs WHERE input ->> 'order_id' = '9182'").fetchall()
        assert ({"order_id": 9182, "email": "ada@example.com"},) in payload


def section(title: str) -> str:
    text = PAGE.read_text(encoding="utf-8")
    return re.split(r"^## ", text.partition(f"## {title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def first_cells(title: str) -> set[str]:
    return {
        word
        for cell in re.findall(r"^\| ([^|]+) \|", section(title), re.MULTILINE)
        for word in re.findall(r"`(\w+)", cell)
    }


def test_tables_name_what_there_is(surface: Surface) -> None:
    """Options, views, roles and functions for people."""
    names = surface.one("SELECT proargnames FROM pg_proc WHERE oid = to_regproc(%s)", f"{surface.schema}.enqueue")
    assert first_cells("Enqueue") == set(names) - {"type_name", "input"}
    views = surface.sql("SELECT viewname FROM pg_views WHERE schemaname = %s", surface.schema)
    assert first_cells("Views") == {name for (name,) in views}
    assert first_cells("Roles") == {f"holdfast_{role}" for role in ROLES}
    operating = {"cancel", "retry", "remove", "release_workers", "prune", "is_terminal"}
    operating |= {"pause_queue", "resume_queue", "limit_queue"}
    assert first_cells("Operating") == operating


def test_every_sqlstate_is_listed() -> None:
    """Those that the functions raise, and no other."""
    folder = Path(ROOT, "src", "holdfast", "sql", "postgres", "functions")
    raised = {code for file in folder.glob("*.sql") for code in re.findall(r"'(HF\d{3})'", file.read_text())}
    assert first_cells("Errors") == raised


def test_every_function_that_may_be_granted_is_described() -> None:
    text = PAGE.read_text(encoding="utf-8")
    grants = Path(ROOT, "src", "holdfast", "sql", "postgres", "roles", "grant.sql").read_text()
    for name in set(re.findall(r"/\*schema\.\*/(\w+)", grants)):
        assert f"`{name}" in text or f"holdfast.{name}(" in text, name
