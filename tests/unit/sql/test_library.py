"""From `.sql` files to statements that a driver takes."""

from __future__ import annotations

import re

import pytest

from holdfast.notify.channels import work_channel
from holdfast.sql import Script, SqlLibrary, Style
from holdfast.sql.library import verbs

_DIALECTS = ("postgres", "sqlite")
_FRAGMENTS = "_fragments"


def _library(dialect: str, style: Style = Style.NAMED, *, schema: str = "jobs", prefix: str = "x_") -> SqlLibrary:
    return SqlLibrary(dialect, schema, prefix, style)


def _all(dialect: str, style: Style) -> list[tuple[str, str]]:
    """Every part of every script, rendered."""
    library = _library(dialect, style)
    scripts = [
        library.script(name, {"limit": 7, "rows": 7}) for name in verbs(dialect) if not name.endswith(_FRAGMENTS)
    ]
    return [
        (f"{script.name}/{part.name}", part.text)
        for script in [*scripts, *library.migrations(), *library.functions(), *_roles(library)]
        for part in script.parts
    ]


def _roles(library: SqlLibrary) -> list[Script]:
    return [library.script("roles/create")] if library.dialect == "postgres" else []


def test_identifiers_are_quoted_with_schema_and_prefix() -> None:
    """PostgreSQL names carry schema and prefix, SQLite's only the prefix."""
    assert '"jobs"."x_job"' in _library("postgres").script("get_job").parts[0].text
    text = _library("sqlite").script("get_job").parts[0].text
    assert '"x_job"' in text
    assert "jobs" not in text


def test_index_and_bare_names() -> None:
    """Indexes have no schema in front where they are made; a bare name is text, not an identifier."""
    indexes = [part.text for part in _library("postgres").migrations()[0].parts if "INDEX" in part.text]
    assert any(re.search(r'INDEX "x_job_claim_idx" ON "jobs"\."x_job"', text) for text in indexes)
    assert "name = 'x_migration'" in _library("sqlite").script("find_migrations").parts[0].text


@pytest.mark.parametrize("dialect", _DIALECTS)
@pytest.mark.parametrize("style", list(Style))
def test_nothing_of_the_templates_is_left(dialect: str, style: Style) -> None:
    """No identifier, type, limit or header comment is left to the database, and no part is empty."""
    for name, text in _all(dialect, style):
        assert not re.search(r"/\*(?!\w*filters|\w*order|sources)", text), name
        assert not re.search(r"^--", text, re.MULTILINE), name
        assert text.strip(), name
        assert not text.endswith(";"), name


@pytest.mark.parametrize("dialect", _DIALECTS)
def test_id_type(dialect: str) -> None:
    """Columns and casts of ids have the type that was chosen."""
    library = SqlLibrary(dialect, "jobs", "", Style.NAMED, "text")
    for script in library.migrations():
        assert not [part.name for part in script.parts if re.search(r"\buuid\b", part.text)]


def test_parameter_styles() -> None:
    """The same parameter is one name, one mapping key or one number."""
    named = _library("postgres", Style.NAMED).script("heartbeat").parts[0]
    pyformat = _library("postgres", Style.PYFORMAT).script("heartbeat").parts[0]
    numbered = _library("postgres", Style.NUMBERED).script("heartbeat").parts[0]
    assert named.parameters == ("now", "dead_after_ms", "status", "worker")
    assert named.parameters == pyformat.parameters == numbered.parameters
    assert ":worker" in named.text
    assert "%(worker)s" in pyformat.text
    assert "$4" in numbered.text
    assert ":worker" not in pyformat.text + numbered.text


def test_casts_are_not_parameters() -> None:
    """A double colon is PostgreSQL's cast."""
    assert "id::text" in _library("postgres", Style.PYFORMAT).script("claim_jobs", {"limit": 1}).parts[0].text


def test_percent_signs_survive_pyformat() -> None:
    """Doubled for psycopg, and for nobody else."""
    text = "SELECT 'a%b' AS x, :now"
    assert SqlLibrary("postgres", "s", "", Style.PYFORMAT)._part("p", text, {}).text == "SELECT 'a%%b' AS x, %(now)s"
    assert SqlLibrary("postgres", "s", "", Style.NUMBERED)._part("p", text, {}).text == "SELECT 'a%b' AS x, $1"


def test_literals_are_numbers() -> None:
    """A limit is written into the text, as a number and nothing else."""
    script = _library("postgres").script("claim_jobs", {"limit": 42})
    assert script.parts[0].text.count("LIMIT 42") == 3
    with pytest.raises(ValueError, match="DROP"):
        _library("postgres").script("claim_jobs", {"limit": "1; DROP TABLE job"})  # type: ignore[dict-item]  # that is the point
    with pytest.raises(KeyError):
        _library("postgres").script("claim_jobs")


def test_rows_are_repeated() -> None:
    """Their values go by their place, and what is named comes before them."""
    (part,) = _library("sqlite").script("insert_rows", {"rows": 3}).parts
    assert part.text.endswith("FROM (VALUES " + ", ".join(["(?, ?, ?, ?, ?, ?, ?, ?)"] * 3) + ")")
    assert "?1, ?1, ?1, column6" in part.text
    assert part.parameters == ("now",)


