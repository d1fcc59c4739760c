"""Verbs that read records work where torch, transformers, datasets and evaluate cannot be imported."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "results" / "reference" / "sample-v2"
START = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "transformers", "datasets", "evaluate"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
from bench.cli import main
for words in {words}:
    sys.argv = ["bench", *words]
    try:
        main()
    except SystemExit as end:
        print("ended", words[0], end.code)
"""


def answers(folder: Path, *commands: str) -> subprocess.CompletedProcess[str]:
    """What commands say and how they end, one after the other in one process."""
    code = START.replace("{words}", repr([command.split() for command in commands]))
    env = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(folder)}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, env=env
    )


@pytest.mark.slow
def test_a_reading_verb_needs_none_of_them(tmp_path):
    """With committed records of the sample suite's rte, and a printed table."""
    for row in ("teacher", "finetune", "microbert"):
        shutil.copytree(
            REFERENCE / "rte" / row, tmp_path / "results" / REFERENCE.name / "rte" / row
        )
    (tmp_path / "table.csv").write_text("system,rte\nmicrobert,60.0\n")
    file = next(path for path in sorted((tmp_path / "results").rglob("attempt-*.json")))
    found = "--results results"
    commands = {
        "list": "0",
        f"show {json.loads(file.read_text())['key']} {found}": "0",
        f"report {found} --reports reports": "0",
        f"compare microbert finetune {found}": "0",
        f"choose {found} --max-params 20": "0",
        f"show --trace 86.6 {found}": "01",
        f"check --baseline results {found}": "0",
        f"audit table.csv {found}": "01",
        "compare --power --tasks rte --gap 1.0": "0",
        f"store verify {found}": "01",
    }
    done = answers(tmp_path, *commands)
    assert "Traceback" not in done.stderr
    ended = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("ended ")]
    assert [verb for verb, _ in ended] == [command.split()[0] for command in commands], done.stderr
    assert all(code in right for (_, code), right in zip(ended, commands.values(), strict=True)), (
        ended,
        done.stderr,
    )


def test_a_verb_that_trains_is_told_what_is_missing(tmp_path):
    """The block works: what needs torch says so in one line."""
    done = answers(tmp_path, "run --methods kd --tasks rte --data sample --teacher embedded")
    assert done.stdout == "ended run 2\n"
    assert "Traceback" not in done.stderr
