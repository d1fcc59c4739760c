"""A study is built once: nobody writes to it, and what it says does not depend on how it was read."""

import random
from dataclasses import FrozenInstanceError, fields

import factories
import numpy as np
import pytest
from studied import studied

from bench.analysis.choose import choose
from bench.record.cell import TEACHER
from bench.record.store import Store
from bench.report.paired_rows import BETTER
from bench.report.studies import Folder, Reads, groups, study_of
from bench.report.study import Study
from bench.report.tables.differences import systems_compared
from bench.report.tables.for_paper import STAR, Paper, main_table
from bench.report.tables.leaderboard import SYMBOLS, leaderboard
from bench.report.tables.retention import retentions


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    return factories.answered_store(tmp_path_factory.mktemp("answered"))


@pytest.fixture(scope="module")
def study(store) -> Study:
    return studied(store)


@pytest.mark.parametrize("name", [field.name for field in fields(Study)])
def test_no_field_is_written_from_outside(study, name):
    with pytest.raises(FrozenInstanceError):
        setattr(study, name, None)


def test_the_order_of_the_records_changes_nothing(store, study):
    records = list(store.records())
    random.Random(0).shuffle(records)
    (group,) = groups(records)
    other = study_of(group, Folder(store, records))
    assert other.systems == study.systems
    assert other.differences == study.differences
    assert other.retained == study.retained
    assert other.mean_intervals == study.mean_intervals


def test_one_verdict_is_in_every_table_and_in_choose(store, study):
    (best,) = [each for each in study.differences if each.mean.verdict == BETTER]
    (compared,) = [line for line in systems_compared(study).lines if line.label == best.row]
    assert compared.cells[-1].verdict == BETTER
    assert compared.cells[-1].value == pytest.approx(best.mean.difference)
    (shown,) = [line for line in leaderboard(study).lines if line.label == best.row]
    assert any(SYMBOLS[BETTER] in cell.text for cell in shown.cells)
    (printed,) = [
        row
        for block in main_table(study, study.students, Paper()).blocks
        for row in block
        if row[0].text == best.row
    ]
    average = printed[1 + len(study.columns)]
    assert STAR in average.marks
    (choice,) = choose(store.root, {})
    (row,) = [each for each in choice.candidates if each.label == best.row]
    (kept,) = [line for line in retentions(study).lines if line.label == best.row]
    assert row.retained == pytest.approx(kept.cells[-1].value)


def test_the_teacher_alone_says_which_columns_are_noise(tmp_path):
    """On rte it is as good as a constant; a report and a reader of scores leave out the same."""
    store = Store(tmp_path)
    labels = np.random.default_rng(0).integers(2, size=400)
    right = {"rte": 0.5, "sst2": 0.9}
    for label in (TEACHER, "kd"):
        for number, (task, share) in enumerate(right.items()):
            rng = np.random.default_rng([number, label == TEACHER])
            answers = np.where(rng.random(400) < share, labels, 1 - labels)
            factories.write(store, factories.record(label, task), answers, labels)
    of_all = studied(store)
    of_teacher = studied(store, reads=Reads.TEACHER)
    assert [column.task for column in of_all.noise] == ["rte"]
    assert of_teacher.noise == of_all.noise == of_teacher.left_out_of_means
    assert not of_teacher.answers
    assert studied(store, averages_all=True).left_out_of_means == ()


def test_without_a_folder_a_study_has_scores_alone(store, study):
    (group,) = groups(store.records())
    alone = study_of(group)
    assert alone.mean_scores == study.mean_scores
    assert not alone.answers
    assert not alone.differences
    assert all(cell.low is None for cell in alone.mean_intervals.values())


def test_rows_of_tables_are_by_mean_with_their_ablations_unless_they_were_typed():
    scores = {"teacher": 0.5, "kd": 0.7, "finetune": 0.6, "tinybert": 0.8}
    records = [factories.record(row, "rte", 0, score) for row, score in scores.items()]
    full = factories.record("kd", "rte", 0, 0.9)
    records.append(factories.changed(full, label="kd w/o soft", ablation_of="kd"))
    (group,) = groups(records)
    assert study_of(group).rows == ["teacher", "tinybert", "kd", "kd w/o soft", "finetune"]
    typed = study_of(group, order=["finetune", "kd", "tinybert"])
    assert typed.rows == ["teacher", "finetune", "kd", "kd w/o soft", "tinybert"]
