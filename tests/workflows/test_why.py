"""Why a record's cell would run again: each planted difference is named, and nothing else. Nothing is trained here.

Records are written for cells that were planned, so a plan of the same options finds them.
"""

from __future__ import annotations

import json
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import factories
import pytest
import tiny
from transformers import BertForSequenceClassification

from bench.errors import InputError
from bench.plan.build import Plan, build
from bench.plan.from_record import request_from_record
from bench.record.cell import Cell, Partner, Search, Selection, Trial, record_key, train_key
from bench.record.cell_differences import differences, identity
from bench.record.code import CURRENT, STALE, UNKNOWN, digest_of, named_code, student_modules
from bench.record.schema import Record
from bench.record.store import Store
from bench.request import Request
from bench.workflows.why import Explanation, describe, why

ROW = f"kd:{tiny.SHAPE}"
CORPUS = "the cat runs in the house .\na bird sings on the old tree .\n" * 30
AS_TYPED = {"threads": 2, "epochs": 1.0}
"""What the records of these tests were made with, and what a later question has from them."""


@pytest.fixture
def asked(glue_folder: Path, teacher_folder: Path, tmp_path: Path) -> Request:
    """What was typed for every record of these tests; a question has its data, teacher and text from here."""
    (tmp_path / "corpus.txt").write_text(CORPUS)
    return Request(
        methods=ROW,
        tasks="rte",
        data=str(glue_folder),
        teacher=str(teacher_folder),
        device="cpu",
        corpus=(str(tmp_path / "corpus.txt"),),
        corpus_tokens=300,
        results=tmp_path / "r",
        reports=tmp_path / "p",
        **AS_TYPED,
    )


def keep(results: Path, cell: Cell, **fields: Any) -> Record:
    """A finished record of a cell, made by today's code."""
    code = {"computed_by": named_code(student_modules(cell.method, ("accuracy",)))}
    keys = {"key": record_key(cell), "train_key": train_key(cell)}
    record = factories.record().model_copy(
        update={"cell": cell, "code": code, "artefacts": {}, **keys, **fields}
    )
    Store(results).write(record)
    return record


def cell_of(plan: Plan, method: str = "kd") -> Cell:
    return next(planned.cell for planned in plan.cells if planned.cell.method == method)


def ask(record: Record, asked: Request, **typed: Any) -> Explanation:
    """The question with data, teacher and text as in ``asked``, and with what is typed besides."""
    plain = Request(
        **{
            n: getattr(asked, n)
            for n in ("data", "teacher", "device", "corpus", "corpus_tokens", "results")
        }
    )
    return why(record.key[:12], asked.results, replace(plain, **typed), set(typed))


def fields(answer: Explanation) -> list[str]:
    return [line.field for line in answer.differences]


def inputs(answer: Explanation, field: str) -> list[str]:
    """What is said of the identity behind a key that differs."""
    return next(list(line.inputs) for line in answer.differences if line.field == field)


# --- field by field


def alone() -> Cell:
    """A cell that has a value for every field of one task's students."""
    cell = factories.record().cell
    return cell.model_copy(
        update={
            "settings": {"alpha": 0.5, "layers": 2, "start": "general", "intermediate.epochs": 3},
            "dropped": ("hard",),
            "artefacts": {"general_start": "1" * 64, "vocabulary": "2" * 64},
            "data": cell.data.model_copy(update={"max_train_rows": 100}),
            "numeric": cell.numeric.model_copy(update={"device": "cuda"}),
            "selection": Selection(rule="half", rows={"rte": "3" * 64}),
            "search": Search(
                of="kd",
                metric="accuracy",
                held_back="4" * 64,
                trials=(Trial(row="kd", score=50.0),),
            ),
        }
    )


def together() -> Cell:
    partners = tuple(
        Partner(task=task, train=task[0] * 64, teacher="7" * 64) for task in ("rte", "sst2")
    )
    return alone().model_copy(update={"together": partners})


