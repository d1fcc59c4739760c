"""Two rows on the same examples: the difference, its interval, a paired test, and whether it can be told at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bench.errors import InputError
from bench.progress import Progress
from bench.record.newest import left_out_lines, newest_of
from bench.record.schema import Record
from bench.record.store import Store
from bench.stats.multiple import holm
from bench.stats.paired import RESAMPLES, Pairs, answers, bootstrap_p, interval, least_detectable, mcnemar
from bench.stats.power import LEVEL

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
    test: str
    """mid-p (or exact) McNemar, permutation of examples, or bootstrap of examples with Student's t over seeds"""
    p: float
    least: float
    """the smallest true difference that four in five such comparisons would find"""
    adjusted: float = 1.0
    """p after Holm's adjustment over the comparisons it stands among"""

    @property
    def difference(self) -> float:
        return self.first - self.second

    @property
    def verdict(self) -> str:
        if self.adjusted > LEVEL:
            return UNCLEAR
        return BETTER if self.difference > 0 else WORSE


MEAN = "mean"


def compare(
    results: Path,
    first: str,
    second: str,
    tasks: Sequence[str] = (),
    seeds: Sequence[int] = (),
    exact: bool = False,
    progress: Progress | None = None,
) -> dict[str, list[Comparison]]:
    """By data source: one comparison for each evaluation set that both rows have, and of their mean where there are several.

    A task that was trained on different numbers of rows has a line for each and stands in the mean with the most rows.

    Both rows must have learned from the same rows and teacher and be scored on the same examples; seeds are matched.

    Raises:
        InputError: a row that is not there, or no task and seed that both have.
    """
    store = Store(results)
    met: list[Record] = []
    rows = set()
    for record in store.records():
        rows.add(record.row)
        wanted = (not tasks or record.cell.tasks[0] in tasks) and (not seeds or record.cell.seed in seeds)
        if record.row in (first, second) and record.status == "ok" and wanted:
            met.append(record)
    progress = progress or Progress()
    shown, left = newest_of(met, lambda r: (r.row, _question(r)[:-1]))
    for text in left_out_lines(left):
        progress.say(text)
    found: dict[str, dict[tuple, Record]] = {first: {}, second: {}}
    for record in shown:
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
    columns: dict[str, dict[tuple, tuple[int, Comparison, np.ndarray]]] = {}
    """by data source: task and evaluation set -> training rows, comparison, resamples"""
    with progress.task("resampling") as update:
        for number, matched in enumerate(questions.values(), start=1):
            data = matched[0][0].cell.data.name
            for name, metrics in matched[0][0].scores.items():
                line, drawn = compare_records(store, matched, name, next(iter(metrics)), rng, exact)
                lines.setdefault(data, []).append(line)
                cell = matched[0][0].cell
                column, size = (cell.tasks, name), cell.data.rows["train"]
                best = columns.setdefault(data, {}).get(column)
                if best is None or size > best[0]:  # a task that was run on fewer rows too counts once, with the most
                    columns[data][column] = (size, line, drawn)
            update(number, len(questions))
    answer = {}
    for data, of_data in lines.items():
        whole = list(columns[data].values())
        mean = [_mean([line for _, line, _ in whole], [drawn for _, _, drawn in whole])] if len(whole) > 1 else []
        answer[data] = [*adjusted(of_data), *(replace(line, adjusted=line.p) for line in mean)]
    return answer


def adjusted(lines: Sequence[Comparison]) -> list[Comparison]:
    """The comparisons of one table with Holm's adjustment over all of them."""
    values = holm([line.p for line in lines])
    return [replace(line, adjusted=value) for line, value in zip(lines, values, strict=True)]


def _mean(lines: Sequence[Comparison], samples: Sequence[np.ndarray]) -> Comparison:
    drawn = np.mean(samples, axis=0)
    low, high = interval(drawn)
    return Comparison(
        task=MEAN,
        metric=f"{len(lines)} columns",
        examples=sum(line.examples for line in lines),
        seeds=tuple(sorted(set.intersection(*(set(line.seeds) for line in lines)))),
        first=float(np.mean([line.first for line in lines])),
        second=float(np.mean([line.second for line in lines])),
        low=low,
        high=high,
        test="bootstrap",
        p=bootstrap_p(drawn),
        least=least_detectable(drawn),
    )


