"""From a file to a recommendation, on what trials got wrong answers for: unequal classes, prices, scaled scores."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import own_data
import pytest

from bench.analysis.choose import Choice, choose
from bench.errors import OK
from bench.record.store import Store
from bench.stats.guards import NEVER_PREDICTED_FROM

SHAPE = "ffn=48:heads=4:hidden=24:layers=2"
GOOD = f"finetune:{SHAPE}:pace=20:start=random"
WEAK = f"finetune:{SHAPE}:pace=4:start=random"
STILL = f"finetune:{SHAPE}:pace=0.01:start=random"
"""A row that hardly moves: its predictions are nearly one value."""


class Answer(NamedTuple):
    """What somebody has after two commands."""

    store: Store
    choice: Choice
    page: str
    labels: np.ndarray
    predicted: dict[str, np.ndarray]
    """row -> class or value of each scored example"""


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    return own_data.save_quick_teacher(tmp_path_factory.mktemp("teacher") / "quick")


def answer_of(
    bench, folder: Path, file: Path, teacher: Path, rows: tuple[str, ...], epochs: int = 20
) -> Answer:
    done = bench(
        "run", "--tasks", file, "--methods", ",".join(rows), "--teacher", teacher, "--results",
        folder / "r", "--reports", folder / "p", "--threads", 1, "--epochs", epochs, "--yes",
    )  # fmt: skip
    assert done.returncode == OK, done.stderr
    store = Store(folder / "r")
    (choice,) = choose(store.root, {})
    (page,) = (folder / "p").glob("own-*/**/README.md")
    arrays = {record.row: store.predictions(record) for record in store.records()}
    predicted = {}
    for row, own in arrays.items():
        logits = own["logits.validation"]
        predicted[row] = logits.argmax(1) if logits.shape[1] > 1 else logits[:, 0]
    labels = arrays["teacher"]["labels.validation"]
    return Answer(store, choice, page.read_text(), labels, predicted)


@pytest.mark.slow
def test_of_unequal_classes_macro_f1_decides_and_a_class_that_is_never_predicted_is_named(
    bench, tmp_path, teacher
):
    """A trial was recommended a row that never said two of twelve classes: 86 % were right."""
    file = own_data.write_tickets(tmp_path / "tickets.csv")
    found = answer_of(bench, tmp_path, file, teacher, (GOOD, WEAK))
    (column,) = found.choice.columns
    assert column.metric == "macro_f1"
    assert len(set(found.labels.tolist())) == 12, "every class is scored"
    assert found.choice.chosen.label == GOOD
    assert "F1 by class, tickets" in found.page

    counts = np.bincount(found.labels, minlength=12)
    some_are_missed = False
    suspect = {row.label: " ".join(row.suspect) for row in found.choice.candidates}
    for row, predicted in found.predicted.items():
        missed = [
            code
            for code in range(12)
            if counts[code] >= NEVER_PREDICTED_FROM and code not in predicted
        ]
        some_are_missed = some_are_missed or bool(missed)
        for code in range(12):
            assert (f"c{code:02} ({counts[code]})" in suspect[row]) == (code in missed), (row, code)
    assert some_are_missed, "the files are made so that a row misses a class"


@pytest.mark.slow
def test_of_prices_a_nearly_constant_row_is_no_candidate_and_the_chosen_one_is_in_their_units(
    bench, tmp_path, teacher
):
    """A trial was recommended predictions of 4.299 for prices of thousands, by their ranks."""
    file = own_data.write_prices(tmp_path / "prices.csv")
    found = answer_of(bench, tmp_path, file, teacher, (GOOD, STILL))
    (column,) = found.choice.columns
    assert column.metric == "r2"
    assert found.choice.chosen.label == GOOD
    assert "nearly the same value for every example" in found.choice.left_out[STILL]
    chosen = found.predicted[GOOD]
    assert np.abs(chosen - found.labels).mean() < 0.3 * found.labels.std()
    assert 2000 < chosen.min() < chosen.max() < 12000
    assert "Mean absolute error, prices" in found.page


@pytest.mark.slow
def test_stars_from_0_to_100_have_the_answer_of_stars_from_0_to_1(bench, tmp_path, teacher):
    """A trial's teacher scored -23 on a scale of 0 to 100, and 99 on the same file standardised."""
    found = {}
    for most in (1.0, 100.0):
        folder = tmp_path / f"{most:g}"
        folder.mkdir()
        file = own_data.write_stars(folder / "stars.csv", most)
        found[most] = answer_of(bench, folder, file, teacher, (GOOD, STILL), epochs=10)
    small, large = found[1.0], found[100.0]
    assert large.choice.chosen.label == small.choice.chosen.label == GOOD
    assert large.choice.left_out.keys() == small.choice.left_out.keys()
    np.testing.assert_allclose(large.labels, 100 * small.labels, rtol=1e-5)
    scores = [each.choice.chosen.score for each in (small, large)]
    assert scores[0] == pytest.approx(scores[1], abs=5)
    assert min(scores) > 40
