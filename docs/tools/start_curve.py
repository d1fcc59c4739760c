"""Scores by the length of the start's pre-training: ``python docs/tools/start_curve.py``.

Draws `docs/assets/start-curve.svg` from the stored answers of `results/mpnet-start`, one folder for
each length. The SVG file keeps a hash of what it is drawn from, by which a test sees whether it is
current. :func:`table` has the same numbers for docs/results.md.

Letters of shapes: S trainings, R resamples.
"""

from __future__ import annotations

import csv
import hashlib
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np

from bench.record.store import Store
from bench.stats.distribution import Distribution
from bench.stats.metrics import metric_of
from bench.stats.paired import Trained, holm, of_contrast, over_seeds, resampled_scores

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs" / "assets" / "start-curve.svg"
REPORTS = ROOT / "reports" / "mpnet-start"
RESULTS = ROOT / "results" / "mpnet-start"
LENGTHS = {"1m": 1, "4m": 4, "14m": 14}
"""Folder of a length -> million tokens."""
METRICS = {"cola": "matthews", "rte": "accuracy"}
COLUMNS = {"cola": "cola (Matthews)", "rte": "rte (acc)"}
"""Task -> its column."""
ROWS = {
    "finetune": ("#555555", "o"),
    "kd": ("#1b6ca8", "s"),
    "tinybert": ("#d55e00", "^"),
    "microbert": ("#009e73", "D"),
}
"""Rows of the picture -> colour and sign."""
FIXED = {"teacher": "--", "majority class": ":"}
"""Rows that are the same at all lengths -> how their lines are drawn."""
BASELINE = "finetune"
DATA = "folder-glue"
SEEDS = (0, 1, 2)
APART = 1.07
"""Times of a length by which its rows stand apart."""
SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Scored:
    """One row at one length on one task, in points.

    Attributes:
        seen_S: the score of each seed.
        drawn_RS: the same on drawn examples, which are those of all rows of the task.
    """

    seen_S: np.ndarray
    drawn_RS: np.ndarray

    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the mean over seeds, of other examples and other trainings."""
        return over_seeds(self.drawn_RS, self.drawn_RS).distribution().interval()


def scores_of(length: str, task: str) -> dict[str, Scored]:
    """The rows of a length on a task."""
    # the stored answers of each row, seed by seed
    store = Store(RESULTS / length)
    answers: dict[str, dict[int, np.ndarray]] = {row: {} for row in ROWS}
    labels: np.ndarray | None = None
    for record in store.records():
        is_wanted = record.cell.tasks == (task,) and record.cell.data.slug == DATA
        if not is_wanted or record.row not in ROWS:
            continue
        arrays = store.predictions(record)
        answers[record.row][record.cell.seed] = arrays["logits.validation"].argmax(1)
        if labels is None:
            labels = arrays["labels.validation"]
        assert np.array_equal(labels, arrays["labels.validation"]), "rows have the same examples"
    assert labels is not None

    # the same drawn examples for all rows and lengths
    metric = METRICS[task]
    score = metric_of(metric).score
    found = {}
    for row, of_seeds in answers.items():
        systems = [of_seeds[seed] for seed in SEEDS]
        drawn_RS = resampled_scores(systems, labels, metric, np.random.default_rng(0))
        seen_S = np.array([float(score(system, labels)) for system in systems])
        found[row] = Scored(100 * seen_S, 100 * drawn_RS)
    return found


def lines_of(length: str, table: str) -> list[Mapping[str, str]]:
    """The lines of a table of a length's report."""
    (file,) = (REPORTS / length).glob(f"*/*/tables/{table}.csv")
    with file.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def table() -> str:
    """The lines of the table, for docs/results.md: scores and differences as the reports have them.

    A significant difference, after Holm over the two tasks, is bold.
    """
    head = ["million tokens", "row"]
    for column in COLUMNS.values():
        head += [column, f"to `{BASELINE}`"]
    lines = [f"| {' | '.join(head)} |", "|--:|---|" + "--:|" * (len(head) - 2)]
    for length, million in LENGTHS.items():
        scores = {line["System"]: line for line in lines_of(length, "accuracy")}
        pairs = lines_of(length, "paired-comparisons")
        to_baseline = {line["System"]: line for line in pairs if line["compared with"] == BASELINE}
        for row in ROWS:
            cells = [f"{million}", row]
            for column in COLUMNS.values():
                score = scores[row]
                mean = float(score[f"{column} mean"])
                deviation = float(score[f"{column} sd"])
                cells.append(f"{mean:.1f} ± {deviation:.1f}")
                cells.append(_difference(to_baseline.get(row), column))
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _difference(line: Mapping[str, str] | None, column: str) -> str:
    """A difference to the baseline with its interval; "" for the baseline itself."""
    if line is None:
        return ""
    seen = f"{float(line[column]):+.1f}"
    ends = f"({float(line[f'{column} low']):.1f} to {float(line[f'{column} high']):.1f})"
    is_significant = line[f"{column} verdict"] in ("better", "worse")
    return f"**{seen}** {ends}" if is_significant else f"{seen} {ends}"


