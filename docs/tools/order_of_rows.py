"""Is the order of rows under one teacher that under another, and that of a printed table?

    python docs/tools/order_of_rows.py

Prints Spearman's rank correlation between the rows of `results/mpnet` and those of
`results/untuned`, which share the recipe, and the row order of MoEBERT's Table 1 (Zuo et al. 2022,
development sets, BERT-base), task by task and for the mean of the tasks.

Intervals say how far other examples and other trainings would move a correlation: each of
2,000 draws has the examples drawn with replacement and a normal variable for each row's trainings.
Such noise pulls a correlation towards 0. So each is followed by what the order of the same rows
reaches with itself, drawn twice: no other order can be expected to agree more.

Letters of shapes: S trainings, N examples, R resamples, M rows.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

from bench.record.store import Store
from bench.stats.metrics import metric_of
from bench.stats.paired import interval, resampled_scores

ROOT = Path(__file__).resolve().parents[2]
STRONG = ROOT / "results" / "mpnet"
SMALL = ROOT / "results" / "untuned"
PRINTED = ROOT / "bench" / "report" / "printed" / "moebert.csv"
PRINTED_TABLE = "Table 1"
PRINTED_ROWS = {
    "DistilBERT": "distilbert",
    "TinyBERT (w/o aug)": "tinybert",
    "PKD": "pkd",
    "BERT-of-Theseus": "theseus",
    "MoEBERT": "moebert",
}
"""Systems of the printed table -> our rows."""
METRICS = {"cola": "matthews", "rte": "accuracy", "mrpc": "f1", "stsb": "spearman"}
"""Tasks of the table -> the metric of their column."""
SHAPE = "ffn=3072:hidden=768:layers=6"
STATED = {
    "droplayers": "droplayers",
    f"kd:{SHAPE}:start=layers": "kd",
    "pkd": "pkd",
    "theseus": "theseus",
    "distilbert": "distilbert",
    f"tinybert:{SHAPE}:start=layers": "tinybert",
    "moebert": "moebert",
    "fisher": "fisher",
    "cofi": "cofi",
}
"""Rows of the strong teacher -> what they are called elsewhere, as stated before the first run."""
LOWEST = {row.replace("start=layers", "start=lowest"): name for row, name in STATED.items()}
"""The same with `kd` and `tinybert` of the lowest layers."""
SEEDS = (0, 1, 2)
DATA = "folder-glue"
ITSELF = "these rows with themselves"
HEAD = f"| | the small teacher's order | {ITSELF} | the printed order | {ITSELF} |"
DRAWS = 2_000
FEWEST = 4
"""Rows below which an order says nothing."""


@dataclass(frozen=True)
class Scores:
    """The scores of some rows on one task, or their means over tasks.

    Attributes:
        seen: row -> its mean over seeds.
        drawn_R: row -> the same, on other examples and by other trainings; one value where nothing
            is known of either.
    """

    seen: Mapping[str, float]
    drawn_R: Mapping[str, np.ndarray]


def scores_of(
    folder: Path, task: str, rng: np.random.Generator, names: Mapping[str, str] | None = None
) -> Scores:
    """The rows of a folder of results that have all seeds on a task.

    Args:
        names: the rows that are wanted -> what they are called; None for all, by their own names.
    """
    # the stored answers of each row, seed by seed
    answers: dict[str, dict[int, np.ndarray]] = {}
    labels = np.empty(0)
    store = Store(folder)
    for record in store.records():
        is_wanted = record.cell.tasks == (task,) and record.cell.data.slug == DATA
        if not is_wanted or record.row == "teacher":
            continue
        arrays = store.predictions(record)
        logits = arrays["logits.validation"]
        answer = logits[:, 0] if logits.shape[1] == 1 else logits.argmax(1)
        answers.setdefault(record.row, {})[record.cell.seed] = answer
        labels = arrays["labels.validation"]
    named: dict[str, dict[int, np.ndarray]] = {}
    for row, of_seeds in answers.items():
        is_wanted = names is None or row in names
        if is_wanted and all(seed in of_seeds for seed in SEEDS):
            named[row if names is None else names[row]] = of_seeds

    # all rows on the same drawn examples; each row's trainings by themselves
    systems = [of_seeds[seed] for of_seeds in named.values() for seed in SEEDS]
    if not systems:
        return Scores({}, {})
    all_RM = resampled_scores(systems, labels, METRICS[task], rng, DRAWS)
    score = metric_of(METRICS[task]).score
    seen_M = [float(score(system, labels)) for system in systems]
    seen: dict[str, float] = {}
    drawn_R: dict[str, np.ndarray] = {}
    for place, row in enumerate(named):
        of_row = slice(place * len(SEEDS), (place + 1) * len(SEEDS))
        of_seeds_S = np.array(seen_M[of_row])
        deviation = of_seeds_S.std(ddof=1) / np.sqrt(len(SEEDS))
        seen[row] = float(of_seeds_S.mean())
        drawn_R[row] = all_RM[:, of_row].mean(1) + rng.normal(0, deviation, DRAWS)
    return Scores(seen, drawn_R)


def printed_scores(task: str) -> Scores:
    """What the paper prints of our rows on a task."""
    seen = {}
    with PRINTED.open(encoding="utf-8", newline="") as stream:
        for line in csv.DictReader(stream):
            is_here = line["table"] == PRINTED_TABLE and line["task"] == task
            if is_here and line["metric"] == METRICS[task] and line["system"] in PRINTED_ROWS:
                seen[PRINTED_ROWS[line["system"]]] = float(line["value"])
    return Scores(seen, {row: np.array([value]) for row, value in seen.items()})


def mean_of(columns: Sequence[Scores]) -> Scores:
    """The means over tasks of the rows that have all of them."""
    rows = [row for row in columns[0].seen if all(row in column.seen for column in columns)]
    return Scores(
        {row: float(np.mean([column.seen[row] for column in columns])) for row in rows},
        {row: np.mean([column.drawn_R[row] for column in columns], axis=0) for row in rows},
    )


def correlation(one: Scores, other: Scores) -> tuple[int, float, tuple[float, float]] | None:
    """Number of rows that both have, Spearman's correlation of their scores, and its interval."""
    rows = [row for row in one.seen if row in other.seen]
    if len(rows) < FEWEST:
        return None
    seen = spearman(
        np.array([[one.seen[row] for row in rows]]), np.array([[other.seen[row] for row in rows]])
    )
    first_RM = np.stack([one.drawn_R[row] for row in rows], -1)
    second_RM = np.stack([other.drawn_R[row] for row in rows], -1)
    return len(rows), float(seen[0]), interval(spearman(first_RM, second_RM))