PLACES = {
    "data": "data.train",
    "max_train_rows": "data.max_train_rows",
    "evaluation": "data.evaluation",
}


def changed(cell: Cell, field: str) -> Cell:
    """The cell with another value in the place of one field of its identity."""
    body = cell.model_dump()
    first, _, rest = field.partition(".")
    place = PLACES.get(first, first) + (f".{rest}" if rest else "")
    path = [first, rest] if first in ("settings", "recipe", "artefacts") else place.split(".")
    if first == "together":
        number = [partner["task"] for partner in body["together"]].index(path[1])
        path = ["together", number, path[2]]  # type: ignore[list-item]
    inner: Any = body
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = other(inner[path[-1]])
    return Cell.model_validate(body)


def other(value: Any) -> Any:
    if isinstance(value, dict):
        return {**value, "of": "another row"}
    if isinstance(value, tuple | list):
        return (*value, "more")
    if isinstance(value, str):
        return "f" * 64 if len(value) == 64 else f"{value}x"
    return 7 if value is None else value + 1


@pytest.mark.parametrize("cell", [alone(), together()], ids=["alone", "together"])
def test_every_field_of_a_key_is_named_where_it_alone_differs(cell):
    named = [field for field in identity(cell) if field not in ("schema", "point", "together")]
    assert len(named) > 25
    for field in named:
        second = changed(cell, field)
        assert record_key(second) != record_key(cell), field
        (one,) = differences(cell, second)
        assert one["field"] == field
        assert one["first"] != one["second"]


# --- a record and today's plan


def test_a_record_that_a_run_finds(asked):
    record = keep(asked.results, cell_of(build(asked)))
    answer = ask(record, asked)
    assert (answer.verdict, answer.again, answer.code) == (
        "a run finds this record",
        False,
        CURRENT,
    )
    assert answer.planned_key == record.key
    assert answer.differences == []


def test_a_planted_field_is_named_and_nothing_else(asked):
    cell = cell_of(build(asked))
    answer = ask(keep(asked.results, cell.model_copy(update={"version": 99})), asked)
    assert fields(answer) == ["version"]
    assert (answer.again, answer.planned_key, answer.code) == (
        True,
        record_key(cell),
        STALE,
    )


def test_what_differs_behind_a_key_is_named_where_its_identity_is_known(asked):
    """Of a teacher by its own record; of what is in the cache by its folder; else it is said that nobody knows."""
    plan = build(asked)
    record = keep(asked.results, cell_of(plan))
    answer = ask(record, asked, threads=1)
    assert fields(answer) == ["teacher.key", "artefacts.general_start", "numeric.threads"]
    unknown = ["its own identity is not known: it is not in this cache"]
    assert inputs(answer, "teacher.key") == inputs(answer, "artefacts.general_start") == unknown
    keep(asked.results, cell_of(plan, "teacher"))
    (start,) = (entry.slot for entry in plan.artefacts if entry.artefact.is_kept)
    start.folder.mkdir(parents=True)
    (start.folder / "made.json").write_text(
        json.dumps({"key": start.key, "identity": start.identity})
    )
    answer = ask(record, asked, threads=1)
    for field in ("teacher.key", "artefacts.general_start"):
        assert (
            [line for line in inputs(answer, field) if "threads" in line]
            == inputs(answer, field)
            != []
        )
    answer = ask(record, asked, epochs=2.0)
    assert fields(answer) == ["teacher.key", "recipe.epochs"]
    assert len(inputs(answer, "teacher.key")) == 1
    assert "epochs" in inputs(answer, "teacher.key")[0]
    answer = ask(record, replace(asked, corpus_tokens=200))
    assert fields(answer) == ["artefacts.general_start"]
    assert ["300, today 200" in line for line in inputs(answer, "artefacts.general_start")] == [
        True
    ]


