"""The reference pages name everything that there is, and nothing else; links lead somewhere."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path

import pytest

from holdfast import App, WorkerConfig, errors
from holdfast.app.registry import JobOptions, JobSettings
from holdfast.model.call import EnqueueOptions
from tests.docs.blocks import ROOT, page_name, pages

_REFERENCE = ROOT / "docs" / "reference"
_LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)")


def _first_cells(page: str, section: str | None = None) -> set[str]:
    """The code words in the first column of the tables of a page, or of one section of it."""
    text = (_REFERENCE / page).read_text(encoding="utf-8")
    if section is not None:
        text = re.split(r"^## ", text.partition(f"## {section}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    cells = re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE)
    return {word for cell in cells for word in re.findall(r"`(\w+)`", cell)}


def test_every_error_is_listed() -> None:
    """With the class it derives from and its fields."""
    classes = {name: kind for name, kind in vars(errors).items() if inspect.isclass(kind)}
    documented = _first_cells("errors.md")
    assert documented == classes.keys() - {"HoldfastError"}
    text = (_REFERENCE / "errors.md").read_text(encoding="utf-8")
    for name in documented:
        row = next(line for line in text.splitlines() if line.startswith(f"| `{name}` |"))
        parents = {base.__name__ for base in classes[name].__bases__} - {"HoldfastError"}
        named = set(re.findall(r"`(\w+)`", row.split("|")[2]))
        assert named <= parents if name != "InvalidInput" else named == {"ValueError"}, row
        assert named or not parents, row


def test_every_setting_is_listed() -> None:
    """App, job types, enqueue options and workers, each in its section."""
    assert _first_cells("configuration.md", "App") == inspect.signature(App).parameters.keys()
    options = {field.name for field in dataclasses.fields(JobOptions)}
    assert options == JobSettings.__annotations__.keys() | {"batch"}
    assert _first_cells("configuration.md", "Job types") == options
    assert _first_cells("configuration.md", "Enqueue options") == EnqueueOptions.__annotations__.keys() | {"tx"}
    fields = {field.name for field in dataclasses.fields(WorkerConfig)}
    assert _first_cells("configuration.md", "Worker") == fields


def test_every_guarantee_has_its_test() -> None:
    """A file for every number, and no guarantee test whose promise is missing from the page."""
    text = (_REFERENCE / "guarantees.md").read_text(encoding="utf-8")
    promised = re.findall(r"^\| G(\d+) \| .+ \| `(test_g\d\d_)\*` \|$", text, re.MULTILINE)
    assert [file for _, file in promised] == [f"test_g{int(number):02d}_" for number, _ in promised]
    tested = {path.name[: len("test_g00_")] for path in (ROOT / "tests" / "guarantees").glob("test_g*.py")}
    assert sorted(tested) == [file for _, file in promised]


@pytest.mark.parametrize("page", [*pages(), ROOT / "CHANGELOG.md"], ids=page_name)
def test_links_lead_somewhere(page: Path) -> None:
    """Files exist, and so do the headings that a link points at."""
    for target, anchor in _LINK.findall(page.read_text(encoding="utf-8")):
        found = (page.parent / target).resolve() if target else page
        assert found.exists(), f"{page_name(page)}: {target}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", found.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w-]+", "-", heading.lower()).strip("-") for heading in headings}


def test_decisions_are_numbered_without_gaps() -> None:
    """0001 to the newest, each with a status and its consequences."""
    files = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert [file.name[:4] for file in files] == [f"{number:04d}" for number in range(1, len(files) + 1)]
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert text.startswith(f"# {int(file.name[:4])}. ")
        assert all(f"## {heading}" in text for heading in ("Context", "Decision", "Consequences"))
        assert "**Status**: " in text
