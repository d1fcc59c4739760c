"""A package of a third party adds a method: listed, checked, run and reported like ours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import tiny

PLUGIN = Path(__file__).parent / "plugin"
NAME = "shrinkbert/teacherlogits"


def process(*words: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(PLUGIN), str(PLUGIN.parents[1])])
    return subprocess.run(
        [sys.executable, "-m", "bench", *words],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path, **env},
        capture_output=True,
        text=True,
    )


@pytest.mark.slow
def test_a_third_party_method_is_listed_and_passes_the_checks(tmp_path):
    listed = process("list", "--check", cwd=tmp_path)
    assert f"{NAME} from shrinkbert:TeacherLogits  ok" in listed.stdout
    checked = process("check-method", NAME, cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "13 checks passed" in checked.stdout


@pytest.mark.slow
def test_a_third_party_method_runs_to_a_report(tmp_path, teacher_folder):
    glue = tiny.write_glue(tmp_path / "glue", ("rte",))
    done = process(
        *["run", "--methods", f"{NAME}:{tiny.SHAPE}:start=random", "--tasks", "rte", "--data", str(glue)],
        *["--teacher", str(teacher_folder), "--epochs", "1"],
        cwd=tmp_path,
        BERT_BENCH_CACHE=str(tmp_path / "cache"),
    )
    assert done.returncode == 0, done.stderr
    (report,) = (tmp_path / "reports" / "runs").glob("*.md")
    assert NAME in report.read_text()


@pytest.mark.slow
def test_a_method_being_written_is_checked_by_its_class(bench, monkeypatch):
    monkeypatch.syspath_prepend(PLUGIN)
    done = bench("check-method", "shrinkbert:TeacherLogits")
    assert done.returncode == 0, done.stdout + done.stderr
    wrong = bench("check-method", "shrinkbert:Teacher")
    assert wrong.returncode == 2
    assert "cannot be imported" in wrong.stderr
    unknown = bench("check-method", "tinybird")
    assert unknown.returncode == 2
    assert "did you mean 'tinybert'" in unknown.stderr


@pytest.mark.slow
def test_a_method_is_checked_with_settings(bench):
    done = bench("check-method", "tinybert:padding=20")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tinybert:padding=20: 13 checks passed" in done.stdout
    too_long = bench("check-method", "tinybert:padding=99")
    assert too_long.returncode == 1
    assert "the teacher has 32 places" in too_long.stdout
    dropped = bench("check-method", "tinybert:-attn")
    assert dropped.returncode == 2
    assert "not with dropped terms" in dropped.stderr
