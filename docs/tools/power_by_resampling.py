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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.record.store import Store
from bench.stats.mean_detail import power_at
from bench.stats.metrics import metric_of
from bench.stats.paired import (
    RESAMPLES,
    Resamples,
    Trained,
    mean_over_columns,
    of_contrast,
    resampled_scores,
)
from bench.stats.power import LEVEL

RECORDS = Path(__file__).resolve().parents[2] / "results" / "h200"
METRICS = {"cola": "matthews", "sst2": "accuracy", "mrpc": "f1", "stsb": "spearman"}
"""Tasks of the means -> the metric of their column."""
LEADERS = ("microbert (best of 6)", "moebert (best of 6)", "tinybert (best of 6)")
BASELINE = "finetune (best of 6)"
SEEDS = 3
FEW = 300
"""Resamples of each drawn table: enough for the share of tables with a verdict."""
TRAININGS = "trainings drawn"
BOTH = "trainings and examples drawn"
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


def compared(
    first: Row, second: Row, rng: np.random.Generator, draws: str, resamples: int
) -> Resamples:
    """The mean difference of two rows, as reports compute it.

    Args:
        draws: what is drawn: "" for nothing, TRAININGS, or BOTH for the examples too.
    """
    parts = []
    for task, column in first.items():
        examples = np.arange(len(column.labels))
        if draws == BOTH:
            examples = rng.integers(len(examples), size=len(examples))
        margins = [column.margin_SN, second[task].margin_SN]
        if draws:
            margins = [row[task].drawn(SEEDS, rng) for row in (first, second)]
        systems = [column.answers(own)[examples] for own in np.concatenate(margins)]
        labels = column.labels[examples]
        score_RS = resampled_scores(systems, labels, METRICS[task], rng, resamples)
        sides = [Trained(1.0, score_RS[:, :SEEDS]), Trained(-1.0, score_RS[:, SEEDS:])]
        parts.append((task, of_contrast(sides)))
    return mean_over_columns(parts)


def difference(first: Row, second: Row, rng: np.random.Generator, draws: str) -> float:
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


def deviations(means: Sequence[Resamples]) -> tuple[float, float]:
    """By how many points examples move the difference, and trainings: as its comparisons have it."""
    examples = [max(0.0, float(np.nanvar(mean.mean_R)) - mean.interaction) for mean in means]
    trainings = [sum(variance for variance, _ in mean.trained) for mean in means]
    return 100 * float(np.sqrt(np.mean(examples))), 100 * float(np.sqrt(np.mean(trainings)))


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
        print(label)
        for draws in ("", TRAININGS, BOTH):
            # what was seen is one table, with as many resamples as all others
            tables = count if draws else 1
            resamples = FEW if draws else RESAMPLES
            means = [compared(row, baseline, rng, draws, resamples) for _ in range(tables)]
            gap = difference(row, baseline, rng, draws)
            by_examples, by_trainings = deviations(means)
            print(
                f"  {draws or 'as seen'}: {100 * gap:+.2f}, standard deviation by examples "
                f"{by_examples:.2f}, by trainings {by_trainings:.2f}"
            )
            if not draws:
                powers = [100 * power_at(means[0], gap, doubtful) for doubtful in (True, False)]
                print(f"    computed power {powers[0]:.0f} to {powers[1]:.0f} %")
            if draws == BOTH:
                found = np.mean([mean.distribution().p() < LEVEL for mean in means])
                print(f"    {100 * found:.0f} % of {count} drawn tables show it", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
