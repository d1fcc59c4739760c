"""Dead classes are seen: F1 by class, and what reports and choices say of a class that is never predicted."""

from __future__ import annotations

import factories
import numpy as np
import pytest
from studied import studied

from bench.analysis.choice_in_words import in_words
from bench.analysis.choose import choose
from bench.record.store import Store
from bench.report.tables.by_class import MOST_CLASSES, f1_by_class, f1_of_classes
from bench.report.write import write_reports


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return factories.ticket_store(tmp_path_factory.mktemp("tickets"))


def test_f1_of_classes_is_that_of_scikit_learn():
    from sklearn.metrics import f1_score

    chance = np.random.default_rng(0)
    labels, predicted = chance.integers(7, size=(2, 200))
    predicted[predicted == 3] = 0
    expected = f1_score(labels, predicted, average=None, labels=range(8), zero_division=0)
    np.testing.assert_allclose(f1_of_classes(predicted, labels, 8), expected)
    assert expected[3] == 0


@pytest.mark.slow
def test_a_report_shows_the_dead_classes_beside_the_teacher(store, tmp_path):
    (page,) = write_reports(store, tmp_path)
    text = page.read_text()
    assert "F1 by class, tickets" in text
    assert "c8 (12)" in text
    assert "c10 (6)" in text
    lines = (page.parent / "tables" / "f1-by-class-tickets.csv").read_text().splitlines()
    rows = {line.split(",")[0]: line.split(",")[1:] for line in lines}
    assert list(rows) == ["System", "teacher", "sound", "dead"], "by mean"
    f1 = f1_of_classes(factories.ticket_answers("dead"), factories.TICKETS, 12)
    assert [float(cell) for cell in rows["dead"]] == pytest.approx(100 * f1, abs=1e-3)
    assert rows["dead"][8] == rows["dead"][10] == "0.0000"
    assert rows["teacher"][8] == rows["sound"][8] == "100.0000"
    assert "never predicts c8 (12), c10 (6) of 332 examples: dead, seed 0" in text


def test_choose_says_what_a_row_never_predicts_and_keeps_it(store):
    (choice,) = choose(store.root, {})
    assert [c.label for c in choice.candidates] == ["teacher", "sound", "dead"]
    said = "never predicts c8 (12), c10 (6) of 332 examples, seed 0"
    assert f"Suspect: dead, tickets: {said}." in in_words(choice)
    assert [c.suspect for c in choice.candidates] == [(), (), (f"tickets: {said}",)]


def test_a_teacher_that_misses_a_class_still_has_a_retention(tmp_path):
    store = Store(tmp_path)
    answers = factories.ticket_answers("dead")
    for label in ("teacher", "sound"):
        factories.write(store, factories.ticket(label), answers, factories.TICKETS, 12)
    (choice,) = choose(store.root, {"retained": 99.0})
    assert [c.label for c in choice.candidates] == ["sound", "teacher"]
    assert [c.retained for c in choice.candidates] == [pytest.approx(100.0)] * 2


def test_of_many_classes_those_with_the_largest_loss_to_the_teacher_are_shown(tmp_path):
    store, labels = Store(tmp_path), np.repeat(np.arange(30), 6)
    dead = [3, 9, 17, 29]
    for label in ("teacher", "sound", "dead"):
        answers = np.where(np.isin(labels, dead) & (label == "dead"), 0, labels)
        factories.write(store, factories.ticket(label, classes=30), answers, labels, 30)
    group = studied(store)
    (table,) = f1_by_class(group)
    assert len(table.columns) == 1 + MOST_CLASSES
    assert {"c3 (6)", "c9 (6)", "c17 (6)", "c29 (6)"} <= set(table.header)
    assert "Shown are 12 of 30 classes" in table.notes[0]


def test_two_classes_have_no_table(tmp_path):
    store = factories.answered_store(tmp_path)
    group = studied(store)
    assert list(f1_by_class(group)) == []
