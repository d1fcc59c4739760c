"""Jobs through submitit, with processes of this machine in the place of Slurm's jobs; and what a job does when it is told to end."""

from __future__ import annotations

import os
import signal
import sys

import pytest
from small_runs import LONG, ends
from started_runs import WhileTraining

from bench import api
from bench.errors import InputError
from bench.progress import Progress
from bench.run import slurm_executor
from bench.run.slurm_executor import PULSE, StopFlag

LOCAL = (("cluster", "local"),)
linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="sends signals to processes by their numbers"
)


@linux
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGUSR2], ids=["killed", "told that its time is over"]
)
def test_a_job_that_goes_away_is_done_again_with_the_same_answers(
    request_, tmp_path, monkeypatch, capfd, number
):
    pytest.importorskip("submitit", reason="needs the extra 'slurm'")
    changes = LONG | {"tasks": "rte"}
    whole = request_("one", **changes)
    assert api.run(whole).exit_code == 0
    monkeypatch.setenv("BERT_BENCH_CACHE", str(tmp_path / "another cache"))
    several = request_("several", **changes, jobs=2, executor="slurm", slurm=LOCAL)
    signals = WhileTraining(lambda process: os.kill(process, number) is None)
    assert api.run(several, Progress()).exit_code == 0
    signals.ended.set()
    said = capfd.readouterr().err
    assert signals.acted
    assert said.count("the process that did this is gone") == 1
    assert ("resumes at step" in said) == (number == signal.SIGUSR2), (
        "what is told to end keeps its state first"
    )
    assert ends(several) == ends(whole)
    assert {record.env["jobs"] for record in api.Store(several.results).records()} == {2}
    assert not list((tmp_path / "another cache" / "progress").glob("*/*"))
    assert not list((tmp_path / "another cache" / "cluster-runs").iterdir())


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test turns."""
    now = [0.0]
    monkeypatch.setattr(slurm_executor.time, "monotonic", lambda: now[0])
    return now


def test_a_job_ends_when_its_run_is_gone(tmp_path, clock):
    flag = StopFlag(tmp_path)
    for minute in range(30):
        clock[0] = 60.0 * minute
        (tmp_path / PULSE).write_text("")
        os.utime(tmp_path / PULSE, (minute, minute))
        assert not flag.value
    clock[0] += slurm_executor.LOST_SECONDS + 1
    assert flag.value


SBATCH = """#!/bin/sh
for script; do :; done
cp "$script" "$(dirname "$0")/script"
echo "sbatch: error: no such partition" >&2
exit 1
"""


@linux
@pytest.mark.slow
def test_the_script_of_a_job_has_gres_setup_lines_and_further_options(
    request_, tmp_path, monkeypatch
):
    """By an sbatch that keeps what it is given, and refuses it."""
    pytest.importorskip("submitit", reason="needs the extra 'slurm'")
    tools, setup = tmp_path / "tools", tmp_path / "setup.sh"
    tools.mkdir()
    for name in ("sbatch", "srun"):
        (tools / name).write_text(SBATCH)
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    setup.write_text("module load cuda\nsource .venv/bin/activate\n")
    options = {
        "partition": "gpu",
        "gres": "gpu:h100:1",
        "setup": str(setup),
        "sbatch.licenses": "x",
        "reservation": "r",
    }
    request = request_(
        methods="kd:start=random", executor="slurm", jobs=2, slurm=tuple(options.items())
    )
    with pytest.raises(InputError, match="the job was refused: sbatch: error: no such partition"):
        api.run(request, Progress())
    lines = (tools / "script").read_text().splitlines()
    expected = [
        "#SBATCH --gres=gpu:h100:1",
        "#SBATCH --partition=gpu",
        "#SBATCH --licenses=x",
        "#SBATCH --reservation=r",
    ]
    assert set(expected) <= set(lines)
    assert "module load cuda" in lines
    assert not [line for line in lines if "gpus-per-node" in line]
