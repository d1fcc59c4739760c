"""The steps of a plan; made in one process or in several they give the same answers to the bit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from small_runs import LONG, ends
from started_runs import Running, gone

from bench import api


@pytest.mark.slow
@pytest.mark.long
def test_several_processes_give_the_same_answers_to_the_bit(request_, tmp_path, monkeypatch):
    """Teachers, a start, importance scores, an ensemble and students; each time from an empty cache."""
    whole = request_("one", seeds=(0, 1))
    assert api.run(whole).exit_code == 0
    monkeypatch.setenv("BERT_BENCH_CACHE", str(tmp_path / "another cache"))
    several = request_("several", seeds=(0, 1), jobs=3)
    assert api.run(several).exit_code == 0
    found, expected = ends(several), ends(whole)
    assert found.keys() == expected.keys()
    for cell, parts in found.items():
        assert dict(enumerate(parts)) == dict(enumerate(expected[cell])), cell
    assert {record.env["jobs"] for record in api.Store(several.results).records()} == {3}
    assert not list((tmp_path / "another cache" / "progress").glob("*/*"))


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


@pytest.fixture(scope="module")
def whole():
    """``whole(request_)``: the ends of LONG done by one process in one go, for every test that compares with them."""
    known: dict[tuple, tuple] = {}

    def ends_of(make) -> dict[tuple, tuple]:
        if not known:
            request = make("whole", **LONG)
            assert api.run(request).exit_code == 0
            known.update(ends(request))
        return known

    return ends_of


@linux
@pytest.mark.slow
@pytest.mark.long
def test_a_killed_worker_costs_only_its_time(request_, tmp_path, whole):
    request = request_(**LONG, jobs=2)
    run = Running(request, tmp_path / "cache")
    os.kill(run.wait_for("seed 0"), signal.SIGKILL)
    said = run.ended()
    assert run.process.returncode == 0, said
    assert said.count("the process that did this is gone") == 1
    assert ends(request) == whole(request_)


@linux
@pytest.mark.slow
@pytest.mark.long
def test_a_student_that_kills_its_worker_fails_by_name_and_its_neighbour_does_not(
    request_, tmp_path
):
    request = request_(**LONG | {"tasks": "rte"}, jobs=2)
    run = Running(request, tmp_path / "cache")
    kills = 0
    while run.process.poll() is None:
        for process in run.workers("kd:"):
            os.kill(process, signal.SIGKILL)
            kills += 1
            gone([process])
        time.sleep(0.02)
    said = run.ended()
    assert run.process.returncode == 6, said
    found = {record.cell.method: record for record in api.Store(request.results).records()}
    assert found["kd"].status == "failed"
    assert (
        "was ended several times; where memory is short, fewer --jobs need less"
        in found["kd"].error.message
    )
    assert found["finetune"].status == "ok"
    assert "failed: rte kd" in said
    assert kills >= 2


@linux
@pytest.mark.slow
@pytest.mark.long
def test_workers_end_with_the_process_that_started_them(request_, tmp_path):
    run = Running(request_(**LONG, jobs=2), tmp_path / "cache")
    worker = run.wait_for("seed 0")
    run.process.kill()
    run.process.communicate()
    assert gone([worker])


@pytest.mark.slow
@pytest.mark.long
def test_a_script_without_a_main_guard_is_told_so(request_, tmp_path):
    """Each worker reads the script that started it: it must not run its own plan."""
    request, script = request_(**LONG, jobs=2), tmp_path / "script.py"
    script.write_text(
        f"from pathlib import PosixPath\nfrom bench import api\napi.run(api.{request!r})\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode != 0
    assert 'needs the line: if __name__ == "__main__":' in done.stderr
    assert "--jobs 1 needs none" in done.stderr.splitlines()[-1]
    assert not [r for r in api.Store(request.results).records() if r.status == "failed"]


WORDS = {
    "processes": (),
    "ray": ("--executor", "ray"),
    "slurm": ("--executor", "slurm", "--slurm", "cluster=local"),
}
PACKAGES = {"processes": "torch", "ray": "ray", "slurm": "submitit"}


@linux
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("executor", WORDS)
def test_ctrl_c_keeps_the_states_of_all_workers(executor, tmp_path, request_):
    """Here or on a cluster; the same command resumes there."""
    pytest.importorskip(PACKAGES[executor], reason=f"needs the extra '{executor}'")
    request, whole = (
        request_(**LONG | {"tasks": "rte"}),
        request_("whole", **LONG | {"tasks": "rte"}),
    )
    run = Running(request, tmp_path / "cache", *WORDS[executor])
    worker = run.wait_for("seed 0")
    os.kill(run.process.pid, signal.SIGINT)
    said = run.ended()
    assert run.process.returncode == 130, said
    assert gone([worker])
    assert {r.status for r in api.Store(request.results).records()} <= {"ok", "interrupted"}
    assert not list((tmp_path / "cache" / "progress").glob("*/*"))
    assert not list((tmp_path / "cache").glob("cluster-runs/*"))
    again = Running(request, tmp_path / "cache", *WORDS[executor])
    assert "resumes at step" in again.ended()
    assert again.process.returncode == 0
    assert api.run(whole).exit_code == 0
    assert ends(request) == ends(whole)
