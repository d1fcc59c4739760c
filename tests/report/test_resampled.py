"""One comparison has one interval: whichever row is named first, whatever else is compared, in every verb."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import factories
import numpy as np
import pytest
import random_answers
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from studied import studied

from bench.analysis.choice_in_words import table as choice_table
from bench.analysis.choose import choose
from bench.analysis.compare import compare
from bench.analysis.compare_in_words import table
from bench.record.store import Store
from bench.report.paired_rows import (
    MEAN,
    NO_LEAST,
    compared,
    comparison_notes,
    mean_difference,
    sides_of,
)
from bench.report.resampled import Resampled, rng_for
from bench.report.score_column import ScoreColumn
from bench.report.studies import studies
from bench.report.tables.differences import systems_compared
from bench.stats.metrics import METRICS, metric_of
from bench.stats.paired import mcnemar, resampled_scores
from bench.stats.power import least_gap_at_any_disagreement

MAIN_TABLE = Path(__file__).resolve().parents[2] / "results" / "untuned"
TASKS = ("cola", "sst2", "mrpc")


def answered(metric, rows, examples=60, resamples=300):
    """Records of rows (name -> seeds) with made answers to one column, and the column resampled; by row's name."""
    form = metric_of(metric).form
    labels = random_answers.labels(form, np.random.default_rng(1), examples)
    right, records, predicted = random_answers.right(form, labels), {}, {}
    for row, seeds in rows.items():
        for seed in range(seeds):
            rng = np.random.default_rng([*row.encode(), seed])
            said = random_answers.mixed(
                right, random_answers.some(form, rng, examples), rng.random(examples) < 0.5
            )
            record = factories.record(row, "rte", seed)
            score = metric_of(metric).score(said, labels)
            record = record.model_copy(update={"scores": {"validation": {metric: score}}})
            records.setdefault(row, []).append(record)
            predicted[record.key] = said
    column = ScoreColumn("rte", "validation", metric)
    drawn = resampled_scores(
        list(predicted.values()), labels, metric, rng_for([column], "examples"), resamples
    )
    return records, Resampled(
        column, labels, predicted, dict(zip(predicted, drawn.T, strict=True)), set()
    )


@settings(max_examples=20)
@given(
    st.sampled_from(sorted(METRICS)),
    st.sampled_from([(1, 1), (1, 3), (2, 2), (3, 2)]),
    st.integers(0, 2),
)
@pytest.mark.slow
def test_an_interval_follows_from_the_two_rows_and_the_column_alone(metric, seeds, others):
    rows = dict(zip(("kd", "pkd"), seeds, strict=True))
    records, data = answered(metric, rows)
    sides = sides_of(records["kd"], records["pkd"])
    line = compared(data, sides)
    turned = compared(data, sides[::-1])
    assert (turned.low, turned.high) == pytest.approx((-line.high, -line.low), abs=1e-6)
    assert (turned.p, turned.least) == (pytest.approx(line.p), pytest.approx(line.least))
    mean = mean_difference([(data, sides)])
    assert mean.interval() == (line.low, line.high)
    more, wider = answered(metric, {**{f"other{i}": 1 + i for i in range(others)}, **rows})
    again = compared(wider, sides_of(more["kd"], more["pkd"]))
    assert (again.low, again.high) == pytest.approx((line.low, line.high), abs=1e-6)
    assert (again.p, again.least) == (pytest.approx(line.p), pytest.approx(line.least))


def test_two_columns_and_two_pairs_have_chances_of_their_own():
    column = ScoreColumn("rte", "validation", "accuracy")
    first = [rng_for([column], "difference", "a", "b").random() for _ in range(2)]
    assert first[0] == first[1] == rng_for([column], "difference", "b", "a").random()
    others = [
        rng_for([replace(column, task="cola")], "difference", "a", "b"),
        rng_for([column], "difference", "a", "c"),
    ]
    others += [
        rng_for([column], "examples", "a", "b"),
        rng_for([replace(column, metric="f1")], "difference", "a", "b"),
    ]
    assert len({first[0], *(rng.random() for rng in others)}) == 5


def test_a_mean_of_the_sets_of_one_task_is_as_uncertain_as_one_of_them():
    """Seeds that differ much, on examples that say little: a mean over two sets is as uncertain as one of them."""
    examples, labels = 4000, np.zeros(4000, dtype=int)
    drawn, pairs = [], []
    for evaluation in ("matched", "mismatched"):
        records, predicted = {"kd": [], "pkd": []}, {}
        for row, shares in (("kd", (0.60, 0.70, 0.80)), ("pkd", (0.61, 0.69, 0.81))):
            for seed, share in enumerate(shares):
                record = factories.record(row, "mnli", seed)
                record = record.model_copy(update={"scores": {evaluation: {"accuracy": share}}})
                records[row].append(record)
                predicted[record.key] = (np.arange(examples) >= share * examples).astype(int)
        column = ScoreColumn("mnli", evaluation, "accuracy")
        scores = resampled_scores(
            list(predicted.values()), labels, "accuracy", rng_for([column], "examples"), 2000
        )
        data = Resampled(
            column, labels, predicted, dict(zip(predicted, scores.T, strict=True)), set()
        )
        pairs.append((data, sides_of(records["kd"], records["pkd"])))
        drawn.append(mean_difference(pairs[-1:]))
    assert not np.array_equal(drawn[0].examples_R, drawn[1].examples_R), "their own examples"
    alone = np.diff(drawn[0].interval())
    mean = np.diff(mean_difference(pairs).interval())
    assert mean > 0.95 * alone