def test_a_limit_of_rows_is_the_records_own_until_one_is_typed(asked):
    record = keep(asked.results, cell_of(build(replace(asked, max_train_rows=16))))
    assert not ask(record, asked).again
    assert fields(ask(record, asked, max_train_rows=20)) == [
        "data",
        "max_train_rows",
        "teacher.key",
    ]


@pytest.mark.parametrize("status", ["failed", "interrupted"])
def test_a_record_without_a_result(asked, status):
    record = keep(asked.results, cell_of(build(asked)), status=status)
    answer = ask(record, asked)
    assert answer.again == (status == "interrupted")
    if status == "failed":
        assert "--retry-failed runs it again" in answer.verdict
        answer = ask(record, replace(asked, results=asked.results), retry_failed=True)
    assert answer.verdict == f"a run makes it again: the record has no result, it was {status}"


# --- the code


def test_a_stale_digest_is_shown_with_todays(asked):
    cell = cell_of(build(asked))
    modules = student_modules(cell.method, ("accuracy",))
    code = {"computed_by": {**named_code(modules), "digest": "0" * 64}, "commit": "ab" * 20}
    record = keep(asked.results, cell, code=code)
    answer = ask(record, asked)
    assert (answer.code, answer.again) == (STALE, False)
    (part,) = answer.code_parts
    assert astuple(part) == ("training", STALE, "0" * 64, digest_of(modules))
    assert "git diff abababababab -- bench methods" in describe(answer)
    again = ask(record, asked, rerun_stale=True)
    assert again.again
    assert "--rerun-stale was typed" in again.verdict


def test_every_code_behind_a_record_is_judged_and_one_of_before_is_unknown(asked):
    cell = cell_of(build(asked))
    before = {"kind": "teacher", "of": [], "hash": "9" * 64}
    lost = {"of": ["methods.gone"], "digest": "8" * 64, "parts": {"teacher": before}}
    made_of = {"vocabulary": {"key": "1" * 64, "weights": "2" * 64, "code": lost}}
    answer = ask(keep(asked.results, cell, code={}, artefacts=made_of), asked)
    assert [(part.name, part.state) for part in answer.code_parts] == [
        ("training", UNKNOWN),
        ("vocabulary", STALE),
        ("vocabulary / teacher", UNKNOWN),
    ]


# --- every kind of record


def test_a_teachers_record(asked):
    record = keep(asked.results, cell_of(build(asked), "teacher"))
    assert not ask(record, asked).again
    answer = ask(record, asked, threads=1)
    assert fields(answer) == ["teacher.key", "numeric.threads"]
    with pytest.raises(InputError, match="it has no row"):
        ask(record, asked, methods="kd")


def test_a_method_that_is_not_installed_is_said_in_one_line(asked):
    cell = cell_of(build(asked)).model_copy(update={"method": "gone/mine"})
    code = {"computed_by": {"kind": "student", "of": ["gone:Mine"], "hash": "1" * 64}}
    answer = ask(keep(asked.results, cell, code=code), asked)
    assert "the method gone/mine is not installed here" in answer.verdict
    assert "\n" not in answer.verdict
    assert (answer.code, answer.again) == (UNKNOWN, True)
    assert "planned_key" not in answer.to_dict()


def test_a_finished_checkpoint_needs_its_folder_for_a_whole_answer(asked, tmp_path):
    finished = tiny.save_teacher(tmp_path / "finished", BertForSequenceClassification)
    row = f"checkpoint:{finished}"
    record = keep(asked.results, cell_of(build(replace(asked, methods=row)), "checkpoint"))
    without = ask(record, asked)
    assert not without.again
    assert "if it is given a folder that holds the same" in without.verdict
    assert "add --methods checkpoint:FOLDER" in without.not_compared[0]
    assert ask(record, asked, methods=row).verdict == "a run finds this record"
    assert fields(ask(record, asked, threads=1)) == ["teacher.key", "numeric.threads"]
    larger = tiny.save_teacher(tmp_path / "larger", BertForSequenceClassification, layers=4)
    assert {"settings.weights", "settings.config"} == set(
        fields(ask(record, asked, methods=f"checkpoint:{larger}"))
    )


