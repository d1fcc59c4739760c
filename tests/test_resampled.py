"""One comparison has one interval: whichever row is named first, whatever else is compared, in every verb."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path

import made
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.choose import Budget, choose
from bench.compare import MEAN, compare, compared
from bench.record.store import Store
from bench.report.groups import Column, groups
from bench.report.resampled import Resampled, chance
from bench.report.verdicts import differences, resample
from bench.stats.metrics import FORMULAS
from bench.stats.paired import resampled_scores

REFERENCE = Path(__file__).resolve().parents[1] / "results" / "reference"
TASKS = ("cola", "mrpc", "rte", "sst2")


def answered(metric, rows, examples=60, resamples=300):
    """Records of rows (name -> seeds) with made answers to one column, and the column resampled; by row's name."""
    values = metric in ("pearson", "spearman")
    truth = np.random.default_rng(1)
    labels = truth.normal(size=examples) if values else truth.integers(3, size=examples)
    records, predicted = {}, {}
    for row, seeds in rows.items():
        for seed in range(seeds):
            rng = np.random.default_rng([*row.encode(), seed])
            said = rng.normal(size=examples) if values else rng.integers(3, size=examples)
            said = np.where(rng.random(examples) < 0.5, labels, said)
            record = made.record(row, "rte", seed)
            score = FORMULAS[metric](said, labels)
            record = record.model_copy(update={"scores": {"validation": {metric: score}}})
            records.setdefault(row, []).append(record)
            predicted[record.key] = said
    column = Column("rte", "validation", metric)
    drawn = resampled_scores(list(predicted.values()), labels, metric, chance(column, "examples"), resamples)
    return records, Resampled(column, labels, predicted, dict(zip(predicted, drawn.T, strict=True)), set())


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(FORMULAS)), st.integers(1, 3), st.integers(1, 3), st.integers(0, 2))
def test_an_interval_follows_from_the_two_rows_and_the_column_alone(metric, firsts, seconds, others):
    rows = {"kd": firsts, "pkd": seconds}
    records, data = answered(metric, rows)
    line, drawn = compared(data, (records["kd"], records["pkd"]), "rte")
    turned, back = compared(data, (records["pkd"], records["kd"]), "rte")
    assert turned == line.turned()
    assert (turned.low, turned.high, turned.p, turned.least) == (-line.high, -line.low, line.p, line.least)
    assert np.array_equal(drawn, -back)
    more, wider = answered(metric, {**{f"other{i}": 1 + i for i in range(others)}, **rows})
    again, same = compared(wider, (more["kd"], more["pkd"]), "another title")
    assert np.allclose(drawn, same, rtol=0, atol=1e-9)
    assert (again.p, again.least) == (pytest.approx(line.p), pytest.approx(line.least))


def test_two_columns_and_two_pairs_have_chances_of_their_own():
    column = Column("rte", "validation", "accuracy")
    first = [chance(column, "difference", "a", "b").random() for _ in range(2)]
    assert first[0] == first[1] == chance(column, "difference", "b", "a").random()
    others = [chance(replace(column, task="cola"), "difference", "a", "b"), chance(column, "difference", "a", "c")]
    others += [chance(column, "examples", "a", "b"), chance(replace(column, metric="f1"), "difference", "a", "b")]
    assert len({first[0], *(rng.random() for rng in others)}) == 5


@functools.cache
def reference():
    """The committed table of four tasks, and its columns resampled."""
    store = Store(REFERENCE)
    group = next(g for g in groups(store.records()) if g.max_train_rows == 20_000)
    return group, resample(group, store)


def printed(line):
    return f"{line.difference:+.1f} ({line.low:+.1f} to {line.high:+.1f})"


@pytest.mark.parametrize("row", ["microbert", "kd", "moebert"])
def test_compare_and_the_report_print_the_same_interval_of_the_committed_records(row):
    group, answered_columns = reference()
    table = differences(group, answered_columns)[0]
    cells = next(line for line in table.rows if line[0] == row)
    assert cells[1] == "finetune"
    for tasks in (TASKS, TASKS[::-1]):
        found = compare(REFERENCE, row, "finetune", tasks)["GLUE files from the folder glue"]
        lines = {line.task: line for line in found}
        for column, cell in zip(group.columns, cells[2:-1], strict=True):
            line = lines["sst2, 20,000 rows" if column.task == "sst2" else column.task]
            assert cell.startswith(printed(line)), (column, cell)
        assert cells[-1] == printed(lines[MEAN])
    (alone,) = compare(REFERENCE, "finetune", row, ["rte"])["GLUE files from the folder glue"]
    assert printed(replace(alone.turned())) == printed(lines["rte"])


def test_choose_prints_the_interval_of_compare():
    (choice,) = (
        c for c in choose(REFERENCE, Budget(flops=1.6), TASKS) if c.group.max_train_rows == 20_000
    )  # fmt: skip
    best = choice.candidates[0].label
    rows = {row[0]: row[5] for row in choice.table().rows}
    for other in [c.label for c in choice.candidates[1:]]:
        mean = compare(REFERENCE, other, best, TASKS)["GLUE files from the folder glue"][-1]
        assert rows[other] == printed(mean), other
