"""Running an experiment file: what is asked before anything starts."""

from __future__ import annotations

import pytest

from bench.errors import InputError
from bench.plan.build import build
from bench.plan.request import Request
from bench.workflows import experiment


def test_the_one_question_is_about_the_disk_of_all_tables(tmp_path, teacher_folder, glue_folder, monkeypatch):
    file = tmp_path / "e.toml"
    tables = [f'[[table]]\nname = "{task}"\nmethods = ["kd"]\ntasks = ["{task}"]' for task in ("rte", "sst2")]
    file.write_text("\n".join(['title = "Two tables"', *tables]))
    request = Request(teacher=str(teacher_folder), data=str(glue_folder), results=tmp_path / "r", threads=1)
    plans = [build(asked) for table in experiment.choose(file, request)[1] for _, asked in table.parts]
    monkeypatch.setattr("bench.run.ASK_ABOVE_BYTES", max(plan.disk_bytes for plan in plans))
    monkeypatch.setattr(experiment, "run", lambda *_: pytest.fail("it started without a question"))
    with pytest.raises(InputError, match="not started"):
        experiment.run_experiment(file, request, confirm=lambda question: False)


def test_tasks_that_the_data_lack_are_left_out_unless_they_are_typed(bench, tmp_path):
    file = tmp_path / "mine.toml"
    table = '[[table]]\nname = "{}"\nmethods = ["kd"]\ntasks = ["{}"]\n'
    file.write_text('title = "mine"\n' + table.format("a", "rte") + table.format("questions", "squad"))
    words = ("plan", "--experiment", file, "--data", "sample", "--teacher", "embedded", "--results", tmp_path / "r")
    planned = bench(*words)
    assert planned.returncode == 0, planned.stderr
    assert "squad" in planned.stdout.splitlines()[1]
    assert "questions:" not in planned.stdout
    assert bench(*words, "--tasks", "squad").returncode == 2
