"""The mutant runner reads patches strictly and tells killed, survived and broken apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import mutants
from tools.mutants import PATCHES, ROOT, BrokenMutant, apply_hunks, parse_diff, parse_mutant

PATCH = """\
# guarantee: G4
# breaks: the fence
# test: tests/test_fence.py::test_fence
--- a/src/holdfast/fence.py
+++ b/src/holdfast/fence.py
@@ -1,2 +1,2 @@
 def held(generation: int, current: int) -> bool:
-    return generation == current
+    return generation <= current
"""
SOURCE = "def held(generation: int, current: int) -> bool:\n    return generation == current\n"
FENCE_TEST = "from holdfast.fence import held\n\ndef test_fence():\n    assert not held(1, 2)\n"
BLIND_TEST = "from holdfast.fence import held\n\ndef test_fence():\n    assert held(2, 2)\n"


def test_the_header_says_what_is_broken_and_which_test_must_see_it() -> None:
    mutant = parse_mutant("g04_fence", PATCH)
    assert (mutant.guarantee, mutant.breaks, mutant.test) == ("G4", "the fence", "tests/test_fence.py::test_fence")
    assert list(mutant.hunks) == ["src/holdfast/fence.py"]


@pytest.mark.parametrize("field", ["guarantee", "breaks", "test"])
def test_a_missing_header_line_is_named(field: str) -> None:
    with pytest.raises(BrokenMutant, match=field):
        parse_mutant("g04_fence", PATCH.replace(f"# {field}:", "# nothing:"))


def test_a_patch_without_a_change_is_refused() -> None:
    with pytest.raises(BrokenMutant, match="changes nothing"):
        parse_mutant("g04_fence", PATCH.partition("@@")[0])


def test_a_hunk_shorter_than_its_head_says_is_refused() -> None:
    with pytest.raises(BrokenMutant, match="counts"):
        parse_diff(PATCH.replace("-1,2 +1,2", "-1,3 +1,3"))


def test_a_removed_sql_comment_is_not_the_next_file() -> None:
    diff = "--- a/f.sql\n+++ b/f.sql\n@@ -1,2 +1,2 @@\n--- locks by id\n+++ locks\n SELECT 1\n\n"
    assert apply_hunks("f.sql", "-- locks by id\nSELECT 1\n", parse_diff(diff)["f.sql"]) == "++ locks\nSELECT 1\n"


def apply(source: str) -> str:
    return apply_hunks("fence.py", source, parse_diff(PATCH)["src/holdfast/fence.py"])


def test_a_hunk_replaces_its_lines() -> None:
    assert apply(SOURCE) == SOURCE.replace("==", "<=")


def test_a_hunk_may_have_moved() -> None:
    assert apply(f"import os\n\n{SOURCE}") == f"import os\n\n{SOURCE}".replace("==", "<=")


@pytest.mark.parametrize("source", [SOURCE.replace("current", "now"), f"import os\n{SOURCE}{SOURCE}"])
def test_a_hunk_that_fits_nowhere_or_twice_is_refused(source: str) -> None:
    with pytest.raises(BrokenMutant, match=r"is not there|is there 2 times"):
        apply(source)


def test_later_hunks_follow_the_shift_of_earlier_ones() -> None:
    diff = "+++ b/f\n@@ -1 +1,2 @@\n-a\n+a1\n+a2\n@@ -3 +4 @@\n-b\n+B\n"
    assert apply_hunks("f", "a\nb\nb\nb\n", parse_diff(diff)["f"]) == "a1\na2\nb\nB\nb\n"


def test_several_files_in_one_patch_stay_apart() -> None:
    diff = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-c\n+d\n"
    files = parse_diff(diff)
    assert apply_hunks("f", "a\n", files["f"]) == "b\n"
    assert apply_hunks("g", "c\n", files["g"]) == "d\n"


class TestVerdict:
    @pytest.fixture
    def project(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        (tmp_path / "src/holdfast").mkdir(parents=True)
        (tmp_path / "src/holdfast/__init__.py").touch()
        (tmp_path / "src/holdfast/fence.py").write_text(SOURCE)
        (tmp_path / "tests").mkdir()
        (tmp_path / "g04.patch").write_text(PATCH)
        monkeypatch.setattr(mutants, "ROOT", tmp_path)
        return tmp_path

    def verdict(self, project: Path, test: str) -> mutants.Verdict:
        (project / "tests/test_fence.py").write_text(test)
        [verdict] = mutants.verdicts([project / "g04.patch"])
        return verdict

    def test_killed_when_the_test_fails(self, project: Path) -> None:
        assert self.verdict(project, FENCE_TEST).word == "killed"
        assert (project / "src/holdfast/fence.py").read_text() == SOURCE

    def test_survived_when_the_test_does_not_notice(self, project: Path) -> None:
        verdict = self.verdict(project, BLIND_TEST)
        assert verdict.word == "SURVIVED"
        assert "the fence" in verdict.detail

    def test_broken_when_the_test_fails_anyway(self, project: Path) -> None:
        verdict = self.verdict(project, "def test_fence():\n    assert False\n")
        assert verdict.word == "BROKEN"
        assert "without the mutant too" in verdict.detail

    def test_broken_when_the_patched_code_cannot_be_imported(self, project: Path) -> None:
        (project / "g04.patch").write_text(PATCH.replace("+    return", "+    !!return"))
        verdict = self.verdict(project, FENCE_TEST)
        assert verdict.word == "BROKEN"
        assert "exit code 2" in verdict.detail or "exit code 4" in verdict.detail


@pytest.mark.parametrize("patch", sorted(PATCHES.glob("*.patch")), ids=lambda patch: patch.stem)
def test_every_patch_fits_the_code(patch: Path) -> None:
    """Whoever moves code sees at once which mutants have to follow, not when they are run."""
    mutant = parse_mutant(patch.stem, patch.read_text(encoding="utf-8"))
    for path, hunks in mutant.hunks.items():
        source = (ROOT / path).read_text(encoding="utf-8")
        assert apply_hunks(path, source, hunks) != source
