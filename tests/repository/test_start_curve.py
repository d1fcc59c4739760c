"""The curve of docs/results.md: scores by the length of a start's pre-training."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from bench.record.store import Store

TOOLS = Path(__file__).resolve().parents[2] / "docs" / "tools"


@pytest.fixture
def curve(monkeypatch):
    monkeypatch.syspath_prepend(TOOLS)
    return import_module("start_curve")


def test_the_picture_is_that_of_the_records(curve):
    assert curve.is_current(), "type: python docs/tools/start_curve.py"


@pytest.mark.parametrize("task", ["cola", "rte"])
def test_scores_of_the_stored_answers_are_those_of_the_records(curve, task):
    for length in curve.LENGTHS:
        found = curve.scores_of(length, task)
        kept = {row: {} for row in curve.ROWS}
        for record in Store(curve.RESULTS / length).records():
            if record.row in kept and record.cell.tasks == (task,):
                score = record.scores["validation"][curve.METRICS[task]]
                kept[record.row][record.cell.seed] = score
        for row, of_seeds in kept.items():
            expected = [100 * of_seeds[seed] for seed in curve.SEEDS]
            assert found[row].seen_S == pytest.approx(expected, abs=1e-4)


def test_each_length_has_the_tokens_that_its_folder_says(curve):
    for length, million in curve.LENGTHS.items():
        records = [each for each in Store(curve.RESULTS / length).records() if each.artefacts]
        assert len(records) >= len(curve.ROWS) * len(curve.SEEDS) * len(curve.COLUMNS)
        for record in records:
            if record.row in curve.ROWS:
                start = record.artefacts["general_start"]
                assert start["text"]["tokens"] == million * 1_000_000


def test_a_difference_is_bold_only_with_a_verdict(curve):
    line = {"x": "2.04", "x low": "-0.5", "x high": "4.6", "x verdict": "not significant"}
    assert curve._difference(line, "x") == "+2.0 (-0.5 to 4.6)"
    assert curve._difference({**line, "x verdict": "worse"}, "x") == "**+2.0** (-0.5 to 4.6)"
    assert curve._difference(None, "x") == ""


def test_the_p_value_of_a_difference_is_two_sided(curve):
    rng = np.random.default_rng(0)
    drawn = curve.Distribution(rng.normal(1.0, 1.0, 4_000))
    other = curve.Distribution(-drawn.examples_R)
    assert curve._p_of(drawn) == pytest.approx(0.317, abs=0.03)
    assert curve._p_of(other) == pytest.approx(curve._p_of(drawn))
