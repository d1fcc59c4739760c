"""`bench.load`: the records as a DataFrame, with the same numbers as the reports."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from pathlib import Path

import factories
import numpy as np
import pages
import pytest

import bench as package
from bench.errors import NothingMeasured
from bench.record.cell import TEACHER
from bench.record.store import Store
from bench.report.studies import Folder, groups, study_of
from bench.report.tables.retention import retentions

REFERENCE = pages.ROOT / "results" / "reference"


def test_every_score_has_a_line(paper_store):
    frame = package.load(paper_store.root)
    scores = {
        (record.key, name, metric): 100 * score
        for record in paper_store.records()
        for name, found in record.scores.items()
        for metric, score in found.items()
    }
    lines = {
        (key, name, metric): score
        for key, name, metric, score in frame[["key", "set", "metric", "score"]].values
    }
    assert lines == scores
    assert not frame[["data", "task", "row", "method", "recipe", "device"]].isna().any(axis=None)


def test_a_row_is_compared_with_its_own_teacher_alone(paper_store):
    """Another teacher of the same task has other scores; a student of it has no other score to be divided by."""
    frame = package.load(paper_store.root).set_index("row")
    assert set(frame.loc["kd"].query("task == 'rte' and seed == 0")["retention"].round(6)) == {
        round(100 * 0.60 / 0.7, 6)
    }
    paper_store.write(
        factories.changed(factories.record("pkd", "rte", 0, 0.5), teacher={"key": "f" * 64})
    )
    lonely = package.load(paper_store.root, everything=True).set_index("row").loc["pkd"]
    assert math.isnan(lonely["retention"])
    assert math.isnan(lonely["teacher_score"])


def test_a_row_is_compared_with_the_training_of_its_teacher_that_it_learned_from(paper_store):
    """The current training of the teacher may be another one, with other weights and another score."""
    shown = next(
        r for r in paper_store.records() if r.cell.method == TEACHER and r.cell.tasks == ("rte",)
    )
    named = {"teacher": {"key": shown.cell.teacher.key, "weights": "b" * 64}}
    pointer = paper_store.folder(shown.cell) / "current"
    before, again = pointer.read_text(), shown.model_copy(update={"artefacts": named})
    factories.write(paper_store, again, np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1]))
    pointer.write_text(before)
    for label, weights in (("pkd", "b" * 64), ("minilm", "c" * 64)):
        artefacts = {"teacher": named["teacher"] | {"weights": weights}}
        paper_store.write(
            factories.record(label, "rte", 0, 0.6).model_copy(update={"artefacts": artefacts})
        )
    frame = package.load(paper_store.root).query("task == 'rte' and seed == 0").set_index("row")
    assert frame.loc[["kd", "pkd"], "teacher_score"].round(6).tolist() == [70, 75]
    assert frame.loc["pkd", "retention"] == pytest.approx(80)
    assert math.isnan(frame.loc["minilm", "teacher_score"])


@pytest.mark.slow
def test_retention_is_that_of_the_reports():
    """On a table of the committed records: a row's mean score over its teacher's, as the table with intervals has it."""
    frame, store = package.load(REFERENCE).set_index("key"), Store(REFERENCE)
    records = list(store.records())
    (small,) = [g for g in groups(records) if g.cell.data.max_train_rows == 4_000]
    group = study_of(small, Folder(store, records))
    compared = 0
    for line in retentions(group).lines:
        for column, cell in zip(group.columns, line.cells, strict=False):
            if cell.value is not None:
                lines = frame.loc[[r.key for r in group.records_of(line.label, column.task)]]
                lines = lines[
                    (lines["set"] == column.evaluation) & (lines["metric"] == column.metric)
                ]
                assert lines["retention"].mean() == pytest.approx(cell.value), (line.label, column)
                compared += 1
    assert compared >= 20


def test_a_training_that_a_newer_one_replaces_is_left_out_unless_asked_for(paper_store):
    old = factories.record("kd", "rte", 0, 0.1)
    new = factories.changed(factories.record("kd", "rte", 0, 0.9), version=old.cell.version + 1)
    paper_store.write(new.model_copy(update={"finished": "2099-01-01T00:00:00Z"}))
    shown, all_of_them = (
        package.load(paper_store.root, everything=wanted) for wanted in (False, True)
    )
    assert set(shown.query("row == 'kd' and task == 'rte'")["version"]) == {new.cell.version}
    assert set(all_of_them.query("row == 'kd' and task == 'rte'")["version"]) == {
        old.cell.version,
        new.cell.version,
    }
    assert all_of_them.query("newest")["key"].tolist() == shown["key"].tolist()


@pytest.mark.slow
def test_the_question_of_the_docs_takes_three_lines_and_no_torch():
    """Which rows keep 97 % on mrpc: the code is run as it is printed, and prints what the page says."""
    text = (pages.ROOT / "docs" / "reports.md").read_text()
    found = re.search(r"```python\n(import bench\n.*?)```\n+```text\n(.*?)```", text, re.DOTALL)
    assert found
    code, printed = found.groups()
    assert len([line for line in code.splitlines()[1:] if line.strip()]) <= 3
    assert "microbert " in printed
    first = "import sys, bench; light = {m.split('.')[0] for m in sys.modules}\n"
    last = (
        "\nprint(sorted(light & {'pandas', 'numpy', 'pydantic', 'torch'}), 'torch' in sys.modules)"
    )
    words = [sys.executable, "-c", first + code + last]
    done = subprocess.run(words, cwd=pages.ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == f"{printed}[] False\n", "importing the package loads nothing"


def test_columns_of_numbers_are_numbers_even_where_all_of_them_are_missing(tmp_path: Path):
    """As in a folder without the teacher's record: its score is NaN in every line."""
    Store(tmp_path).write(factories.record("kd").model_copy(update={"train": None}))
    frame = package.load(tmp_path)
    for column in ("teacher_score", "retention", "train_seconds"):
        assert math.isnan(frame[column].round(1).item())


def test_a_folder_whose_cells_all_failed_is_not_called_broken(tmp_path: Path):
    with pytest.raises(NothingMeasured, match="no records"):
        package.load(tmp_path)
    Store(tmp_path).write(factories.record("kd", score=None, failed="out of memory"))
    with pytest.raises(NothingMeasured, match=r"no cell .* has finished.*--retry-failed"):
        package.load(tmp_path)
