"""Ctrl-C in a run of several workers, here or on a cluster: every training keeps its state, and the same command resumes there."""

from __future__ import annotations

import os
import signal
import sys

import pytest
from small_runs import LONG, ends
from started_runs import Running, gone

from bench import api

WORDS = {"processes": (), "ray": ("--executor", "ray"), "slurm": ("--executor", "slurm", "--slurm", "cluster=local")}
PACKAGES = {"processes": "torch", "ray": "ray", "slurm": "submitit"}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("executor", WORDS)
def test_ctrl_c_keeps_the_states_of_all_workers(executor, tmp_path, request_):
    pytest.importorskip(PACKAGES[executor], reason=f"needs the extra '{executor}'")
    request, whole = request_(**LONG | {"tasks": "rte"}), request_("whole", **LONG | {"tasks": "rte"})
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
