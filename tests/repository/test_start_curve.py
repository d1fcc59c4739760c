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
        weights = set()
        assert len(records) >= len(curve.ROWS) * len(curve.SEEDS) * len(curve.COLUMNS)
        for record in records:
            if record.row in curve.ROWS:
                start = record.artefacts["general_start"]
                assert start["text"]["tokens"] == million * 1_000_000
                assert start["text"]["passes"] == 1.0
                weights.add(start["weights"])
        assert len(weights) == 1, "all rows and seeds share one start"


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


def test_a_change_is_the_longer_start_less_the_shorter_after_holm(curve, monkeypatch):
    """A difference with p = 0.03 beside one that is none is not significant after Holm."""
    rng = np.random.default_rng(0)

    def scored(mean):
        drawn_RS = mean + rng.normal(size=(4_000, 1)) + np.zeros((1, 3))
        return curve.Scored(np.full(3, mean), drawn_RS)

    # on cola changes of 5 and 3, and on rte none; the noise of a difference is 1.4
    means = {("1m", "cola"): 10.0, ("14m", "cola"): 15.0, ("1m", "rte"): 50.0, ("14m", "rte"): 50.0}
    monkeypatch.setattr(curve, "ROWS", {"kd": ("", "")})
    monkeypatch.setattr(
        curve, "scores_of", lambda length, task: {"kd": scored(means[length, task])}
    )
    clear = curve.changes().splitlines()[-1]
    assert clear.startswith("| kd | **+5.0** (")
    means["14m", "cola"] = 13.0
    borderline = curve.changes().splitlines()[-1]
    assert borderline.startswith("| kd | +3.0 (0.")


def test_the_teacher_is_the_same_at_all_lengths(curve):
    for row in curve.FIXED:
        found = set()
        for length in curve.LENGTHS:
            (line,) = [each for each in curve.lines_of(length, "accuracy") if each["System"] == row]
            found.add(tuple(line[f"{column} mean"] for column in curve.COLUMNS.values()))
        assert len(found) == 1
