"""`holdfast.testing` is there after `import holdfast`, and costs nothing until somebody asks for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

import holdfast

SCRIPT = """
import sys
import holdfast
loaded = {name for name in sys.modules if name.startswith(("holdfast.testing", "pytest", "_pytest"))}
assert not loaded, loaded
assert holdfast.testing.context().attempt == 1
assert holdfast.testing is sys.modules["holdfast.testing"]
loaded = {name for name in sys.modules if name.startswith(("holdfast.testing.conformance", "pytest", "_pytest"))}
assert not loaded, loaded
"""


def test_loaded_when_asked_for() -> None:
    """Neither pytest nor the storage contract comes with it."""
    subprocess.run([sys.executable, "-W", "error", "-c", SCRIPT], check=True)


def test_other_names_are_still_missing() -> None:
    """With the usual message."""
    with pytest.raises(AttributeError, match="module 'holdfast' has no attribute 'tasting'"):
        _ = holdfast.tasting  # type: ignore[attr-defined]  # that is the point