def _question(record: Record) -> tuple:
    """What two records have to share; the seed last."""
    cell = record.cell
    recipe = (cell.recipe["name"], cell.recipe["epochs"])
    return cell.tasks, cell.data.train, tuple(cell.data.evaluation.items()), cell.teacher.key, recipe, cell.seed


def pairs_of(store: Store, matched: Sequence[tuple[Record, Record]], evaluation: str, metric: str) -> Pairs:
    """The stored answers of two systems to one evaluation set, a pair of records for each seed.

    Raises:
        InputError: they are of different examples.
    """
    predicted: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    labels = examples = None
    for pair in matched:
        for side, record in zip(predicted, pair, strict=True):
            arrays = store.predictions(record)
            side.append(answers(arrays[f"logits.{evaluation}"]))
            if examples is None:
                labels, examples = arrays[f"labels.{evaluation}"], arrays[f"examples.{evaluation}"]
            elif not np.array_equal(examples, arrays[f"examples.{evaluation}"]):
                raise InputError(
                    f"{record.row}, {evaluation}: its predictions are of other examples; run it again with --rerun"
                )
    assert labels is not None
    return Pairs(predicted[0], predicted[1], labels, metric)


def single_test(
    pairs: Pairs, rng: np.random.Generator, exact: bool = False, resamples: int = RESAMPLES
) -> tuple[str, float]:
    """Name and p-value of the test for one seed: McNemar's for accuracies, permutation for other metrics."""
    if pairs.metric == "accuracy":
        return "McNemar, exact" if exact else "McNemar, mid-p", mcnemar(*pairs.discordant(), exact)
    return "permutation", pairs.permutation(rng, resamples)


def compare_records(
    store: Store,
    matched: Sequence[tuple[Record, Record]],
    evaluation: str,
    metric: str,
    rng: np.random.Generator,
    exact: bool = False,
    resamples: int = RESAMPLES,
) -> tuple[Comparison, np.ndarray]:
    """Two systems on one evaluation set, a pair of records for each seed; and the resampled differences in percent.

    Raises:
        InputError: their predictions are of different examples.
    """
    pairs = pairs_of(store, matched, evaluation, metric)
    drawn = 100 * pairs.bootstrap(rng, resamples)
    first = matched[0][0]
    title = first.cell.tasks[0] if len(first.scores) == 1 else f"{first.cell.tasks[0]} {evaluation}"
    if first.cell.data.max_train_rows:
        title += f", {first.cell.data.rows['train']:,} rows"
    return judged(title, evaluation, matched, pairs, drawn, rng, exact, resamples), drawn


def judged(
    title: str,
    evaluation: str,
    matched: Sequence[tuple[Record, Record]],
    pairs: Pairs,
    drawn: np.ndarray,
    rng: np.random.Generator,
    exact: bool = False,
    resamples: int = RESAMPLES,
) -> Comparison:
    """The comparison that answers and resampled differences (in percent) of matched records carry.

    One seed has its own test; of several the bootstrap, with Student's t over the seeds, says how far 0 lies outside.
    """
    low, high = interval(drawn)
    test, p = single_test(pairs, rng, exact, resamples) if pairs.seeds == 1 else ("bootstrap", bootstrap_p(drawn))
    scores = [
        100 * float(np.mean([record.scores[evaluation][pairs.metric] for record in side]))
        for side in zip(*matched, strict=True)
    ]
    return Comparison(
        task=title,
        metric=pairs.metric,
        examples=len(pairs.labels),
        seeds=tuple(record.cell.seed for record, _ in matched),
        first=scores[0],
        second=scores[1],
        low=low,
        high=high,
        test=test,
        p=p,
        least=least_detectable(drawn),
    )


def shown(p: float) -> str:
    """Three digits; what is smaller is said to be so."""
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"


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
            f"{line.least:.1f}",
            f"{shown(line.p)} ({line.test})",
            shown(line.adjusted),
            line.verdict,
        ]
        for line in lines
    ]
    header = ["task", "metric", "examples", "seeds", first, second, "difference", "95 % interval"]
    header += ["least detectable", "p", "p, Holm", "the first is"]
    return tabulate(rows, header, tablefmt="github", disable_numparse=True, stralign="right")