def spearman(first_RM: np.ndarray, second_RM: np.ndarray) -> np.ndarray:
    """[R] rank correlations over the rows; either may have one line for all."""
    first_RM = rankdata(first_RM, axis=-1)
    second_RM = rankdata(second_RM, axis=-1)
    first_RM = first_RM - first_RM.mean(-1, keepdims=True)
    second_RM = second_RM - second_RM.mean(-1, keepdims=True)
    both_R = (first_RM * second_RM).sum(-1)
    alone_R = (first_RM**2).sum(-1) * (second_RM**2).sum(-1)
    return np.asarray(both_R / np.sqrt(alone_R))


def table(strong: Path = STRONG, small: Path = SMALL) -> str:
    """The lines of the table, for docs/results.md."""
    lines = [HEAD, "|---|--:|--:|--:|--:|"]
    for start, names in (("as stated", STATED), ("kd, tinybert of the lowest layers", LOWEST)):
        for task, cells in _correlations(strong, small, names).items():
            lines.append(f"| {task}, {start} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _correlations(strong: Path, small: Path, names: Mapping[str, str]) -> dict[str, list[str]]:
    """Task, or "mean" with their number -> the cells of its line.

    Only tasks count that have all rows with all seeds.
    """
    rng = np.random.default_rng(0)
    tasks: list[str] = []
    ours: list[Scores] = []
    others: list[list[Scores]] = []
    for task in METRICS:
        scores = scores_of(strong, task, rng, names)
        if len(scores.seen) < len(names):
            continue
        tasks.append(task)
        ours.append(scores)
        again = scores_of(strong, task, rng, names)
        others.append([again, scores_of(small, task, rng), printed_scores(task)])
    if len(tasks) > 1:
        tasks.append(f"mean of {len(tasks)}")
        ours.append(mean_of(ours))
        others.append([mean_of(columns) for columns in zip(*others, strict=True)])

    cells: dict[str, list[str]] = {}
    for task, here, (again, there, printed) in zip(tasks, ours, others, strict=True):
        cells[task] = []
        for other in (there, printed):
            # the order of the same rows has 1 with itself: what noise leaves of it is in the draws
            itself = correlation(here, of_rows(again, other))
            cells[task].append(_cell(correlation(here, other)))
            cells[task].append("–" if itself is None else _ends(itself[2]))
    return cells


def of_rows(scores: Scores, other: Scores) -> Scores:
    """The scores of those rows that another one has too."""
    rows = [row for row in scores.seen if row in other.seen]
    return Scores(
        {row: scores.seen[row] for row in rows}, {row: scores.drawn_R[row] for row in rows}
    )


def _cell(found: tuple[int, float, tuple[float, float]] | None) -> str:
    if found is None:
        return "–"
    rows, seen, ends = found
    return f"{seen:+.2f} ({_ends(ends)}; {rows} rows)"


def _ends(interval_of: tuple[float, float]) -> str:
    low, high = interval_of
    return f"{low:+.2f} to {high:+.2f}"


if __name__ == "__main__":
    print(table(), end="")
