"""Printed numbers: each has a place in an experiment file, and stands beside the row that the file names, and no other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import factories
import pytest

from bench.data.tasks import KNOWN
from bench.errors import InputError
from bench.plan.experiment_file import read_experiment
from bench.record.schema import Record
from bench.report.published import PrintedRow, Published, beside_ours, printed_cells, published
from bench.report.studies import studies
from bench.report.study import RetainedRow, Study
from bench.report.table import TableCell
from bench.report.tables.quoted import PERCENT, POINTS, printed_shares, quotations, scores_alone
from bench.request import Request
from bench.stats.metrics import label_of
from bench.workflows.experiment import choose

ROOT = Path(__file__).resolve().parents[2]


def test_every_printed_number_is_of_a_column_that_exists():
    assert len(published()) > 600
    assert len({cell[:6] for cell in published()}) == len(published())
    for cell in published():
        if task := KNOWN.get(cell.task):  # else a column that some file says is not here
            assert cell.evaluation in {e.name for e in task.evaluation}
            assert cell.metric in {*task.metrics, "accuracy", "f1", "unknown", PERCENT, POINTS}
        assert cell.split in ("dev", "test", "unknown")
        assert -100 <= cell.value <= (200 if cell.metric == PERCENT else 100)
        assert all((cell.source, cell.table, cell.system))


def test_every_printed_cell_is_named_by_a_file_or_is_absent_with_a_reason():
    named, absent = set(), set()
    for file in (ROOT / "methods" / "experiments").glob("*.toml"):
        experiment = read_experiment(file)
        for table in experiment.table:
            rows = [row for rows, _ in experiment.printed_of(table).values() for row in rows]
            assert not set(rows) & set(table.absent)
            absent |= {(paper, name) for paper in table.papers for name in table.absent}
            for row in rows:
                cells = {
                    cell
                    for cell in printed_cells(table.papers, row)
                    if cell.task in table.typed_tasks
                }
                assert cells, row
                named |= cells
    left = [
        cell
        for cell in published()
        if cell not in named
        and not absent & {(cell.source, f"{cell.table}: {cell.system}"), (cell.source, cell.task)}
    ]
    assert left == []


PLANTED = """
title = "A paper"
teacher = "bert-base-uncased"
recipe = "paper"
[[differs]]
why = "ours shuffles"
methods = ["pkd"]
[[table]]
name = "a"
methods = ["pkd:layers=6", "kd"]
tasks = ["mrpc", "rte"]
paper = "Sun et al. 2020, ACL"
labels = { "pkd:layers=6" = "PKD (6 layers)" }
printed = { "pkd:layers=6" = "Table 4: BERT_BASE-6L-PKD", teacher = ["Table 4: BERT_BASE"] }
absent = { "Table 4: MobileBERT" = "not here" }
"""


def chosen(folder: Path, text: str, **typed: Any):
    file = folder / "e.toml"
    file.write_text(text)
    (table,) = choose(file, Request("kd", "rte", **typed), typed.keys())[1]
    return table


@pytest.mark.parametrize(
    ("right", "wrong", "says"),
    [
        (
            "Table 4: BERT_BASE-6L-PKD",
            "Table 4: BERT_BASE-6-PKD",
            "did you mean 'Table 4: BERT_BASE-6L-PKD'",
        ),
        ("Sun et al. 2020, ACL", "Sun et al. 2020", "did you mean 'Sun et al. 2020, ACL'"),
        (
            '"pkd:layers=6" = "Table',
            '"pkd:layers=4" = "Table',
            "no row of table a that a printed row is",
        ),
        ("Table 4: MobileBERT", "Table 5: MobileBERT", "no printed row of Sun"),
        (
            'absent = { "Table 4: MobileBERT"',
            'absent = { "Table 4: MobileBERT" = "x", rice',
            "no printed row of Sun",
        ),
        ('methods = ["pkd"]', 'methods = ["pdk"]', "no row with a printed one is called 'pdk'"),
        ("[[table]]", "[[table]]\nsummed = 'mode'", "summed"),
    ],
)
def test_a_wrong_name_is_one_line(tmp_path, right, wrong, says):
    with pytest.raises(InputError, match=says.replace("'", ".")) as error:
        chosen(tmp_path, PLANTED.replace(right, wrong, 1))
    assert "\n" not in str(error.value)


def test_a_row_has_the_numbers_and_the_differences_that_its_file_gives_it(tmp_path):
    rows = chosen(tmp_path, PLANTED).printed
    assert {label: {cell.system for cell in row.cells} for label, row in rows.items()} == {
        "PKD (6 layers)": {"BERT_BASE-6L-PKD"},
        "teacher": {"BERT_BASE"},
    }
    assert [row.differs for row in rows.values()] == [["ours shuffles"], []]
    typed = chosen(tmp_path, PLANTED, epochs=1.0, teacher="bert-base-uncased", jobs=1).printed
    assert typed["teacher"].differs == ["ours with other --epochs"]


def ours(label: str, task: str = "rte", seed: int = 0, score: float = 0.7) -> Record:
    """A record on a development set of GLUE's size."""
    rows = {"train": 2490, "validation": 277 if task == "rte" else 408}
    return factories.changed(factories.record(label, task, seed, score), data={"rows": rows})


