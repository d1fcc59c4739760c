"""A cell has one holder at a time, whoever dies and however."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.errors import disk_message
from bench.record.cell_locks import CellLocks

ROOT = Path(__file__).resolve().parents[2]
CHILD = "import subprocess; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1)'], close_fds=False)"
TAKE_AND_STAY = f"""
import sys, time; from pathlib import Path; from bench.record.cell_locks import CellLocks
locks = CellLocks(Path(sys.argv[1])); {CHILD}; print(locks.take("a"), flush=True); time.sleep(600)
"""


def test_another_object_is_kept_out_until_release(tmp_path):
    with CellLocks(tmp_path) as first, CellLocks(tmp_path) as second:
        assert first.take("a")
        assert first.take("a")
        assert not second.take("a")
        second.release("a")
        assert not second.take("a")
        first.release("a")
        assert second.take("a")
        assert not first.take("a")


def test_a_killed_process_holds_nothing_and_neither_does_its_child(tmp_path):
    words = [sys.executable, "-c", TAKE_AND_STAY, str(tmp_path)]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "True\n"
        locks = CellLocks(tmp_path)
        assert not locks.take("a")
        process.kill()
    assert locks.take("a")


@pytest.mark.parametrize("place", ["results", "results/.claims"])
def test_a_file_in_the_way_is_one_line_with_its_path(tmp_path, place):
    way = tmp_path / place
    way.parent.mkdir(exist_ok=True)
    way.write_text("in the way")
    with pytest.raises(OSError, match=str(tmp_path / "results")) as error:
        CellLocks(tmp_path / "results")
    assert disk_message(error.value).startswith(str(tmp_path / "results"))
