"""All migrations together give exactly the schema that is written down beside this file.

After a change write it down anew, and read the difference:
HOLDFAST_WRITE_CATALOGUE=1 python3 dev.py test tests/contract/test_migrations.py
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
from pathlib import Path

import pytest

from tests.contract.catalogue import postgres_catalogue, sqlite_catalogue
from tests.contract.conftest import migrated

WRITTEN = {dialect: Path(__file__).with_name(f"catalogue_{dialect}.txt") for dialect in ("postgres", "sqlite")}
#: written so often that an index on them would cost more than it could ever give
NEVER_INDEXED = ("leased_until", "progress", "step")


def compare(dialect: str, catalogue: str) -> None:
    if os.environ.get("HOLDFAST_WRITE_CATALOGUE"):
        WRITTEN[dialect].write_text(catalogue)
    assert catalogue.splitlines() == WRITTEN[dialect].read_text().splitlines()


def test_postgres_schema(postgres_url: str) -> None:
    compare("postgres", postgres_catalogue(migrated(postgres_url), "holdfast", ""))


def test_sqlite_schema(migrated_sqlite: sqlite3.Connection) -> None:
    compare("sqlite", sqlite_catalogue(migrated_sqlite, "holdfast_"))


@pytest.mark.parametrize("id_type", ["uuid", "text"])
def test_postgres_schema_under_other_names(postgres_url: str, id_type: str) -> None:
    """Schema, prefix and the type of ids are configuration; everything else stays, and nothing lands elsewhere."""
    migrated(postgres_url, schema="select", prefix="order_", id_type=id_type)
    catalogue = postgres_catalogue(postgres_url, "select", "order_")
    expected = re.sub(r"\buuid\b", id_type, WRITTEN["postgres"].read_text())
    assert catalogue.splitlines() == expected.splitlines()
    assert postgres_catalogue(postgres_url, "public", "").strip() == ""


@pytest.mark.parametrize("prefix", ["order_", "x"])
def test_sqlite_schema_under_other_names(sqlite_path: Path, prefix: str) -> None:
    migrated(f"sqlite:///{sqlite_path}", prefix=prefix)
    with contextlib.closing(sqlite3.connect(sqlite_path)) as connection:
        catalogue = sqlite_catalogue(connection, prefix)
        (foreign,) = connection.execute(
            "SELECT count(*) FROM sqlite_master WHERE name NOT LIKE ? AND name NOT LIKE 'sqlite_%'", [f"{prefix}%"]
        ).fetchone()
    assert catalogue.splitlines() == WRITTEN["sqlite"].read_text().splitlines()
    assert foreign == 0


@pytest.mark.parametrize("dialect", WRITTEN)
def test_no_index_holds_what_is_written_often(dialect: str) -> None:
    """So that renewals and progress can be HOT."""
    indexes = [line for line in WRITTEN[dialect].read_text().splitlines() if re.search(r"\bINDEX\b|UNIQUE \(", line)]
    assert any("job_claim_idx" in index for index in indexes)
    assert not [index for index in indexes for column in NEVER_INDEXED if re.search(rf"\b{column}\b", index)]