def group_of(*records: Record) -> Study:
    (group,) = studies(records)
    return group


CELL = Published("A paper", "Table 1", "theirs", "rte", "validation", "accuracy", "dev", 71.0, "")


def lines(group: Study, cell: Published = CELL, **row: Any) -> list[tuple[str, ...]]:
    table = beside_ours(group, {"kd": PrintedRow([cell], **row)})
    return [tuple(c.text for c in line.all_cells) for line in table.lines] if table else []


def test_what_no_row_makes_is_quoted_with_the_reason(tmp_path):
    """A printed row as a whole, and a column of the rows that are here; of generated data nothing."""
    text = PLANTED.replace(
        'absent = { "Table 4: MobileBERT" = "not here" }',
        'absent = { "Table 4: OpenAI GPT" = "no BERT", qnli = "left out" }',
    )
    quoted = chosen(tmp_path, text).quoted
    found = {(q.cell.system, q.cell.task, q.cell.value, q.why) for q in quoted}
    gpt = {each for each in found if each[0] == "OpenAI GPT"}
    assert ("OpenAI GPT", "cola", 47.2, "no BERT") in gpt
    assert len(gpt) == 9
    assert found - gpt == {
        ("BERT_BASE-6L-PKD", "qnli", 89.0, "left out"),
        ("BERT_BASE", "qnli", 90.5, "left out"),
    }
    table = quotations(group_of(ours("kd")), quoted)
    assert len(table.lines) == 11
    assert ("OpenAI GPT", "cola", f"47.2 ({label_of('matthews')}, test)") in {
        tuple(cell.text for cell in line.all_cells[:3]) for line in table.lines
    }
    assert (
        quotations(group_of(factories.changed(ours("kd"), data={"slug": "sample-v2"})), quoted)
        is None
    )


def shares(group: Study, **printed: list[Published]) -> list[tuple[str, ...]]:
    """Of ours 70.0 % for kd and 56.0 % for pkd."""
    of_rows = {"kd": TableCell("70.0 %", 70.0), "pkd": TableCell("56.0 %", 56.0)}
    retained = {}
    for label, cell in of_rows.items():
        retained[label] = RetainedRow(dict.fromkeys(group.columns, cell), cell)
    rows = {label: PrintedRow(cells) for label, cells in printed.items()}
    table = printed_shares(replace(group, retained=retained), rows)
    return (
        [tuple(cell.text for cell in line.all_cells[:4]) for line in table.lines] if table else []
    )


def test_printed_shares_and_their_difference_stand_beside_ours():
    group = group_of(ours("kd"), ours("pkd"), ours("teacher"))
    share = CELL._replace(system="Reappear percent", metric=PERCENT, value=114.5)
    difference = CELL._replace(system="Difference", metric=POINTS, value=15.1)
    other = share._replace(system="their percent", value=99.4)
    assert shares(group, kd=[CELL, share, difference], pkd=[other]) == [
        ("Reappear percent", "rte", "70.0 %", "114.5 %"),
        ("Difference", "rte", "14.0", "15.1"),
        ("their percent", "rte", "56.0 %", "99.4 %"),
    ]
    # without the other row there is no difference
    assert shares(group, kd=[difference]) == [("Difference", "rte", "–", "15.1")]
    assert shares(group, kd=[CELL]) == []
    assert scores_alone({"kd": PrintedRow([CELL, share, difference])})["kd"].cells == [CELL]


def test_microberts_printed_percents_are_those_of_its_scores():
    """Student / teacher of the same table; the last digit is theirs, cut and not rounded."""
    rows = {}
    for cell in published():
        if (cell.source.startswith("Zheng"), cell.table) == (True, "Table 2"):
            rows.setdefault(cell.system, {})[cell.task] = cell.value
    for name in ("MicroBERT", "TinyBERT"):
        for task, share in rows[f"Reappear percent ({name})"].items():
            counted = 100 * rows[f"{name}_stu"][task] / rows[f"{name}_tea"][task]
            assert share == pytest.approx(counted, abs=0.15)
    for task, points in rows["Difference (Tiny-Micro)"].items():
        both = [rows[f"Reappear percent ({name})"][task] for name in ("MicroBERT", "TinyBERT")]
        assert points == pytest.approx(both[0] - both[1], abs=0.15)


