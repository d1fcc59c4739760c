"""Experiment files: every shipped one is sound; one runs to its report; what is typed goes before the file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import tiny
from shipped import has_every_method

from bench.data.tasks import expand
from bench.errors import InputError
from bench.plan.experiment import read_experiment
from bench.plan.spelling import parse_methods

ROOT = Path(__file__).resolve().parents[1]
SHIPPED = sorted((ROOT / "methods" / "experiments").glob("*.toml"))


@pytest.mark.parametrize("file", SHIPPED, ids=lambda f: f.stem)
def test_shipped_experiments_name_rows_and_tasks_that_exist(file):
    experiment = read_experiment(file)
    for table in experiment.table:
        assert parse_methods(",".join(table.methods))
        assert expand(",".join(table.tasks))
    rows = {row.method.name for table in experiment.table for row in parse_methods(",".join(table.methods))}
    assert file.stem in rows


def test_every_paper_has_one():
    has_every_method(
        {file.stem for file in SHIPPED},
        "methods/experiments/ (a file NAME.toml with the tables of the method's paper)",
        "methods/experiments/pd.toml",
        besides={"finetune", "kd"},
    )


def test_microbert_has_its_four_tables_and_the_missing_controls():
    experiment = read_experiment(ROOT / "methods" / "experiments" / "microbert.toml")
    tables = {
        table.name: {row.spelling for row in parse_methods(",".join(table.methods))} for table in experiment.table
    }
    assert set(tables) == {"accuracy", "reappearance", "loss comparison", "ablation"}
    assert {"microbert:features=tokens", "microbert:distance=kl", "microbert:features=max"} <= tables["loss comparison"]
    assert {"microbert:-dis", "microbert:experts=1", "microbert:teacher_layers=nearest"} <= tables["ablation"]


def write(folder: Path, text: str) -> Path:
    file = folder / "e.toml"
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    "text, says",
    [
        ("title = 'x'", "table: Field required"),
        ("title = 'x'\n[[table]]\nname='a'\nmethods=[]\ntasks=['rte']", "table.0.methods"),
        ("title = 'x'\nteachers='y'\n[[table]]\nname='a'\nmethods=['kd']\ntasks=['rte']", "teachers: Extra inputs"),
        ("title = ", "is not TOML"),
    ],
)
def test_a_broken_file_is_one_line(tmp_path, text, says):
    with pytest.raises(InputError, match=says):
        read_experiment(write(tmp_path, text))


def test_tables_and_tasks_are_chosen_by_name():
    experiment = read_experiment(ROOT / "methods" / "experiments" / "microbert.toml")
    assert [t.name for t in experiment.chosen("ablation")] == ["ablation"]
    assert {t.tasks for t in experiment.chosen(tasks="mrpc")} == {("mrpc",)}
    assert [t.name for t in experiment.chosen(tasks="rte")] == ["accuracy", "reappearance", "loss comparison"]
    with pytest.raises(InputError, match="did you mean 'ablation'"):
        experiment.chosen("ablations")
    with pytest.raises(InputError, match="they have"):
        experiment.chosen(tasks="wnli")


@pytest.mark.slow
def test_an_experiment_runs_to_its_report(tmp_path, teacher_folder):
    glue = tiny.write_glue(tmp_path / "glue", ("rte", "sst2"))
    shape = f"{tiny.SHAPE}:start=random"
    file = write(
        tmp_path,
        f"""
title = "A small paper"
data = "hub"
teacher = "{teacher_folder}"
epochs = 1
[[table]]
name = "scores"
methods = ["kd:{shape}", "pkd:layers=2"]
tasks = ["rte", "sst2"]
[[table]]
name = "weights"
methods = ["kd:{shape}", "kd:{shape}:alpha=0.9"]
tasks = ["rte"]
show = "differences"
""",
    )
    words = [sys.executable, "-m", "bench", "run", "--experiment", str(file), "--data", str(glue), "--tasks", "rte"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "BERT_BENCH_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (report,) = (tmp_path / "reports" / "runs").glob("a-small-paper-*.md")
    text = report.read_text()
    assert text.startswith("# A small paper")
    assert "## scores" in text
    assert "## weights" in text
    assert "alpha=0.9" in text.split("## weights")[1]
    assert "sst2" not in text
    again = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert again.stderr.count("nothing to do: every cell has its record") == 2
    wrong = subprocess.run([*words, "--methods", "kd"], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert wrong.returncode == 2
    assert "do not go together" in wrong.stderr