def test_parts_in_order() -> None:
    """A script of several statements keeps their order and names; what stands before the first marker is one too."""
    parts = [part.name for part in _library("postgres").script("lock_migrations").parts]
    assert parts == ["first", "patience", "schema", "table"]
    assert [part.name for part in _library("sqlite").script("enqueue_jobs").parts] == ["existing", "created"]


def test_header() -> None:
    """Fields of the head comment, continued lines joined."""
    header = _library("sqlite").script("claim_jobs", {"limit": 1}).header
    assert header["params"].startswith("now timestamptz, worker text")
    assert "headers json" in header["returns"]
    assert header["locks"] == "the database's write lock."


def test_what_the_header_promises() -> None:
    """Read only, prepared and one row of JSON are read off the header."""
    library = _library("sqlite")
    assert library.script("get_job").is_read_only
    assert not library.script("heartbeat").is_read_only
    assert library.script("claim_jobs", {"limit": 1}).returns_json_rows
    assert not library.script("get_job").returns_json_rows


@pytest.mark.parametrize("dialect", _DIALECTS)
def test_slots(dialect: str) -> None:
    """Filters are joined by AND, each in parentheses, sources by UNION ALL; what is not filled stays as it stands."""
    library = _library(dialect)
    slots = {"filters": ("queue", "type_name"), "order": ("oldest_first",), "sources": ("blocked", "running")}
    text = library.script("list_jobs", {"limit": 5}, slots).parts[0]
    assert re.search(r"WHERE \(job\.queue = .*\) AND \(job\.type_name = .*\)\s+ORDER BY seq ASC\s+LIMIT 5", text.text)
    assert "SELECT id, seq FROM blocked UNION ALL SELECT id, seq FROM running\n" in text.text
    assert set(text.parameters) == {"queue", "type_name", "tenant"}
    plain = library.script("list_jobs", {"limit": 5}, {"filters": (), "order": ("newest_first",)}).parts[0]
    assert re.search(r"WHERE (/\*filters\*/)?true\s+ORDER BY seq DESC", plain.text)
    assert "SELECT id, seq FROM by_seq\n" in plain.text
    with pytest.raises(KeyError):
        library.script("list_jobs", {"limit": 5}, {"filters": ("1 = 1",), "order": ("newest_first",)})


@pytest.mark.parametrize("dialect", _DIALECTS)
def test_documents(dialect: str) -> None:
    """Whoever reads whole jobs reads the same columns, written down once."""
    library = _library(dialect)
    document = "to_json(job)::text" if dialect == "postgres" else "'lease_generation', job.lease_generation"
    for verb in ("get_job", "lock_job", "get_chain", "lock_chain", "list_jobs", "list_chains", "list_blocked_jobs"):
        assert library.script(verb, {"limit": 5}).parts[-1].text.count(document) == 1


def test_verbs_become_functions() -> None:
    """The text is the verb's own; parameters are positions, a limit is one of them and is planned for."""
    parts = {part.name: part for part in _library("postgres", Style.PYFORMAT).script("functions/verbs").parts}
    claim = parts["claim_jobs"]
    assert '"jobs"."x_verb_claim_jobs"(' in claim.text
    assert '"limit" integer DEFAULT NULL' in claim.text
    assert "plan_cache_mode = force_custom_plan" in claim.text
    assert "RETURN QUERY WITH lane" in claim.text
    assert "LIMIT $" in claim.text
    assert claim.parameters == ()
    assert "RETURNS void" in parts["add_blockers"].text
    assert "plan_cache_mode" in parts["delete_chains"].text
    assert "plan_cache_mode" not in parts["complete_jobs"].text
    assert all(
        "search_path = pg_catalog, pg_temp" in text.text for name, text in parts.items() if name in verbs("postgres")
    )


def test_every_function_loses_its_rights() -> None:
    """Verbs and all others, by their names."""
    library = _library("postgres")
    created = {
        name
        for script in library.functions()
        for part in script.parts
        for name in re.findall(r'CREATE (?:OR REPLACE )?FUNCTION "jobs"\."(x_\w+)"', part.text)
    }
    (revoked,) = library.script("functions/rights").parts
    assert created == set(re.findall(r'"jobs"\."(x_\w+)"', revoked.text))
    assert len(created) > 60
    assert _library("sqlite").functions() == []


def test_channel_and_roles() -> None:
    """Both have names of their own to keep databases of one server apart."""
    library = SqlLibrary("postgres", "jobs", "x_", Style.NAMED, "uuid", "shop")
    hints = next(part for part in library.script("functions/enqueue").parts if part.name == "hint_work")
    assert f"'{work_channel('shop')}'" in hints.text
    assert 'CREATE ROLE "jobs_x_producer" NOLOGIN' in library.script("roles/create").parts[0].text


def test_rendered_once() -> None:
    """The same request gives the same object; another limit another one."""
    library = _library("postgres")
    assert library.script("claim_jobs", {"limit": 1}) is library.script("claim_jobs", {"limit": 1})
    assert library.script("claim_jobs", {"limit": 1}) is not library.script("claim_jobs", {"limit": 2})


def test_memory_is_bounded() -> None:
    """Ever new limits do not fill the memory."""
    library = _library("postgres")
    for limit in range(1_200):
        library.script("claim_jobs", {"limit": limit})
    assert len(library._cache) <= 502
