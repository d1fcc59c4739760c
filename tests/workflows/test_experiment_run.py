"""Running an experiment file: what is asked before anything starts."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tiny

from bench.errors import InputError
from bench.plan.build import build
from bench.request import Request
from bench.workflows import experiment


def test_the_one_question_is_about_the_disk_of_all_tables(
    tmp_path, teacher_folder, glue_folder, monkeypatch
):
    file = tmp_path / "e.toml"
    tables = [
        f'[[table]]\nname = "{task}"\nmethods = ["kd"]\ntasks = ["{task}"]'
        for task in ("rte", "sst2")
    ]
    file.write_text("\n".join(['title = "Two tables"', *tables]))
    request = Request(
        teacher=str(teacher_folder), data=str(glue_folder), results=tmp_path / "r", threads=1
    )
    plans = [
        build(asked) for table in experiment.choose(file, request)[1] for _, asked in table.parts
    ]
    monkeypatch.setattr("bench.run.ASK_ABOVE_BYTES", max(plan.disk_bytes for plan in plans))
    monkeypatch.setattr(experiment, "run", lambda *_: pytest.fail("it started without a question"))
    with pytest.raises(InputError, match="not started"):
        experiment.run_experiment(file, request, confirm=lambda question: False)


@pytest.mark.slow
def test_rows_of_a_table_with_trials_are_searched_for_and_keep_their_names(
    tmp_path, teacher_folder, glue_folder
):
    small = f"{tiny.SHAPE}:start=random"
    request = Request(
        teacher=str(teacher_folder),
        data=str(glue_folder),
        results=tmp_path / "r",
        reports=tmp_path / "p",
        threads=1,
        yes=True,
    )
    request = replace(request, epochs=1.0, seeds=(0, 1))
    file, rows = tmp_path / "e.toml", [f"kd:{small}", f"finetune:{small}"]
    table = f"[[table]]\nname = 'a'\nmethods = {rows}\ntasks = ['rte']\nshow = 'differences'\ntrials = 2\nsearch = ['pace']"
    file.write_text(
        f"title = 'mine'\n{table}\nlabels = {{ '{rows[0]}' = 'Ours', '{rows[1]}' = 'Plain' }}"
    )
    text, _ = experiment.describe_experiment(file, request, {"seeds", "epochs"})
    assert "2 trials of each row" in text
    outcome = experiment.run_experiment(file, request, {"seeds", "epochs"})
    assert outcome.exit_code == 0
    page = outcome.reports[-1].read_text()
    places = [page.index(f"| {label} (best of 2)") for label in ("Ours", "Plain")]
    assert places == sorted(places)
    assert experiment.run_experiment(file, request, {"seeds", "epochs"}).trained == 0
    file.write_text(file.read_text().replace("trials = 2", "trials = 200"))
    with pytest.raises(InputError, match="at most"):
        experiment.run_experiment(file, request, {"seeds", "epochs"})


def test_printed_numbers_of_a_file_of_ones_own_are_found_and_its_faults_are_said(
    tmp_path, teacher_folder, glue_folder
):
    request = Request(
        teacher=str(teacher_folder), data=str(glue_folder), results=tmp_path / "r", threads=1
    )
    file, numbers = tmp_path / "e.toml", tmp_path / "foo.csv"
    table = "[[table]]\nname = 'a'\nmethods = ['kd']\ntasks = ['rte']\npaper = 'Foo 2019'\nprinted = { kd = 'Table 1: Foo-4' }"
    file.write_text(f"title = 'mine'\nprinted_numbers = 'foo.csv'\n{table}")
    lines = "source,table,system,task,metric,split,value\nFoo 2019,Table 1,Foo-4,rte,accuracy,dev,61.5\n"
    numbers.write_text(lines)
    _, (chosen,), _ = experiment.choose(file, request)
    (row,) = chosen.printed.values()
    assert [(cell.task, cell.metric, cell.split, cell.value) for cell in row.cells] == [
        ("rte", "accuracy", "dev", 61.5)
    ]
    for old, new, said in (
        ("61.5", "much", "line 2: value should be a number"),
        ("Foo-4", "", "line 2: system is missing"),
        ("metric", "metrics", "did you mean 'metric'"),
        ("Table 1", "Table 2", "no printed row of Foo 2019"),
    ):
        numbers.write_text(lines.replace(old, new))
        with pytest.raises(InputError, match=said):
            experiment.choose(file, request)


def test_tasks_that_the_data_lack_are_left_out_unless_they_are_typed(bench, tmp_path):
    file = tmp_path / "mine.toml"
    table = '[[table]]\nname = "{}"\nmethods = ["kd"]\ntasks = ["{}"]\n'
    file.write_text(
        'title = "mine"\n' + table.format("a", "rte") + table.format("questions", "squad")
    )
    words = (
        "plan",
        "--experiment",
        file,
        "--data",
        "sample",
        "--teacher",
        "embedded",
        "--results",
        tmp_path / "r",
    )
    planned = bench(*words)
    assert planned.returncode == 0, planned.stderr
    assert "squad" in planned.stdout.splitlines()[1]
    assert "questions:" not in planned.stdout
    assert bench(*words, "--tasks", "squad").returncode == 2
