"""Two runs on one results folder share the work: no cell is trained twice, and what one has made the other uses."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
import tiny
from small_runs import words_of

from bench import api
from bench.record.cell import train_key
from bench.record.cell_locks import CellLocks


@pytest.fixture
def request_(request_):
    rows = f"finetune:{tiny.SHAPE}:start=random,kd:{tiny.SHAPE}:start=random"
    return lambda results="results": request_(results, methods=rows, tasks="rte")


def started(request: api.Request) -> subprocess.Popen:
    words, pipe = [sys.executable, "-u", "-m", "bench", *words_of(request)], subprocess.PIPE
    return subprocess.Popen(words, stderr=pipe, stdout=pipe, text=True)


def until(process: subprocess.Popen, words: str) -> str:
    """What it said up to the line with these words."""
    said = ""
    for line in process.stderr:
        said += line
        if words in line:
            return said
    raise AssertionError(f"it never said {words!r}: {said}")


@pytest.mark.slow
def test_a_cell_of_another_run_is_left_for_the_end_and_done_when_that_one_ends(request_):
    request = request_()
    cells = {planned.cell.label.split(":")[0]: planned.cell for planned in api.plan(request).cells}
    with CellLocks(request.results) as claims:
        assert claims.take(train_key(cells["finetune"]))
        run = started(request)
        said = until(run, "waits for finetune")
        assert "rte: kd:" in said.split("waits for")[0], "what nobody else works on comes first"
        assert {record.cell.method for record in api.Store(request.results).records()} == {"teacher", "kd"}
        time.sleep(1.0)
        assert run.poll() is None
    assert "rte: finetune:" in run.communicate(timeout=120)[1]
    assert run.returncode == 0
    assert {record.cell.method for record in api.Store(request.results).records()} == {"teacher", "kd", "finetune"}
