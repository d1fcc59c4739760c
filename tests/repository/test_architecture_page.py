"""The page of the architecture names files that are there, and the halves that the import test checks."""

from __future__ import annotations

import re
from pathlib import Path

from test_imports import READING, ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text()
FOLDERS = ("bench/", "methods/", "tests/", "reports/")


def named_paths(text: str) -> set[str]:
    """The files and folders of this repository between backticks and in links."""
    folders = "|".join(FOLDERS)
    found = set(re.findall(rf"`((?:{folders})[\w/.*]*)`", text))
    return found | set(re.findall(r"\]\(\.\./([^)#]+)", text))


def test_every_path_is_there():
    paths = named_paths(PAGE)
    assert len(paths) > 20
    missing = [path for path in paths if not list(Path(ROOT).glob(path.rstrip("/")))]
    assert not missing


def test_a_path_that_is_gone_is_found():
    assert named_paths("`bench/gone.py` and [x](../bench/plan/gone.py)") == {
        "bench/gone.py",
        "bench/plan/gone.py",
    }


def test_the_half_that_reads_is_the_one_that_the_import_test_checks():
    (said,) = re.findall(
        r"- \*\*The half that reads\*\* answers from records alone: ([^.]+)\.", PAGE
    )
    assert {f"bench.{name}" for name in re.findall(r"`(\w+)`", said)} == set(READING)
