"""The rank correlations of docs/results.md: of stored answers, and of what a paper prints."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

TOOLS = Path(__file__).resolve().parents[2] / "docs" / "tools"


@pytest.fixture
def order(monkeypatch):
    monkeypatch.syspath_prepend(TOOLS)
    return import_module("order_of_rows")


def scores(order, values, noise=0.0):
    rng = np.random.default_rng(0)
    drawn = {row: value + noise * rng.normal(size=500) for row, value in values.items()}
    return order.Scores(values, drawn)


def test_correlations_are_scipys_with_ties_too(order):
    rng = np.random.default_rng(1)
    first = rng.integers(5, size=(20, 8))
    second = rng.normal(size=(20, 8))
    expected = [spearmanr(a, b).statistic for a, b in zip(first, second, strict=True)]
    assert order.spearman(first, second) == pytest.approx(expected)


def test_the_order_of_noise_agrees_with_itself_less_than_that_of_gaps(order):
    values = {f"row {place}": float(place) for place in range(6)}
    (rows, seen, (low, high)) = order.correlation(scores(order, values), scores(order, values))
    assert (rows, seen, low, high) == (
        6,
        pytest.approx(1.0),
        pytest.approx(1.0),
        pytest.approx(1.0),
    )
    turned = {row: -value for row, value in values.items()}
    assert order.correlation(scores(order, values), scores(order, turned))[1] == pytest.approx(-1)
    noisy = scores(order, values, noise=3.0)
    _, seen, (low, high) = order.correlation(noisy, scores(order, values))
    assert seen == pytest.approx(1.0)
    assert low < 0.3 < high


def test_only_rows_that_both_have_count_and_few_say_nothing(order):
    ours = scores(order, {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0, "e": 0.0})
    printed = order.Scores({"a": 10.0, "b": 20.0, "c": 30.0}, {})
    assert order.correlation(ours, printed) is None


def test_an_order_is_compared_with_itself_on_the_rows_that_are_shared(order):
    ours = scores(order, {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0, "e": 0.0}, noise=1.0)
    printed = order.Scores({"b": 20.0, "d": 30.0, "other": 1.0}, {})
    both = order.of_rows(ours, printed)
    assert both.seen == {"b": 2.0, "d": 4.0}
    assert set(both.drawn_R) == {"b", "d"}


def test_stored_answers_are_read_as_reports_read_them(order):
    """The means are those of the committed report; a row with settings is not taken for its method."""
    report = TOOLS.parents[1] / "reports" / "untuned" / "glue-20000-rows"
    (table,) = report.glob("*/tables/accuracy.csv")
    lines = [line.split(",") for line in table.read_text().splitlines()]
    place = lines[0].index("rte (acc) mean")
    found = order.scores_of(order.SMALL, "rte", np.random.default_rng(0))
    for row in ("moebert", "distilbert", "finetune"):
        (cell,) = [line[place] for line in lines if line[0] == row]
        assert 100 * found.seen[row] == pytest.approx(float(cell), abs=0.05)
        assert 100 * found.drawn_R[row].mean() == pytest.approx(float(cell), abs=0.5)


def test_what_the_paper_prints(order):
    printed = order.printed_scores("cola").seen
    assert printed["moebert"] == 55.4
    assert len(printed) == 5
