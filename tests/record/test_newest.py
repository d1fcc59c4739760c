"""Several trainings under one name never share a mean: the newest is shown, the others are named."""

from __future__ import annotations

import itertools
from dataclasses import replace

import factories
import numpy as np
import tiny

from bench.analysis.trace import trace
from bench.plan.build import build
from bench.record.cell import Partner
from bench.record.cell_differences import comparability_key, left_out_lines
from bench.record.store import Store
from bench.report.studies import studies
from bench.report.write import write_reports
from bench.request import Request

TIMES = (f"2026-11-{day:02}T07:00:00+00:00" for day in itertools.count(1))


def trained(label, task="rte", seed=0, score=0.6, finished=None, **cell):
    """A record of a cell that differs from others of its name by ``cell``."""
    record = factories.changed(factories.record(label, task, seed, score), **cell)
    return record.model_copy(update={"finished": finished or next(TIMES)})


def other_teacher(record):
    teacher = record.cell.teacher.model_copy(update={"key": "f" * 64})
    return {"teacher": teacher}


def test_seeds_of_two_trainings_are_not_averaged():
    """Seed 0 from one general start, seeds 1 and 2 from another."""
    old, new = (
        {"artefacts": {"general_start": "a" * 64}},
        {"artefacts": {"general_start": "b" * 64}},
    )
    records = [
        trained("kd", seed=0, score=0.9, **old),
        *(trained("kd", seed=s, score=0.6, **new) for s in (1, 2)),
    ]
    (group,) = studies(records)
    assert group.values("kd", group.columns[0]) == {1: 60.0, 2: 60.0}
    (line,) = left_out_lines(group.left_out)
    assert line.startswith(f"left out: kd on rte, seed 0 ({records[0].key[:12]});")
    assert line.endswith("differ in: general start or other artefacts")


def test_an_older_score_goes_before_a_newer_failure():
    scored = trained("mtdnn", version=1, score=0.7)
    broken = trained("mtdnn", version=2).model_copy(update={"status": "interrupted", "scores": {}})
    (group,) = studies([scored, broken])
    assert group.values("mtdnn", group.columns[0]) == {0: 70.0}
    assert left_out_lines(group.left_out) == []


def test_a_column_has_one_teacher():
    """A ratio to a teacher that the student never saw would be printed otherwise."""
    teacher, newer = trained("teacher", score=0.8), trained("teacher", score=0.5)
    key = other_teacher(newer)
    newer = newer.model_copy(update={"cell": newer.cell.model_copy(update=key)})
    students = [trained("kd", score=0.6), trained("tinybert", score=0.4, **key)]
    (group,) = studies([teacher, newer, *students])
    column = group.columns[0]
    assert group.systems == ["teacher", "tinybert"]
    assert group.values("teacher", column) == {0: 50.0}
    (line,) = left_out_lines(group.left_out)
    assert "kd on rte" in line
    assert line.endswith("teacher's training")


def test_a_teachers_score_on_an_older_development_set_is_not_shown():
    """A teacher's key is made from its training examples: it does not change with the development set."""
    old = [trained("teacher", score=0.8), trained("kd", score=0.6)]
    data = old[0].cell.data.model_copy(update={"evaluation": {"validation": "1" * 64}})
    new = [trained("teacher", score=0.5, data=data), trained("kd", score=0.4, data=data)]
    (group,) = studies([*old, *new])
    assert {r.key for r in group.records} == {r.key for r in new}


def test_what_is_left_out_is_said_in_the_report_and_can_be_traced(tmp_path):
    store = Store(tmp_path / "r")
    labels = np.arange(40) % 2
    for record, share in ((trained("kd", version=1), 4), (trained("kd", version=2), 16)):
        said = np.where(np.arange(40) < share, 1 - labels, labels)
        arrays = {
            "logits.validation": np.eye(2, dtype=np.float32)[said],
            "labels.validation": labels,
        }
        store.write(*factories.consistent(record, arrays))
    (report,) = write_reports(store, tmp_path / "p")
    assert "**Left out: kd on rte, seed 0" in report.read_text()
    assert "left out" in trace("90.0", store.root)[0].what


def test_a_table_with_a_limit_has_the_tasks_that_the_limit_leaves_whole():
    small = [factories.record(row, "rte") for row in ("teacher", "kd", "pkd")]  # 40 rows
    large = [factories.limited(factories.record(row, "sst2"), 50, 50) for row in ("teacher", "kd")]
    tight = [factories.limited(factories.record(row, "sst2"), 30, 30) for row in ("teacher", "kd")]
    found = {group.cell.data.max_train_rows: group for group in studies([*small, *large, *tight])}
    assert {limit: group.tasks for limit, group in found.items()} == {
        None: ["rte"],
        50: ["sst2", "rte"],
        30: ["sst2"],
    }
    assert found[50].systems == ["teacher", "kd"]  # pkd has nothing under that limit


def test_a_limit_that_leaves_nothing_out_changes_no_key(glue_folder, teacher_folder, tmp_path):
    asked = Request(
        methods=f"kd:{tiny.SHAPE}",
        tasks="rte",
        data=str(glue_folder),
        teacher=str(teacher_folder),
        results=tmp_path,
    )
    limited = replace(asked, max_train_rows=100_000)
    assert [planned.key for planned in build(limited).cells] == [
        planned.key for planned in build(asked).cells
    ]


def test_a_teacher_of_a_task_that_no_student_has_makes_no_column():
    records = [
        factories.record(label, task)
        for label, task in (("teacher", "rte"), ("teacher", "sst2"), ("kd", "sst2"))
    ]
    (group,) = studies(records)
    assert [column.task for column in group.columns] == ["sst2"]
    assert [record.cell.tasks for record in studies(records[:1])[0].records] == [("rte",)], (
        "alone it is a table"
    )


def test_trainings_of_several_tasks_differ_if_another_task_had_other_examples():
    """A student of mrpc and sst2 learns mrpc otherwise if it saw fewer examples of sst2."""
    one = factories.record("mtdnn", seed=0, score=0.7)
    partners = tuple(Partner(task=task, train="t", teacher="k") for task in one.cell.tasks)
    whole, part = (
        one.cell.model_copy(
            update={"together": (*partners, Partner(task="sst2", train=rows, teacher="k"))}
        )
        for rows in ("all", "some")
    )
    assert comparability_key(whole) != comparability_key(part)