def test_only_the_named_row_has_a_printed_number():
    assert lines(group_of(ours("kd"), ours("pkd"), ours("teacher"))) == [
        ("rte (acc)", "kd", "70.0", "71.0 (acc, dev)", "theirs; A paper, Table 1", "yes")
    ]
    assert lines(group_of(ours("pkd"))) == lines(group_of(ours("kd", "mrpc"))) == []
    assert lines(group_of(factories.changed(ours("kd"), data={"slug": "sample-v2"}))) == []


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("split", "test", "test set, ours is dev"),
        ("split", "unknown", "split not stated"),
        ("metric", "f1", "F1, ours is acc"),
        ("metric", "unknown", "metric not stated"),
    ],
)
def test_another_split_or_metric_is_not_comparable(name, value, reason):
    assert lines(group_of(ours("kd")), CELL._replace(**{name: value}))[0][-1] == f"no: {reason}"


def test_other_examples_and_what_the_file_says_are_not_comparable():
    assert lines(group_of(ours("kd")), differs=["ours shuffles"])[0][-1] == "no: ours shuffles"
    assert (
        lines(group_of(factories.record("kd", "rte", 0, 0.7)))[0][-1]
        == "no: not GLUE's development set"
    )
    assert "fewer training examples" in lines(group_of(factories.limited(ours("kd"), 9, 9)))[0][-1]


def test_pretraining_is_said_whatever_the_file_says():
    start = {
        "key": "a" * 64,
        "train": {"steps": 9},
        "text": {"files": ["text.txt"], "tokens": 4_000_000},
    }
    record = ours("kd").model_copy(
        update={"artefacts": {"general_start": start, "importance": {"key": "b" * 64}}}
    )
    assert lines(group_of(record))[0][-1] == "no: pre-trained on 4,000,000 tokens of text.txt"
    generated = {**start, "text": {"files": [], "tokens": 100_000}}
    record = ours("kd").model_copy(update={"artefacts": {"general_start": generated}})
    said = "no: pre-trained on 100,000 tokens of generated sentences"
    assert lines(group_of(record))[0][-1] == said


TWO_PAPERS = """
title = "Two papers"
printed_numbers = "own.csv"
[[table]]
name = "a"
methods = ["kd", "pkd"]
tasks = ["rte"]
paper = ["Foo 2019", "Bar 2020"]
printed = { kd = "Table 1: Foo-4", pkd = "Bar 2020, Table 1: Both" }
absent = { "Table 2: Bar-9" = "not here" }
"""
OWN = """source,table,system,task,metric,split,value
Foo 2019,Table 1,Foo-4,rte,accuracy,dev,61.5
Foo 2019,Table 1,Both,rte,accuracy,dev,62.5
Bar 2020,Table 1,Both,rte,accuracy,dev,63.5
Bar 2020,Table 2,Bar-9,rte,accuracy,dev,64.5
"""


def test_a_table_has_the_numbers_of_several_papers(tmp_path):
    (tmp_path / "own.csv").write_text(OWN)
    table = chosen(tmp_path, TWO_PAPERS)
    values = {label: [cell.value for cell in row.cells] for label, row in table.printed.items()}
    assert values == {"kd": [61.5], "pkd": [63.5]}
    for right, wrong, says in (
        ("Bar 2020, Table 1: Both", "Table 1: Both", "2 papers have the printed row"),
        ('"Bar 2020"]', '"Baz 2020"]', "no paper with printed numbers is called 'Baz 2020'"),
        ("Foo-4", "Foo-5", "no printed row of Foo 2019 or Bar 2020"),
    ):
        with pytest.raises(InputError, match=says):
            chosen(tmp_path, TWO_PAPERS.replace(right, wrong))


@pytest.mark.parametrize(
    ("summed", "text"), [("mean", "80.0"), ("median", "70.0"), ("best", "100.0")]
)
def test_seeds_are_summed_up_as_the_paper_does(summed, text):
    group = group_of(
        *(ours("kd", seed=seed, score=score) for seed, score in enumerate((0.7, 1.0, 0.7)))
    )
    assert lines(group, summed=summed)[0][2] == f"{text} ({summed} of 3)"


def test_a_metric_that_is_measured_beside_the_main_one_stands_beside_its_own():
    record = ours("kd", "mrpc")
    scores = {"validation": {"f1": 0.8, "accuracy": 0.75}}
    cell = CELL._replace(task="mrpc")
    (line,) = lines(group_of(record.model_copy(update={"scores": scores})), cell)
    assert (line[0], line[2], line[-1]) == ("mrpc (acc)", "75.0", "yes")
