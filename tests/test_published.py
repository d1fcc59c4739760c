"""Printed numbers: well-formed, of rows that exist, and never called comparable when they are not."""

from __future__ import annotations

import dataclasses

import made
import pytest

from bench.data.tasks import GLUE
from bench.errors import InputError
from bench.plan.spelling import parse_one
from bench.report.groups import groups
from bench.report.published import beside, published, reasons


def test_every_printed_number_names_a_row_and_a_column_that_exist():
    assert len(published()) > 200
    for paper in published():
        if paper.row != "teacher":
            assert parse_one(paper.row).spelling == paper.row
        task = GLUE[paper.task]
        assert paper.evaluation in {e.name for e in task.evaluation}
        assert paper.metric in {*task.metrics, "accuracy", "f1", "unknown"}
        assert paper.split in {"dev", "test", "unknown"}
        assert -1 <= paper.value <= 100
        assert paper.source


def group(dev_rows: int = 277, drawn: int = 0, **changes):
    records = [made.record("teacher", "rte", score=0.7), made.record("microbert", "rte", 0, 0.6)]
    (found,) = groups([made.limited(r, drawn, drawn) for r in records] if drawn else records)
    for record in found.records:
        record.cell.data.rows["validation"] = dev_rows
    return dataclasses.replace(found, **changes)


def test_a_pair_is_comparable_only_when_everything_agrees():
    paper = next(p for p in published() if (p.row, p.task, p.split) == ("teacher", "rte", "dev"))
    theirs = group(teacher="bert-base-uncased")
    (column,) = theirs.columns
    assert reasons(theirs, column, paper) == []
    assert reasons(group(), column, paper) == ["other teacher"]
    assert reasons(group(40, teacher="bert-base-uncased"), column, paper) == ["not GLUE's development set"]
    assert reasons(theirs, column, dataclasses.replace(paper, split="test")) == ["test set, ours is dev"]
    assert reasons(theirs, column, dataclasses.replace(paper, metric="f1")) == ["F1, ours is acc"]
    assert reasons(theirs, column, dataclasses.replace(paper, metric="unknown")) == ["metric not stated"]
    assert reasons(group(teacher="bert-base-uncased", drawn=9), column, paper) == ["fewer training rows"]


def test_ours_stand_beside_the_printed_ones():
    table = beside(group(), published())
    (row,) = (row for row in table.rows if row[1] == "microbert")
    assert row[2] == "60.0"
    assert row[3].startswith("62.8")
    assert "split not stated" in row[5]


def test_generated_data_is_never_beside_a_paper():
    assert beside(group(slug="sample-v1"), published()) is None


def test_a_broken_file_names_its_line(tmp_path):
    (tmp_path / "x.csv").write_text(
        "source,table,system,row,task,evaluation,metric,split,value,note\na,b,c,d,e,f,g,h,i,j\n"
    )
    with pytest.raises(InputError, match="line 2"):
        published(tmp_path)


def test_a_folder_without_printed_numbers_is_an_error(tmp_path):
    """An installation that lost them would have reports without a word about the papers."""
    with pytest.raises(InputError, match="install it again"):
        published(tmp_path)
