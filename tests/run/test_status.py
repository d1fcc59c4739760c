"""What runs on this machine are doing: ``bench status`` from another process, and the display of several jobs."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time

import factories
import pytest
import tiny
from planned_steps import plan_of
from small_runs import words_of

from bench.folders import PROGRESS, users_cache
from bench.progress import Progress
from bench.record.cell import record_key
from bench.record.store import Store
from bench.run.display import Display, FileProgress
from bench.run.time_left import TimeLeft
from bench.run_status import FILE, announce, described, new_folder, under_way


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BERT_BENCH_CACHE", str(tmp_path / "cache"))


def test_a_run_counts_the_records_that_were_written_since_it_began(tmp_path):
    store, records = (
        Store(tmp_path / "r"),
        [factories.record("kd", seed=seed, score=0.7) for seed in range(3)],
    )
    store.write(records[0])
    os.utime(store.folder(records[0].cell) / "current", (1, 1))
    announce(new_folder(), tmp_path / "r", {record_key(record.cell) for record in records})
    (one,) = under_way()
    assert (one["process"], one["finished"], len(one["keys"])) == (os.getpid(), 0, 3)
    store.write(records[1])
    (one,) = under_way()
    assert one["finished"] == 1
    said = described(one, one["begun"] + 60)
    assert (
        f"run {os.getpid()}: 1 of 3 cells done in 1 min 00 s; about 2 min 00 s left at this pace"
        in said
    )


def test_the_jobs_of_a_run_say_what_they_do(tmp_path):
    folder = new_folder()
    announce(folder, tmp_path / "r", {"k" * 64})
    (folder / "000001.json").write_text(
        json.dumps({"title": "rte: kd, seed 0", "done": 1200, "total": 4000})
    )
    (folder / "000002.json").write_text("{half")
    (one,) = under_way()
    assert (
        "  now: rte: kd, seed 0, 1,200 of 4,000 steps" in described(one, time.time()).splitlines()
    )


def test_a_run_that_was_killed_is_not_under_way(tmp_path):
    child = "from bench.run_status import *; announce(new_folder(), Path('r'), {'k'}); import os; os._exit(1)"
    subprocess.run([sys.executable, "-c", f"from pathlib import Path; {child}"], check=False)
    (left,) = (users_cache() / PROGRESS).glob(f"*/*/{FILE}")
    assert under_way() == []
    new_folder()
    assert not left.exists(), "the next run removes what it left"


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.long
def test_a_run_is_seen_while_it_trains_and_gone_when_it_ends(request_, jobs):
    rows = f"kd:{tiny.SHAPE}:start=random,finetune:{tiny.SHAPE}:start=random"
    words = [*words_of(request_(methods=rows, epochs=10.0)), "--jobs", str(jobs)]
    seen, nothing = [], subprocess.DEVNULL
    with subprocess.Popen(
        [sys.executable, "-m", "bench", *words], stdout=nothing, stderr=nothing
    ) as child:
        while child.poll() is None:
            seen += [described(one, time.time()) for one in under_way()]
            time.sleep(0.1)
    assert child.returncode == 0
    assert any(f"run {child.pid}: " in one and " of 6 cells done" in one for one in seen)
    assert any("  now: " in one for one in seen)
    assert under_way() == []


def test_words_of_a_job_are_shown_once(tmp_path):
    worker, said = FileProgress(), io.StringIO()
    display = Display(tmp_path, Progress(said), TimeLeft(plan_of({})))
    worker.say("before its first job: it has no file")
    worker.begin("rte: kd", tmp_path / "000001.json")
    for text in ("one", "two"):
        worker.say(text)
        display.refresh()
        display.refresh()
    assert [line.strip() for line in said.getvalue().splitlines()] == ["one", "two"]