@given(
    st.sampled_from(sorted(METRICS)),
    st.lists(st.floats(0, 1), min_size=2, max_size=2),
    st.integers(0, 99),
)
def test_no_interval_leaves_what_the_metric_can_be(metric, shares, noise):
    """Two seeds far apart: Student's t of one degree of freedom reached from -159 to +22 points."""
    records, data = answered(metric, {"kd": 2, "pkd": 2})
    # trainings that differ by much: one is right, one is not
    for number, record in enumerate(records["kd"]):
        rng = np.random.default_rng([noise, number])
        data.scores_R[record.key][:] = shares[number] + 0.05 * rng.normal(size=300)
    line = compared(data, sides_of(records["kd"], records["pkd"]))
    signed = metric_of(metric).is_signed
    most = 200 if signed else 100
    assert -most <= line.low <= line.high <= most
    least, largest = metric_of(metric).possible_ratios(np.full(300, 0.8))
    assert least == pytest.approx(-1.25 if signed else 0)
    assert largest == pytest.approx(1.25), "nobody keeps more of 80 points than 100"
    assert line.least is None or line.least <= most


@pytest.mark.parametrize("metric", ["accuracy", "macro_f1", "pearson"])
@pytest.mark.parametrize("seeds", [1, 2])
def test_rows_that_agree_on_all_of_sixty_examples_would_not_show_every_gap(metric, seeds):
    """Of accuracies at best 5 examples of 60 must speak for one row; before, the least detectable gap was 0.0."""
    records, data = answered(metric, {"kd": seeds, "pkd": seeds})
    for row in ("kd", "pkd"):
        for record in records[row]:
            data.predicted[record.key] = data.predicted[records["kd"][0].key]
            data.scores_R[record.key] = data.scores_R[records["kd"][0].key]
    line = compared(data, sides_of(records["kd"], records["pkd"]))
    if metric == "accuracy":
        exact = compared(data, sides_of(records["kd"], records["pkd"]), exact=True)
        assert 5 / 60 < line.least / 100 < exact.least / 100 < 2 * 6 / 60
    else:
        assert line.least is None
        assert table("kd", "pkd", [line]).splitlines()[-1].split("|")[9].strip() == "–"
        assert NO_LEAST in comparison_notes([line])


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("examples", [60, 277])
def test_the_bound_of_the_least_gap_is_found_in_four_of_five_tables(examples, exact):
    """Every discordant example on one side; a gap that is a tenth less is found in fewer."""
    bound = least_gap_at_any_disagreement(examples, exact)
    needed = next(count for count in range(examples) if mcnemar(count, 0, exact) <= 0.05)
    found = [stats.binom.sf(needed - 1, examples, gap) for gap in (bound, 0.9 * bound)]
    assert found[0] == pytest.approx(0.8, abs=0.025)
    assert found[1] < 0.77
    assert least_gap_at_any_disagreement(4, exact) is None


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """A few rows of the committed table of five tasks, on three of them."""
    committed, some = Store(MAIN_TABLE), Store(tmp_path_factory.mktemp("some"))
    group = next(g for g in studies(committed.records()) if g.cell.data.max_train_rows == 20_000)
    for record in group.records:
        if record.cell.tasks[0] in TASKS and record.row in ("finetune", "kd", "microbert"):
            folder = committed.folder(record.cell)
            shutil.copytree(folder, some.root / folder.relative_to(MAIN_TABLE))
    return some


def printed(line):
    return f"{line.difference:+.1f} ({line.low:+.1f} to {line.high:+.1f})"


@pytest.mark.slow
def test_compare_and_the_report_print_the_same_interval_of_the_committed_records(reference):
    group = studied(reference)
    table = systems_compared(group)
    for row, tasks in (("microbert", TASKS), ("kd", TASKS[::-1])):
        cells = next(line for line in table.lines if line.label == row).cells
        assert [cell.text for cell in cells[:2]] == ["finetune", "3"]
        (found,) = compare(reference.root, row, "finetune", tasks).values()
        lines = {line.task: line for line in found}
        for column, cell in zip([*group.columns, None], cells[2:], strict=True):
            line = lines[column.task if column else MEAN]
            assert cell.text.startswith(printed(line)), (column, cell)
            assert (cell.alone, cell.p, cell.verdict) == (line.p, line.adjusted, line.verdict)
    ((alone,),) = compare(reference.root, row, "finetune", ["mrpc"]).values()
    assert printed(alone) == printed(lines["mrpc"])


@pytest.mark.slow
def test_choose_prints_the_interval_of_compare(reference):
    (choice,) = choose(reference.root, {}, TASKS)
    best, other, *_ = choice.candidates
    (lines,) = compare(reference.root, other.label, best.label, TASKS).values()
    assert choice_table(choice).rows[1][-4] == printed(lines[-1])
    assert (other.p, other.verdict) == (lines[-1].p, lines[-1].verdict)
