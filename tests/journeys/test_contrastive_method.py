"""An author writes a contrastive method in a file, and averages over padding: typed as commands from beginning to end."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import tiny

import bench as installed
from bench.errors import CHECK_FAILED, OK

pytestmark = [pytest.mark.slow, pytest.mark.long]

ROOT = Path(__file__).resolve().parents[2]
RIGHT = "layout.mean(states)"
WITH_PADDING = "layout.padded(states).mean(1)"
SMALL = "layers=2:hidden=12:heads=4:ffn=24"


@pytest.fixture(autouse=True)
def _in_a_folder_of_ones_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    sys.modules.pop("contrast", None)
    sys.path[:] = [entry for entry in sys.path if entry != str(tmp_path)]


def write(pool: str) -> None:
    """The file of the method, with this way to make one vector of a sentence."""
    text = (ROOT / "tests" / "plugin" / "new_methods" / "codir.py").read_text()
    assert RIGHT in text
    Path("contrast.py").write_text(text.replace(RIGHT, pool))
    sys.modules.pop("contrast", None)


def test_a_padded_mean_is_found_and_the_mended_method_runs(bench):
    write(WITH_PADDING)
    done = bench("check-method", "contrast:CoDIR")
    assert done.returncode == CHECK_FAILED
    lines = {line.strip().split("  ")[0]: line for line in done.stdout.splitlines()}
    assert "padding reaches it" in lines["padding has no effect"]
    assert "term contrast" in lines["padding has no effect"]
    # what compares sequences is not looked at where sequences are kept apart, and is not called right
    assert lines["sequences do not mix"].split(" s  ")[1].startswith("not looked at")

    write(RIGHT)
    done = bench("check-method", "contrast:CoDIR")
    assert done.returncode == OK, done.stdout
    assert "hidden: student 1 2 3 4 <- teacher 3 6 9 12" in done.stdout

    words = ["--methods", f"contrast:CoDIR:{SMALL}:start=random", "--tasks", "rte", "--epochs", 1]
    words += ["--data", tiny.write_glue(Path("glue"), ("rte",)), "--yes"]
    done = bench("run", *words, "--teacher", tiny.save_teacher(Path("teacher")))
    assert done.returncode == OK, done.stderr
    rows = set(installed.load("results/runs")["row"])
    assert any(row.startswith("contrast:CoDIR") for row in rows)