def changes() -> str:
    """The lines of a table: how far each row is from its shortest start with the longest."""
    first, *_, last = LENGTHS
    lines = [f"| row | {' | '.join(COLUMNS.values())} |", "|---|" + "--:|" * len(COLUMNS)]
    shorter = {task: scores_of(first, task) for task in COLUMNS}
    longer = {task: scores_of(last, task) for task in COLUMNS}
    for row in ROWS:
        # the change on each task; Holm over the tasks
        means = []
        drawn = []
        for task in COLUMNS:
            mean = longer[task][row].seen_S.mean() - shorter[task][row].seen_S.mean()
            means.append(float(mean))
            sides = [
                Trained(1, longer[task][row].drawn_RS),
                Trained(-1, shorter[task][row].drawn_RS),
            ]
            drawn.append(of_contrast(sides).distribution())
        adjusted = holm([_p_of(each) for each in drawn])

        cells = [row]
        for mean, each, p in zip(means, drawn, adjusted, strict=True):
            low, high = each.interval()
            seen = f"**{mean:+.1f}**" if p < SIGNIFICANT else f"{mean:+.1f}"
            cells.append(f"{seen} ({low:.1f} to {high:.1f})")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _p_of(drawn: Distribution) -> float:
    """The two-sided p-value of no difference."""
    below = drawn.below(0)
    return 2 * min(below, 1 - below)


def digest() -> str:
    """sha256 of the keys and the hashes of answers of all records that are drawn."""
    every = hashlib.sha256()
    for length in LENGTHS:
        records = Store(RESULTS / length).records()
        for record in sorted(records, key=lambda record: record.key):
            every.update(f"{length} {record.key} {record.answers}\n".encode())
    return every.hexdigest()


def draw() -> None:
    """A panel for each task: the score of each row, with its interval, against tokens of text."""
    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "start-curve"
    from matplotlib import pyplot

    # the teacher and a constant predictor are the same at all lengths
    fixed = {line["System"]: line for line in lines_of(next(iter(LENGTHS)), "accuracy")}
    millions = list(LENGTHS.values())
    figure, panels = pyplot.subplots(len(COLUMNS), 1, figsize=(6.2, 6.6), layout="constrained")
    for axes, (task, column) in zip(panels, COLUMNS.items(), strict=True):
        # each row beside the others at each length
        found = [scores_of(length, task) for length in LENGTHS]
        for place, (row, (colour, sign)) in enumerate(ROWS.items()):
            apart = APART ** (place - (len(ROWS) - 1) / 2)
            tokens = [million * apart for million in millions]
            ends = [of_length[row].interval() for of_length in found]
            lows = [low for low, _ in ends]
            highs = [high for _, high in ends]
            means = [of_length[row].seen_S.mean() for of_length in found]
            axes.vlines(tokens, lows, highs, color=colour, alpha=0.45, linewidth=2)
            axes.plot(tokens, means, sign, color=colour, linestyle="-", markersize=7, label=row)

        # lines across the panel
        for row, dash in FIXED.items():
            score = float(fixed[row][f"{column} mean"])
            axes.axhline(score, color="black", linewidth=1, linestyle=dash, label=row)
        axes.set_xscale("log")
        axes.set_xticks(millions, [f"{million}" for million in millions], minor=False)
        axes.xaxis.set_minor_locator(mpl.ticker.NullLocator())
        axes.set_title(column, fontsize=11, loc="left")
        axes.tick_params(labelsize=11)
        axes.grid(axis="y", color="#dddddd")
        axes.set_axisbelow(True)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    panels[0].legend(fontsize=11, ncols=2, loc="upper left", bbox_to_anchor=(0, 0.95))
    panels[-1].set_xlabel("million tokens of the start (95 % intervals)", fontsize=11)
    metadata = {"Date": None, "Description": f"sha256 of the answers: {digest()}"}
    figure.savefig(PICTURE, metadata=metadata, facecolor="white")
    pyplot.close(figure)


def is_current() -> bool:
    """Whether the picture was drawn from the records as they are now."""
    text = PICTURE.read_text(encoding="utf-8")
    kept = re.search(r"sha256 of the answers: ([0-9a-f]{64})", text)
    return kept is not None and kept.group(1) == digest()


if __name__ == "__main__":
    draw()
    sys.exit(0)
