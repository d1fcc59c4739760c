"""The answer: the cheapest row that is shown to keep enough, and a sentence that claims no more than the examples can show."""

from __future__ import annotations

from dataclasses import replace

import factories
import numpy as np
import pytest

from bench.analysis.answer import ONE_SEED, Tried, answer, sheet
from bench.analysis.choose import choose
from bench.record.store import Store
from bench.report.studies import Folder, study_of

LABELS = np.random.default_rng(0).integers(2, size=400)


def wrong_at(first, last):
    """Answers that are wrong in these examples alone."""
    answers = LABELS.copy()
    answers[first:last] = 1 - answers[first:last]
    return answers


TEACHER = wrong_at(0, 40)
ROWS = {
    "same": (TEACHER, 20),
    "near": (wrong_at(0, 42), 9),
    "taught": (wrong_at(5, 42), 30),
    "poor": (wrong_at(0, 140), 1),
}
"""Row -> its answers, and its size in 10^8 multiplications."""
TRIED = {"taught": Tried("distilled", "taught (distilled)", distils=True)}


def asked(folder, rows, limits=None, seeds=(0,), tried=None):
    """The answer among some rows, and the choice that it is made from."""
    store = Store(folder)
    factories.write(store, factories.record("teacher", "rte", 0, macs=5 * 10**9), TEACHER, LABELS)
    for row in rows:
        answers, macs = ROWS[row]
        for seed in seeds:
            record = factories.record(row, "rte", seed, macs=macs * 10**8)
            factories.write(store, record, answers, LABELS)
    (choice,) = choose(store.root, limits or {}, ["rte"])
    choice = replace(choice, group=study_of(choice.group, Folder(store)))
    return answer(choice, TRIED if tried is None else tried, len(LABELS)), choice


def test_the_cheapest_row_that_is_shown_to_keep_97_percent(tmp_path):
    found, _ = asked(tmp_path, ROWS)
    assert found.row.label == "near"
    assert found.keeps
    assert "keeps 99.4 % of the teacher's score" in found.sentence
    assert ONE_SEED in found.sentence


def test_a_lower_bound_of_ones_own_lets_a_cheaper_row_in(tmp_path):
    found, _ = asked(tmp_path, ROWS, {"retained": 60.0})
    assert (found.row.label, found.least) == ("poor", 60.0)


def test_where_no_row_is_shown_to_keep_enough_the_best_one_is_taken_and_it_is_said(tmp_path):
    found, _ = asked(tmp_path, ["poor"], {"flops": 1.0})
    assert found.row.label == "poor"
    assert not found.keeps
    assert "the most of what fits, which is not shown to be 97 %" in found.sentence


def test_nothing_fits(tmp_path):
    found, _ = asked(tmp_path, ROWS, {"flops": 0.001})
    assert found is None


@pytest.mark.parametrize(
    ("rows", "teacher_of", "says"),
    [
        (["same", "taught"], "taught", "distilling adds nothing that 400 examples can show (taught +0.8 points"),
        (["same", "poor"], "poor", "the best distilled row differs by -25.0 points (poor, "),
        (["same"], "taught", "no distilled row is within the limits and sound"),
        (["near", "same"], "near", "int8 of the teacher does not fit"),
    ],
)  # fmt: skip
def test_what_distilling_adds_is_judged_by_its_interval(tmp_path, rows, teacher_of, says):
    tried = {teacher_of: Tried("distilled", teacher_of, distils=True)}
    found, _ = asked(tmp_path, rows, tried=tried)
    assert says in found.sentence


def test_several_seeds_are_no_single_one(tmp_path):
    found, _ = asked(tmp_path, ["same"], seeds=(0, 1, 2))
    assert ONE_SEED not in found.sentence


def test_a_class_that_the_taken_row_never_predicts_is_named(tmp_path):
    (choice,) = choose(factories.ticket_store(tmp_path).root, {})
    choice = replace(choice, group=study_of(choice.group, Folder(Store(tmp_path))))
    dead = next(row for row in choice.candidates if row.label == "dead")
    found = answer(replace(choice, candidates=(dead,)), {}, 332)
    assert "Suspect: " in found.sentence
    assert "never predicts" in found.sentence


def test_the_sheet_has_every_row_the_best_first(tmp_path):
    _, choice = asked(tmp_path, ROWS, {"flops": 1.0})
    table = sheet(choice, None, TRIED)
    assert [line[0] for line in table.rows] == ["taught", "teacher", "same", "near", "poor"]
    assert len(set(table.values_header)) == len(table.values_header)
    first = dict(zip(table.values_header, table.values[0], strict=True))
    assert float(first["acc low"]) < float(first["acc"]) < float(first["acc high"])
    assert first["what is done"] == "distilled"
