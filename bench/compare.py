"""Two rows on the same examples: the difference, its interval by paired bootstrap, and whether it can be told at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.errors import InputError
from bench.progress import Progress
from bench.record.schema import Record
from bench.record.store import Store
from bench.stats.paired import Pairs, answers, interval

RESAMPLES = 10_000
BETTER, WORSE, UNCLEAR = "better", "worse", "cannot tell"


@dataclass(frozen=True)
class Comparison:
    """One line of the answer; scores and differences in percent."""

    task: str
    metric: str
    examples: int
    seeds: tuple[int, ...]
    first: float
    second: float
    low: float
    high: float

    @property
    def difference(self) -> float:
        return self.first - self.second

    @property
    def verdict(self) -> str:
        return BETTER if self.low > 0 else WORSE if self.high < 0 else UNCLEAR


MEAN = "mean"


def compare(
    results: Path,
    first: str,
    second: str,
    tasks: Sequence[str] = (),
    seeds: Sequence[int] = (),
    progress: Progress | None = None,
) -> dict[str, list[Comparison]]:
    """By data source: one comparison for each evaluation set that both rows have, and of their mean where there are several.

    Both rows must have learned from the same rows and teacher and be scored on the same examples; seeds are matched.

    Raises:
        InputError: a row that is not there, or no task and seed that both have.
    """
    store = Store(results)
    found: dict[str, dict[tuple, Record]] = {first: {}, second: {}}
    rows = set()
    for record in store.records():
        rows.add(record.row)
        wanted = (not tasks or record.cell.tasks[0] in tasks) and (not seeds or record.cell.seed in seeds)
        if record.row in found and record.status == "ok" and wanted:
            found[record.row][_question(record)] = record
    for row in (first, second):
        if not found[row]:
            there = ", ".join(sorted(rows)) or "none"
            raise InputError(f"no record of the row {row!r} in {results}; there are: {there}")
    questions: dict[tuple, list[tuple[Record, Record]]] = {}
    for key in sorted(found[first].keys() & found[second].keys(), key=str):
        questions.setdefault(key[:-1], []).append((found[first][key], found[second][key]))
    if not questions:
        raise InputError(
            f"{first} and {second} have no task, data, teacher and seed in common; compare rows of one report"
        )
    rng = np.random.default_rng(0)
    lines: dict[str, list[Comparison]] = {}
    samples: dict[str, list[np.ndarray]] = {}
    with (progress or Progress()).task("resampling") as update:
        for number, matched in enumerate(questions.values(), start=1):
            data = matched[0][0].cell.data.name
            for name, metrics in matched[0][0].scores.items():
                line, drawn = _line(store, name, next(iter(metrics)), matched, rng)
                lines.setdefault(data, []).append(line)
                samples.setdefault(data, []).append(drawn)
            update(number, len(questions))
    for data, of_data in lines.items():
        if len(of_data) > 1:
            of_data.append(_mean(of_data, samples[data]))
    return lines


def _mean(lines: Sequence[Comparison], samples: Sequence[np.ndarray]) -> Comparison:
    low, high = interval(np.mean(samples, axis=0))
    return Comparison(
        task=MEAN,
        metric=f"{len(lines)} columns",
        examples=sum(line.examples for line in lines),
        seeds=tuple(sorted(set.intersection(*(set(line.seeds) for line in lines)))),
        first=float(np.mean([line.first for line in lines])),
        second=float(np.mean([line.second for line in lines])),
        low=low,
        high=high,
    )


def _question(record: Record) -> tuple:
    """What two records have to share; the seed last."""
    cell = record.cell
    recipe = (cell.recipe["name"], cell.recipe["epochs"])
    return cell.tasks, cell.data.train, tuple(cell.data.evaluation.items()), cell.teacher.key, recipe, cell.seed


def _line(
    store: Store, name: str, metric: str, matched: Sequence[tuple[Record, Record]], rng: np.random.Generator
) -> tuple[Comparison, np.ndarray]:
    predicted: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    labels = examples = None
    for pair in matched:
        for side, record in zip(predicted, pair, strict=True):
            arrays = store.predictions(record)
            side.append(answers(arrays[f"logits.{name}"]))
            if examples is None:
                labels, examples = arrays[f"labels.{name}"], arrays[f"examples.{name}"]
            elif not np.array_equal(examples, arrays[f"examples.{name}"]):
                raise InputError(
                    f"{record.row}, {name}: its predictions are of other examples; run it again with --rerun"
                )
    assert labels is not None
    pairs = Pairs(predicted[0], predicted[1], labels, metric)
    drawn = 100 * pairs.resampled(RESAMPLES, rng)
    low, high = interval(drawn)
    task = matched[0][0].cell.tasks[0]
    title = task if len(matched[0][0].scores) == 1 else f"{task} {name}"
    scores = [
        100 * float(np.mean([record.scores[name][metric] for record in side])) for side in zip(*matched, strict=True)
    ]
    seeds = tuple(record.cell.seed for record, _ in matched)
    return Comparison(title, metric, len(labels), seeds, scores[0], scores[1], low, high), drawn


def table(first: str, second: str, lines: Sequence[Comparison]) -> str:
    """Markdown."""
    from tabulate import tabulate

    rows = [
        [
            line.task,
            line.metric,
            f"{line.examples:,}",
            ", ".join(map(str, line.seeds)),
            f"{line.first:.1f}",
            f"{line.second:.1f}",
            f"{line.difference:+.1f}",
            f"{line.low:+.1f} to {line.high:+.1f}",
            line.verdict,
        ]
        for line in lines
    ]
    header = ["task", "metric", "examples", "seeds", first, second, "difference", "95 % interval", "the first is"]
    return tabulate(rows, header, tablefmt="github", disable_numparse=True, stralign="right")
