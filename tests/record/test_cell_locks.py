"""A cell has one holder at a time, whoever dies and however."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.errors import InputError
from bench.record.cell_locks import CellLocks

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60
IMPORTS = "import os, sys, time; from pathlib import Path; from bench.record.cell_locks import CellLocks\n"
TAKE_AND_STAY = "locks = CellLocks(Path(sys.argv[1])); print(locks.take(sys.argv[2]), flush=True); time.sleep(600)"
WIN_EVERY_KEY = """
file = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND)
print(flush=True)
sys.stdin.readline()
left = [f"cell-{n}" for n in range(50)] * 2
with CellLocks(Path(sys.argv[1])) as locks:
    while left:
        for key in list(left):
            if locks.take(key):
                os.write(file, f"{key} {os.getpid()} begins\\n".encode())
                time.sleep(0.0005)
                os.write(file, f"{key} {os.getpid()} ends\\n".encode())
                locks.release(key)
                left.remove(key)
"""


@pytest.fixture
def start() -> Iterator:
    """``start(code, *arguments)``: a Python process that imports CellLocks first; killed at the end."""
    started: list[subprocess.Popen[str]] = []

    def begin(code: str, *arguments: object) -> subprocess.Popen[str]:
        words = [sys.executable, "-c", IMPORTS + code, *map(str, arguments)]
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(words, cwd=ROOT, stdin=pipe, stdout=pipe, text=True))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def test_one_holder_at_a_time(tmp_path, start):
    """Three processes want each of 50 cells twice, in the same order."""
    log = tmp_path / "log"
    log.touch()
    processes = [start(WIN_EVERY_KEY, tmp_path, log) for _ in range(3)]
    assert [process.stdout.readline() for process in processes] == ["\n"] * 3
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    assert [process.wait(SECONDS) for process in processes] == [0] * 3
    works: dict[str, str] = {}
    won: Counter[tuple[str, str]] = Counter()
    for key, process, what in map(str.split, log.read_text().splitlines()):
        if what == "begins":
            assert works.setdefault(key, process) == process, f"{key}: {process} begins while {works[key]} works on it"
            won[key, process] += 1
        else:
            assert works.pop(key) == process
    assert (len(won), set(won.values())) == (3 * 50, {2})


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


@pytest.mark.parametrize(
    "child",
    [
        "",
        "import subprocess; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1)'], close_fds=False); ",
        "import multiprocessing as m; m.get_context('spawn').Process(target=time.sleep, args=(1,)).start(); ",
    ],
    ids=["alone", "subprocess", "spawn"],
)
def test_a_killed_process_holds_nothing_and_neither_do_its_children(tmp_path, start, child):
    process = start(f"locks = CellLocks(Path(sys.argv[1])); {child}{TAKE_AND_STAY}", tmp_path, "a")
    assert process.stdout.readline() == "True\n"
    locks = CellLocks(tmp_path)
    assert not locks.take("a")
    process.kill()
    process.wait(SECONDS)
    assert locks.take("a")


@pytest.mark.parametrize("place", ["results", "results/.claims"])
def test_a_file_in_the_way_is_one_line_with_its_path(tmp_path, place):
    way = tmp_path / place
    way.parent.mkdir(exist_ok=True)
    way.write_text("in the way")
    with pytest.raises(InputError, match="cannot be written") as error:
        CellLocks(tmp_path / "results")
    assert str(tmp_path / "results") in str(error.value)
