"""Power of the main table's leads, by data sets and trainings that are drawn from its stored answers.

    python docs/tools/power_by_resampling.py --data-sets 200

`compare --detail` computes the power from variances. Here whole tables are drawn and tested as all
others are. Each has the examples of the development sets, drawn with replacement, and three new
trainings of each row. A training's answers are the mean over the row's seeds plus a normal variable
with the covariance that the seeds have over examples (a plasmode: Vaughan et al. 2009). Takes some
minutes.

Letters of shapes: S trainings, N examples, R resamples.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.record.store import Store
from bench.stats.mean_detail import power_at
from bench.stats.metrics import metric_of
from bench.stats.paired import Resamples, Trained, mean_over_columns, of_contrast, resampled_scores
from bench.stats.power import LEVEL

RECORDS = Path(__file__).resolve().parents[2] / "results" / "h200"
METRICS = {"cola": "matthews", "sst2": "accuracy", "mrpc": "f1", "stsb": "spearman"}
"""Tasks of the means -> the metric of their column."""
LEADERS = ("microbert (best of 6)", "moebert (best of 6)", "tinybert (best of 6)")
BASELINE = "finetune (best of 6)"
SEEDS = 3
RESAMPLES = 300
"""Of each drawn table: enough for the share of tables with a verdict."""
MANY = 300
"""Trainings whose mean score is taken for the true one."""


@dataclass(frozen=True)
class Column:
    """The answers of one row on one task."""

    task: str
    margin_SN: np.ndarray
    """the second class's logit less the first one's, or the answer of a regression; per seed"""
    labels: np.ndarray

    def answers(self, margin_N: np.ndarray) -> np.ndarray:
        """What is scored: classes, or the values of a regression."""
        return margin_N if self.task == "stsb" else (margin_N > 0).astype(np.int64)

    def score(self, margin_N: np.ndarray) -> float:
        """The score of one training on all examples."""
        return float(metric_of(METRICS[self.task]).score(self.answers(margin_N), self.labels))

    def drawn(self, trainings: int, rng: np.random.Generator) -> np.ndarray:
        """[trainings, N] margins of new trainings."""
        residual_SN = self.margin_SN - self.margin_SN.mean(0)
        factors = rng.normal(size=(trainings, len(residual_SN)))
        moved = factors @ residual_SN / np.sqrt(len(residual_SN) - 1)
        return np.asarray(self.margin_SN.mean(0) + moved)


Row = Mapping[str, Column]
"""Task -> the answers of a row."""


def row_of(store: Store, label: str) -> Row:
    """The stored answers of a row of the main table, in the order of its seeds."""
    columns = {}
    for task in METRICS:
        records = [r for r in store.records() if r.row == label and r.cell.tasks == (task,)]
        records.sort(key=lambda record: record.cell.seed)
        margins = []
        for record in records:
            arrays = store.predictions(record)
            logits = arrays["logits.validation"].astype(float)
            is_score = logits.shape[1] == 1
            margins.append(logits[:, 0] if is_score else logits[:, 1] - logits[:, 0])
        columns[task] = Column(task, np.stack(margins), arrays["labels.validation"])
    return columns


def compared(first: Row, second: Row, rng: np.random.Generator, draws: bool) -> Resamples:
    """The mean difference of two rows, as reports compute it.

    Args:
        draws: whether examples and trainings are drawn; else they are those that were seen.
    """
    parts = []
    for task, column in first.items():
        examples = np.arange(len(column.labels))
        margins = [column.margin_SN, second[task].margin_SN]
        if draws:
            examples = rng.integers(len(examples), size=len(examples))
            margins = [row[task].drawn(SEEDS, rng) for row in (first, second)]
        systems = [column.answers(own)[examples] for own in np.concatenate(margins)]
        score_RS = resampled_scores(systems, column.labels[examples], METRICS[task], rng, RESAMPLES)
        sides = [Trained(1.0, score_RS[:, :SEEDS]), Trained(-1.0, score_RS[:, SEEDS:])]
        parts.append((task, of_contrast(sides)))
    return mean_over_columns(parts)


def difference(first: Row, second: Row, rng: np.random.Generator, draws: bool) -> float:
    """The mean difference of the seeds that were seen, or of many new trainings."""
    gaps = []
    for task in METRICS:
        means = []
        for row in (first, second):
            column = row[task]
            margins = column.drawn(MANY, rng) if draws else column.margin_SN
            means.append(np.mean([column.score(own) for own in margins]))
        gaps.append(means[0] - means[1])
    return float(np.mean(gaps))


def standard_error(mean: Resamples) -> float:
    """Of a mean difference, as its own comparison has it."""
    drawn = mean.distribution()
    return float(np.sqrt(drawn.shrunk**2 * drawn.examples_R.var() + drawn.added))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-sets", type=int, default=200)
    count = parser.parse_args().data_sets
    store = Store(RECORDS)
    baseline = row_of(store, BASELINE)
    for label in LEADERS:
        rng = np.random.default_rng(0)
        row = row_of(store, label)
        # what was seen
        seen = compared(row, baseline, rng, draws=False)
        gap = difference(row, baseline, rng, draws=False)
        powers = [100 * power_at(seen, gap, doubtful) for doubtful in (True, False)]
        print(f"{label}: {100 * gap:+.2f}, standard error {100 * standard_error(seen):.2f}")
        print(f"  computed power: {powers[0]:.0f} to {powers[1]:.0f} %")
        # what is drawn
        means = [compared(row, baseline, rng, draws=True) for _ in range(count)]
        found = np.mean([mean.distribution().p() < LEVEL for mean in means])
        error = np.sqrt(np.mean([standard_error(mean) ** 2 for mean in means]))
        gap = difference(row, baseline, rng, draws=True)
        print(f"  drawn: {100 * gap:+.2f}, standard error {100 * error:.2f}")
        print(f"  share of {count} drawn tables with a verdict: {100 * found:.0f} %", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
