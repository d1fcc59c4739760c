"""Other metrics are computed from stored answers: no training, no gap, and the order that was typed."""

from __future__ import annotations

import json

import factories
import numpy as np
import pandas
import pytest
import tiny

from bench.analysis.choose import choose
from bench.analysis.compare import compare
from bench.errors import InputError
from bench.record.rescored import metrics_of, rescored, scored_alike
from bench.record.store import Store
from bench.report.studies import studies
from bench.report.tables.accuracy import accuracy
from bench.report.write import write_reports
from bench.stats.metrics import METRICS


def macro_f1(row):
    return METRICS["macro_f1"].score(factories.ticket_answers(row), factories.TICKETS)


@pytest.fixture
def store(tmp_path):
    return factories.ticket_store(tmp_path / "runs", ("accuracy",))


def test_a_record_is_scored_again_from_its_answers(store):
    record = next(r for r in store.records() if r.row == "dead")
    new = rescored(record, ("macro_f1", "accuracy"), store)
    assert metrics_of(new) == new.task.metrics == ("macro_f1", "accuracy")
    assert new.scores["validation"]["macro_f1"] == pytest.approx(macro_f1("dead"))
    assert new.scores["validation"]["accuracy"] == record.scores["validation"]["accuracy"]
    assert new.key == record.key
    assert rescored(record, ("accuracy",), store) is record
    with pytest.raises(InputError, match="macro_f1"):
        rescored(record, ("macrof1",), store)


@pytest.mark.parametrize("newest", [("macro_f1",), ("macro_f1", "weighted_f1"), ("accuracy",)])
def test_rows_of_other_metrics_have_no_gap(store, tmp_path, newest):
    """One row was trained when other metrics were typed: all are shown by those of the newest record."""
    later = factories.ticket("sound", newest)
    later = later.model_copy(update={"finished": "2099-01-01T00:00:00+00:00"})
    answers = factories.ticket_answers("sound")
    factories.write(store, later, answers, factories.TICKETS, 12)
    (choice,) = choose(store.root, {})
    assert [column.metric for column in choice.columns] == [newest[0]]
    assert {c.label for c in choice.candidates} == {"teacher", "sound", "dead"}
    assert choice.left_out == {}
    if newest[0] == "macro_f1":
        scores = {c.label: c.score for c in choice.candidates}
        assert scores["dead"] == pytest.approx(100 * macro_f1("dead"))
    (group,) = studies(scored_alike(store.records(), store))
    titles = [title for title in accuracy(group).header if title.startswith("tickets")]
    names = {"macro_f1": "macro F1", "weighted_f1": "weighted F1", "accuracy": "acc"}
    assert titles == [f"tickets ({names[metric]})" for metric in newest]


@pytest.mark.slow
def test_choose_and_compare_score_by_the_metric_that_is_typed(store):
    (by_accuracy,) = choose(store.root, {})
    (by_macro_f1,) = choose(store.root, {}, metric="macro_f1")
    assert [c.metric for c in by_accuracy.columns] == ["accuracy"]
    assert [c.metric for c in by_macro_f1.columns] == ["macro_f1"]
    (lines,) = compare(store.root, "sound", "dead", metric="macro_f1").values()
    (line,) = lines
    assert line.difference == pytest.approx(100 * (macro_f1("sound") - macro_f1("dead")))
    for metric, message in (
        ("pearson", "--metric pearson on tickets: it is for regression, and this is classif"),
        ("f1", "--metric f1 on tickets: it is the F1 of class 1 alone"),
        ("makro_f1", "macro_f1"),
    ):
        with pytest.raises(InputError, match=message):
            choose(store.root, {}, metric=metric)


def test_of_several_metrics_the_first_that_suits_a_task_scores_it(store):
    """Also a metric in a file, which is loaded first."""
    choices = choose(store.root, {}, metric=["pearson", "bench.stats.metrics.f1:WEIGHTED_F1"])
    assert [c.metric for c in choices[0].columns] == ["weighted_f1"]
    with pytest.raises(InputError, match="add --metric with one that it has, or choose tasks"):
        choose(store.root, {}, metric=["pearson", "spearman"])


def test_a_row_without_stored_answers_has_a_gap_with_its_reason(store):
    for file in store.root.glob("*/*/dead/*/attempt-1.npz"):
        file.unlink()
    (choice,) = choose(Store(store.root).root, {}, metric="macro_f1")
    assert {c.label for c in choice.candidates} == {"teacher", "sound"}
    assert choice.left_out["dead"].startswith("no score on tickets; its answers are not stored")


def test_a_regression_that_had_the_name_of_the_task_keeps_its_metrics(store):
    """The same name, another column of labels: its answers are no classes."""
    prices = factories.ticket("kd", ("spearman",))
    facts = prices.task.model_copy(update={"form": "score", "labels": ()})
    prices = prices.model_copy(
        update={"task": facts, "finished": "2099-01-01T00:00:00+00:00"},
    )
    records = [*store.records(), prices]
    metrics = {r.row: metrics_of(r) for r in scored_alike(records, store)}
    assert metrics.pop("kd") == ("spearman",)
    assert set(metrics.values()) == {("accuracy",)}


def test_known_tasks_are_left_as_their_records_have_them(tmp_path):
    store = factories.answered_store(tmp_path)
    records = list(store.records())
    assert scored_alike(records, store) == records


@pytest.mark.slow
def test_typing_other_metrics_trains_nothing(bench, teacher_folder, tmp_path):
    chance = np.random.default_rng(0)
    labels = chance.choice(["bad", "fine", "good"], 60).tolist()
    texts = [f"the cat runs in the house number {number}" for number in range(60)]
    file = tmp_path / "mine.csv"
    pandas.DataFrame({"text": texts, "label": labels}).to_csv(file, index=False)
    results, reports = tmp_path / "runs", tmp_path / "reports"

    def run(metrics):
        typed = f"{file}{metrics}"
        options = ["--methods", f"finetune:{tiny.SHAPE}:start=random", "--teacher", teacher_folder]
        folders = ["--results", results, "--reports", reports]
        answer = bench("run", "--tasks", typed, *options, *folders, "--epochs", "1", "--yes")
        assert answer.returncode == 0, answer.stderr
        return answer.stdout + answer.stderr

    run("")
    before = {r.row: r for r in Store(results).records()}
    said = run(":metrics=weighted_f1+matthews+accuracy")
    assert "2 records scored again from stored answers, by weighted F1, Matthews, acc" in said
    assert "nothing to do" in said
    after = {r.row: r for r in Store(results).records()}
    for row, record in after.items():
        assert metrics_of(record) == ("weighted_f1", "matthews", "accuracy")
        assert record.weights == before[row].weights
        assert (record.started, record.finished) == (before[row].started, before[row].finished)
        assert record.rescored
    (page,) = write_reports(Store(results), reports)
    heads = [line for line in page.read_text().splitlines() if "mine (weighted F1)" in line]
    assert any("mine (weighted F1) | mine (Matthews) | mine (acc)" in line for line in heads)
    # the order alone is an answer too
    run(":metrics=accuracy+weighted_f1")
    assert {metrics_of(r) for r in Store(results).records()} == {("accuracy", "weighted_f1")}
    # nothing is written where nothing changed
    files = sorted(results.rglob("attempt-*.json"))
    assert "scored again" not in run(":metrics=accuracy+weighted_f1")
    assert sorted(results.rglob("attempt-*.json")) == files
    assert json.loads(files[-1].read_text())["answers"]
