"""A plan as a list of steps: each after what it needs, each cell once, and nothing that is there."""

from __future__ import annotations

import json
from collections import Counter

import factories
import pytest
import tiny
from transformers import BertForSequenceClassification

from bench import api
from bench.make import step as steps
from bench.plan.plan import ARTEFACT_STEP, STUDENTS_STEP, TEACHER_STEP, Plan
from bench.plan.show import describe
from bench.record.cell import TEACHER, record_key, train_key
from bench.record.store import Store

RANDOM = f"finetune:{tiny.SHAPE}:start=random"


def test_a_step_comes_after_what_it_needs_and_every_cell_has_one(request_):
    plan = api.plan(request_(seeds=(0, 1), jobs=1))
    place = {step.key: number for number, step in enumerate(plan.todo_steps)}
    assert len(place) == len(plan.todo_steps)
    assert all(place[need] < place[step.key] for step in plan.todo_steps for need in step.needs)
    answered = [planned.key for step in plan.todo_steps for planned in step.cells]
    assert Counter(answered) == Counter(planned.key for planned in plan.todo)
    kinds = Counter(step.kind for step in plan.todo_steps)
    assert kinds[TEACHER_STEP] == 2 * 3, "mtdnn wants three teachers of each task"
    assert kinds[ARTEFACT_STEP] == 2 * 2 + 1, (
        "neuron importance and ensemble of each task, and the general start"
    )


def test_what_is_in_the_cache_is_no_step_and_what_a_step_reads_is_the_same(request_):
    plan = api.plan(request_(augment="masked", augment_times=2, jobs=1))
    for step in plan.todo_steps:
        assert (step.slot is None) == bool(step.students)
        if step.slot is not None:
            step.slot.folder.mkdir(parents=True)
            (step.slot.folder / "made.json").write_text("{}")
    left = api.plan(plan.request)
    assert {step.key: step.needs for step in left.todo_steps} == {
        step.key: step.needs for step in plan.todo_steps if step.students
    }


def record_of_the_teacher(plan: Plan) -> None:
    """Write the record of the teacher's cell, as a clone with committed records has it."""
    cell = next(planned.cell for planned in plan.cells if planned.cell.method == TEACHER)
    record = factories.record("teacher", "rte")
    keys = {"key": record_key(cell), "train_key": train_key(cell)}
    Store(plan.request.results).write(
        record.model_copy(update={"cell": cell, "answers": None, **keys})
    )


def test_a_teacher_that_nothing_to_do_needs_is_not_made(request_):
    record_of_the_teacher(api.plan(request_(methods=RANDOM, tasks="rte")))
    for rows, needed in ((RANDOM, False), (f"{RANDOM},kd:{tiny.SHAPE}", True)):
        steps = api.plan(request_(methods=rows, tasks="rte")).todo_steps
        assert any(step.kind == TEACHER_STEP for step in steps) == needed


def test_what_only_a_finished_artefact_was_made_from_is_not_made(request_, monkeypatch):
    """A cache may have a pre-training and no longer the truncated teacher that it began with."""
    request = request_(methods=f"minilmv2:{tiny.SHAPE}", tasks="rte")
    (truncated,) = (
        e for e in api.plan(request).artefacts if e.artefact.words == "truncated teacher"
    )
    monkeypatch.setattr(Plan, "is_there", lambda plan, slot: slot.key != truncated.key)
    plan = api.plan(request)
    assert truncated.key not in {step.key for step in plan.todo_steps}
    (line,) = (line for line in describe(plan).splitlines() if "truncated teacher" in line)
    assert "nothing to do needs it" in line


def test_rows_that_several_tasks_share_are_written_once(request_):
    """The first lines say the data and the teacher; a task with other rows to do has its own."""
    plan = api.plan(request_(methods=RANDOM, tasks="rte,stsb"))
    lines = describe(plan).splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["plan:", "data:", "teacher:"]
    (place,) = (number for number, line in enumerate(lines) if line.startswith("  rows:"))
    assert "finetune" in lines[place]
    assert all(task in lines[place + 1] for task in ("rte", "stsb"))

    record_of_the_teacher(plan)
    fewer = describe(api.plan(plan.request)).splitlines()
    assert sum(line.startswith("  rows:") for line in fewer) == 2


def test_a_student_of_several_tasks_begins_with_the_one_start_that_its_key_names(
    tmp_path, request_
):
    """Where teachers come tuned, each task has another checkpoint, and so another general start."""
    for task, layers in (("rte", 3), ("sst2", 4)):
        tiny.save_teacher(tmp_path / "tuned" / task, BertForSequenceClassification, layers=layers)
    plan = api.plan(
        request_(
            methods=f"microbert:{tiny.SHAPE}:tasks=together",
            teacher=str(tmp_path / "tuned"),
            jobs=1,
        )
    )
    (start,) = (step.key for step in plan.todo_steps if step.kind == ARTEFACT_STEP)
    (step,) = (step for step in plan.todo_steps if step.kind == STUDENTS_STEP)
    assert step.needs == (start,)
    assert [planned.cell.artefacts for planned in step.cells] == [{"general_start": start}] * 2


def test_finished_models_in_folders_of_one_name_are_rows_of_their_own(tmp_path, request_):
    """They had one label, and the report left one of them out."""
    folders = [tmp_path / name for name in ("a/best", "b/best", "b/last")]
    for layers, folder in enumerate(folders, start=1):
        tiny.save_teacher(folder, BertForSequenceClassification, layers=layers)
    plan = api.plan(
        request_(
            methods=",".join(f"checkpoint:{folder}" for folder in folders), tasks="rte", jobs=1
        )
    )
    assert plan.labels == ["checkpoint:a/best", "checkpoint:b/best", "checkpoint:last"]


@pytest.mark.slow
def test_the_steps_of_plan_json_are_those_that_a_run_makes(bench, request_, tmp_path, monkeypatch):
    request = request_(methods=f"kd:{tiny.SHAPE},moebert", tasks="rte")
    words = (
        "--methods",
        request.methods,
        "--tasks",
        "rte",
        "--data",
        request.data,
        "--teacher",
        request.teacher,
    )
    words += (
        "--corpus",
        *request.corpus,
        "--corpus-tokens",
        300,
        "--epochs",
        1,
        "--results",
        request.results,
    )
    assert bench("plan", *words, "--jobs", 1, "--json", tmp_path / "plan.json").returncode == 0
    planned = [
        (step["kind"], step["key"])
        for step in json.loads((tmp_path / "plan.json").read_text())["steps"]
    ]
    made, make = [], steps.make

    def noted(step, work):
        made.append((step.kind, step.key))
        return make(step, work)

    monkeypatch.setattr(steps, "make", noted)
    done = bench("run", *words, "--jobs", 1, "--reports", request.reports)
    assert done.returncode == 0, done.stderr
    assert Counter(made) == Counter(planned)
    assert STUDENTS_STEP in dict(made)
    assert bench("plan", *words, "--jobs", 1, "--json", tmp_path / "plan.json").returncode == 0
    assert json.loads((tmp_path / "plan.json").read_text())["steps"] == []
