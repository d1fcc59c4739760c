"""Teachers and starts that each seed has of its own: trained by the real path, and told apart by readers."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path

import factories
import pytest
import tiny

from bench import api
from bench.errors import InputError
from bench.plan.build import build
from bench.plan.from_record import request_from_record
from bench.record.cell import Varied, train_key
from bench.record.cell_differences import left_out_lines
from bench.report.load import load
from bench.report.reproduce import commands, experiment_command
from bench.report.studies import studies
from bench.report.tables.parts import sources_of_variance
from bench.report.teachers import teacher_weights

ROWS = f"finetune:{tiny.SHAPE},kd:{tiny.SHAPE},moebert,mtdnn:members=1"
BOTH = ("teacher", "start")


def trained(request):
    """The records of a run, by row, task and seed."""
    outcome = api.run(request)
    assert outcome.exit_code == 0, outcome.failures
    found = {}
    for record in api.Store(request.results).records():
        found[record.cell.method, record.cell.tasks[0], record.cell.seed] = record
    return found


def start_of(record):
    return record.artefacts["general_start"]["weights"]


@pytest.fixture
def varied(request_):
    """A run of two seeds, each with its own teacher and start."""
    return request_("varied", methods=ROWS, seeds=(0, 1), vary=BOTH)


@pytest.mark.slow
def test_each_seed_has_a_teacher_and_a_start_of_its_own(request_, varied):
    found = trained(varied)
    for task in ("rte", "sst2"):
        teachers = [found["teacher", task, seed] for seed in (0, 1)]
        assert teacher_weights(teachers[0]) != teacher_weights(teachers[1])
        for method in ("kd", "moebert"):
            students = [found[method, task, seed] for seed in (0, 1)]
            for student, teacher in zip(students, teachers, strict=True):
                assert teacher_weights(student) == teacher_weights(teacher)
                assert student.cell.teacher.key == teacher.cell.teacher.key
        assert start_of(found["kd", task, 0]) != start_of(found["kd", task, 1])
        # of a student of several tasks each teacher is the seed's
        several = found["mtdnn", task, 1]
        assert {partner.teacher for partner in several.cell.together} == {
            found["teacher", name, 1].cell.teacher.key for name in ("rte", "sst2")
        }

    # seed 0 has the weights that it has where one of each serves all seeds; seed 1 has not
    plain = trained(request_("plain", methods=ROWS, seeds=(0, 1)))
    for method in ("finetune", "kd", "moebert", "mtdnn"):
        weights = [(found[method, "rte", s], plain[method, "rte", s]) for s in (0, 1)]
        (of_varied, of_plain), (other, shared) = weights
        assert of_varied.weights == of_plain.weights
        assert of_varied.key != of_plain.key
        if method != "mtdnn":  # its student begins as the checkpoint, and 40 rows move it little
            assert other.weights != shared.weights

    # what is trained again from a record alone is the same cell
    record = found["kd", "sst2", 1]
    again = build(request_from_record(record, varied))
    assert train_key(record.cell) in {planned.train_key for planned in again.cells}
    assert not again.todo


def test_the_report_says_what_moves_its_intervals(bench, glue_folder, teacher_folder, varied):
    varied = replace(varied, methods=f"kd:{tiny.SHAPE}", tasks="rte")
    trained(varied)
    (report,) = (file for file in varied.reports.rglob("README.md") if "kd" in file.read_text())
    text = report.read_text()
    assert "teachers, of which each seed has its own" in text
    assert "starts, of which each seed has its own" in text
    assert "They leave out" not in text
    # a student is compared with the teacher of its seed
    table = load(varied.results)
    students = table[(table["method"] == "kd") & (table["task"] == "rte")]
    teachers = table[(table["method"] == "teacher") & (table["task"] == "rte")]
    by_seed = dict(zip(teachers["seed"], teachers["score"], strict=True))
    assert list(students["teacher_score"]) == [by_seed[seed] for seed in students["seed"]]

    # the command at its end makes nothing anew
    commands = re.findall(r"- command: `python -m bench (.*)`", text)
    for command in commands:
        assert "--vary teacher,start" in command
        typed = shlex.split(
            command.replace("tiny-glue", str(glue_folder))
            .replace("tiny-bert", str(teacher_folder))
            .replace("corpus.txt", varied.corpus[0])
        )
        done = bench(*typed, "--results", varied.results, "--reports", varied.reports, "--yes")
        assert "nothing to do: every cell has its record" in done.stderr, command


def test_a_plan_trains_each_start_and_teacher_once(request_):
    plan = build(request_(methods=f"kd:{tiny.SHAPE}", tasks="rte", seeds=(1, 2), vary=BOTH))
    kinds = [step.kind for step in plan.todo_steps]
    assert kinds.count("teacher") == 2
    assert kinds.count("artefact") == 2
    assert len({entry.key for entry in plan.artefacts}) == 2, "seed 0 is not asked for"
    alone = build(request_(methods=f"kd:{tiny.SHAPE}", tasks="rte", seeds=(1, 2), vary=("start",)))
    kinds = [step.kind for step in alone.todo_steps]
    assert (kinds.count("teacher"), kinds.count("artefact")) == (1, 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vary": "teachers"}, "--vary teachers: choose teacher, start or both"),
        ({"vary": "teacher", "augment": "rules"}, "labels examples by one teacher"),
        ({"vary": "teacher", "teacher_outputs": "fp32"}, "keeps those of one teacher"),
        ({"vary": "teacher", "methods": "mtdnn"}, "an ensemble of several seeds"),
    ],
)
def test_what_has_one_teacher_is_refused(request_, change, message):
    with pytest.raises(InputError, match=re.escape(message)):
        build(request_(**change))


def test_a_tuned_teacher_is_one_for_all_seeds(request_, tmp_path):
    from transformers import BertForSequenceClassification

    tuned = tiny.save_teacher(tmp_path / "tuned", BertForSequenceClassification)
    with pytest.raises(InputError, match="not fine-tuned here"):
        build(request_(teacher=str(tuned), tasks="rte", methods="kd", vary="teacher"))


def record_of(seed, start, varied=True):
    """A record of a row whose seeds have their own teachers and starts; those of seed 0 are named."""
    made = factories.record("kd", "rte", seed, 0.6)
    teacher = made.cell.teacher.model_copy(update={"key": f"teacher {seed}"})
    common = Varied(sources=BOTH, teacher="teacher 0", artefacts={"general_start": start})
    return factories.changed(
        made,
        teacher=teacher,
        artefacts={"general_start": f"{start}, {seed}"},
        varied=common if varied else None,
    )


def test_seeds_of_one_row_are_those_with_the_same_teacher_and_start_of_seed_0():
    """A start on another text is another training, although the keys of all seeds differ."""
    (group,) = studies([record_of(seed, "on this text") for seed in (0, 1, 2)])
    assert set(group.values("kd", group.columns[0])) == {0, 1, 2}
    mixed = [record_of(0, "on another text"), *(record_of(seed, "on this") for seed in (1, 2))]
    mixed = [
        record.model_copy(update={"finished": f"2026-11-0{day}T07:00:00+00:00"})
        for day, record in enumerate(mixed, start=1)
    ]
    (group,) = studies(mixed)
    assert set(group.values("kd", group.columns[0])) == {1, 2}
    (line,) = left_out_lines(group.left_out)
    assert line.endswith("differ in: general start or other artefacts")


def test_rows_with_their_own_teachers_stand_in_no_table_with_others():
    """Planted: a seed whose teacher serves all seeds."""
    records = [record_of(0, "text", varied=False), *(record_of(s, "text") for s in (1, 2))]
    records = [
        record.model_copy(update={"finished": f"2026-11-0{day}T07:00:00+00:00"})
        for day, record in enumerate(records, start=1)
    ]
    (group,) = studies(records)
    assert set(group.values("kd", group.columns[0])) == {1, 2}


def test_tables_name_the_sources_of_their_intervals():
    (group,) = studies([record_of(seed, "text") for seed in (0, 1)])
    (text,) = sources_of_variance(group)
    assert "teachers, of which each seed has its own" in text
    plain = [factories.record("kd", "rte", seed) for seed in (0, 1)]
    (group,) = studies(plain)
    (text,) = sources_of_variance(group)
    assert text.startswith("The intervals are over examples and seeds of the students.")
    assert "one teacher" in text
    (group,) = studies(plain[:1])
    assert sources_of_variance(group)[0].startswith("The intervals are over examples.")


def test_commands_of_a_report_ask_for_what_varied():
    """Planted before: an experiment's command, and that of teachers alone, made other records."""
    (group,) = studies([record_of(seed, "text") for seed in (1, 2)])
    assert f"--vary {','.join(BOTH)}" in experiment_command(group, Path("paper.toml"), "", "")
    (alone,) = studies([varied_teacher(seed) for seed in (1, 2)])
    (command,) = commands(alone)
    assert "--seeds 1,2" in command
    assert "--vary teacher" in command


def varied_teacher(seed):
    """The record of a teacher that one seed has."""
    made = factories.record("teacher", "rte", seed, 0.6)
    teacher = made.cell.teacher.model_copy(update={"key": f"teacher {seed}"})
    varied = Varied(sources=("teacher",), teacher="teacher 0")
    return factories.changed(made, teacher=teacher, varied=varied)
