"""Verbs that read records work where torch, transformers, datasets and evaluate cannot be imported."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "results" / "reference" / "sample-v1"
RESULTS = "results"
START = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "transformers", "datasets", "evaluate"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
from bench.cli import main
main()
"""


def answer(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", START, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(folder)},
    )


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with the committed records of the sample suite's rte, and a printed table."""
    shutil.copytree(REFERENCE / "rte", tmp_path / RESULTS / REFERENCE.name / "rte")
    (tmp_path / "table.csv").write_text("system,rte\nmicrobert,60.0\n")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "codes"),
    [
        (("list",), {0}),
        (("report", "--results", RESULTS, "--reports", "reports"), {0}),
        (("compare", "microbert", "finetune", "--results", RESULTS), {0}),
        (("choose", "--results", RESULTS, "--max-params", "20"), {0}),
        (("trace", "86.6", "--results", RESULTS), {0, 1}),
        (("check", "--baseline", RESULTS, "--results", RESULTS), {0}),
        (("audit", str(ROOT / "docs" / "results.md")), {0, 1}),
        (("power", "--tasks", "rte", "--gap", "1.0"), {0}),
        (("audit", "table.csv", "--results", RESULTS), {0, 1}),
        (("store", "verify", "--results", RESULTS), {0, 1}),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)  # fmt: skip
@pytest.mark.slow
def test_a_reading_verb_needs_none_of_them(place, words, codes):
    done = answer(place, *words)
    assert "Traceback" not in done.stderr
    assert done.returncode in codes, done.stderr
    assert done.stdout.strip()


def test_one_record_is_shown_without_them(place):
    file = next(path for path in sorted((place / RESULTS).rglob("attempt-*.json")))
    key = json.loads(file.read_text())["key"]
    done = answer(place, "show", key, "--results", RESULTS)
    assert done.returncode == 0
    assert json.loads(done.stdout)["key"] == key


def test_a_verb_that_trains_is_told_what_is_missing(tmp_path):
    """The block works: what needs torch says so in one line."""
    done = answer(tmp_path, "run", "--methods", "kd", "--tasks", "rte", "--data", "sample", "--teacher", "embedded")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