def test_a_student_of_several_tasks(asked):
    row = f"microbert:{tiny.SHAPE}:start=random:tasks=together"
    plan = build(replace(asked, methods=row, tasks="rte,sst2"))
    records = [keep(asked.results, p.cell) for p in plan.cells if p.cell.method == "microbert"]
    assert [ask(record, asked).again for record in records] == [False, False]
    answer = ask(records[1], asked, threads=1)
    assert fields(answer) == ["together.rte.teacher", "together.sst2.teacher", "numeric.threads"]
    assert fields(ask(records[1], asked, tasks="sst2,rte")) == ["together"]
    of_teacher = keep(asked.results, cell_of(plan, "teacher"))
    with pytest.raises(InputError, match="does not name rte"):
        ask(of_teacher, asked, tasks="sst2")


def test_a_row_that_a_search_found_is_left_to_tune(asked):
    search = Search(
        of=ROW,
        metric="accuracy",
        held_back="4" * 64,
        trials=(Trial(row=ROW, score=50.0), Trial(row=f"{ROW}:pace=2", score=60.0)),
    )
    cell = cell_of(build(replace(asked, methods=f"{ROW}:pace=2")))
    label = f"{ROW} (best of 2)"
    answer = ask(
        keep(asked.results, cell.model_copy(update={"search": search, "label": label})), asked
    )
    assert fields(answer) == ["search"]
    assert "`tune` finds what a search chose" in answer.verdict


def test_the_verb(bench, asked, tmp_path):
    record = keep(asked.results, cell_of(build(asked)))
    typed = (
        "--results",
        asked.results,
        "--data",
        asked.data,
        "--teacher",
        asked.teacher,
        "--device",
        "cpu",
    )
    typed += ("--corpus", asked.corpus[0], "--corpus-tokens", asked.corpus_tokens)
    found = bench("show", "--why", record.key[:10], *typed, "--json", tmp_path / "why.json")
    assert found.returncode == 0, found.stderr
    assert "plan: a run finds this record" in found.stdout
    body = json.loads((tmp_path / "why.json").read_text())
    assert (body["planned_key"], body["differences"], body["again"]) == (record.key, [], False)
    not_found = bench(
        "show", "--why", record.key[:10], *typed, "--epochs", 2, "--json", tmp_path / "why.json"
    )
    assert not_found.returncode == 1
    assert "recipe.epochs: 1.0 in the record, 2.0 in the plan" in not_found.stdout
    body = json.loads((tmp_path / "why.json").read_text())
    assert [(one["field"], one["record"], one["plan"]) for one in body["differences"]][1] == (
        "recipe.epochs",
        1.0,
        2.0,
    )
    assert not list(Path(asked.results).rglob("*.safetensors"))
    bad = bench("show", "--why", "zzzz", *typed[:2])
    assert bad.returncode == 2
    assert "a key that begins with zzzz" in bad.stderr


def test_a_length_that_was_typed_is_typed_again_where_it_is_not_the_tasks(tmp_path):
    (tmp_path / "long.toml").write_text(
        'name = "long"\ntrain = "t.csv"\nvalidation = "v.csv"\ntext = ["body"]\nlabels = ["no", "yes"]\nmetrics = ["accuracy"]\n'
        "max_length = 256\n"
    )
    for name in ("t.csv", "v.csv"):
        (tmp_path / name).write_text("body,label\nthe cat runs,no\n")
    asked = Request(tasks=str(tmp_path / "long.toml"))
    for length in (128, 256):
        cell = factories.record().cell
        record = factories.record().model_copy(
            update={
                "cell": cell.model_copy(update={"recipe": cell.recipe | {"max_length": length}})
            }
        )
        again = dict(request_from_record(record, asked, {"tasks"}).numbers)
        assert again.get("max_length", 256) == length
