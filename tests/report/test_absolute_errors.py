"""Mean absolute error: in the labels' units, of a user's own regressions alone."""

from __future__ import annotations

import factories
import numpy as np
import pytest
from studied import studied

from bench.record.store import Store
from bench.report.studies import studies
from bench.report.tables.absolute_errors import absolute_errors, in_units
from bench.report.write import write_reports


@pytest.mark.slow
def test_a_report_of_a_regression_shows_the_error_in_the_labels_units(tmp_path):
    from sklearn.metrics import mean_absolute_error

    store = factories.price_store(tmp_path / "r")
    (page,) = write_reports(store, tmp_path / "p")
    assert "Mean absolute error, prices" in page.read_text()
    lines = (page.parent / "tables" / "mean-absolute-error-prices.csv").read_text().splitlines()
    found = {line.split(",")[0]: float(line.split(",")[-3]) for line in lines[1:]}
    for record in store.records():
        given = store.predictions(record)["logits.validation"][:, 0]
        expected = mean_absolute_error(factories.PRICES, given)
        assert found[record.row] == pytest.approx(expected, rel=1e-6)
    constant = np.abs(factories.PRICES - np.median(factories.PRICES)).mean()
    assert lines[-1].startswith('"always ')
    assert float(lines[-1].split(",")[-3]) == pytest.approx(constant, rel=1e-6)


def test_r2_is_in_the_mean_and_the_error_is_not(tmp_path):
    (group,) = studies(factories.price_store(tmp_path).records())
    assert [column.metric for column in group.columns] == ["r2"]
    assert [column.metric for column in group.printed_columns] == ["r2", "spearman", "pearson"]
    assert group.mean_scores["near"] > group.mean_scores["far"]


def test_stsb_and_classes_have_no_such_table(tmp_path):
    for store in (
        factories.price_store(tmp_path / "s", "stsb"),
        factories.ticket_store(tmp_path / "t"),
    ):
        group = studied(Store(store.root))
        assert group.answers
        assert list(absolute_errors(group)) == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (812.3456, "812.3"),
        (12345.678, "12,346"),
        (0.00123456, "0.001235"),
        (0, "0"),
        (3e20, "3e+20"),
    ],
)
def test_numbers_of_any_unit_are_read_at_a_glance(value, text):
    assert in_units(value) == text
