"""Two rows on the same examples: the difference, its interval, a paired test, and whether it can be told at all."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bench.data.tasks import GLUE
from bench.errors import InputError, unknown, unknown_row
from bench.plan.cell import TEACHER, Cell
from bench.plan.recipe import ADAMW
from bench.plan.spelling import CHECKPOINT
from bench.progress import Progress
from bench.record.freshness import of_code
from bench.record.newest import left_out_lines, newest_of
from bench.record.schema import Record
from bench.record.store import Store
from bench.report.forms import github
from bench.report.groups import Column
from bench.report.resampled import Resampled, chance, resampled
from bench.stats.metrics import metric_of
from bench.stats.multiple import holm
from bench.stats.paired import Pairs, bootstrap_p, interval, least_detectable, mcnemar, of_difference
from bench.stats.power import LEVEL, least_gap_without_disagreement

BETTER, WORSE, UNCLEAR = "better", "worse", "cannot tell"


@dataclass(frozen=True)
class Comparison:
    """One line of the answer; scores and differences in percent."""

    task: str
    metric: str
    examples: int
    seeds: tuple[int, ...]
    """of a mean whose columns have different ones: none"""
    second_seeds: tuple[int, ...]
    first: float
    second: float
    low: float
    high: float
    test: str
    """mid-p (or exact) McNemar, permutation of examples, or bootstrap of examples with Student's t over seeds"""
    p: float
    least: float | None
    """the smallest true difference that four in five such comparisons would find; None where the answers do not say"""
    borrowed: bool = False
    """whether a row of one seed was taken to scatter as the other does"""
    adjusted: float = 1.0
    """p after Holm's adjustment over the comparisons it stands among"""
    names: tuple[str, str] = ("", "")
    """of the two rows, as tables print them"""

    @property
    def one_training_each(self) -> bool:
        """Whether nothing tells what other trainings would give."""
        return len(self.seeds) == len(self.second_seeds) == 1

    @property
    def difference(self) -> float:
        return self.first - self.second

    def turned(self) -> Comparison:
        """The same comparison, seen from the second row."""
        return replace(
            self,
            seeds=self.second_seeds,
            second_seeds=self.seeds,
            first=self.second,
            second=self.first,
            low=-self.high,
            high=-self.low,
            names=self.names[::-1],
        )

    @property
    def verdict(self) -> str:
        if self.adjusted > LEVEL:
            return UNCLEAR
        return BETTER if self.difference > 0 else WORSE


MEAN = "mean"
ONE_TRAINING = "One seed says nothing of what another training would give."
NO_LEAST = (
    "A dash for the least detectable gap: the two rows answer alike on every example, or their trainings scatter so much that "
    "no difference would be found. An agreement on all examples is no proof that a small gap would have been seen."
)
ONE_BESIDE_SEVERAL = "A row of one seed beside one of several is taken to scatter as that one does."
Sides = tuple[Sequence[Record], Sequence[Record]]
"""The records of two systems for one question, a record for each seed."""


def compare(
    results: Path,
    first: str,
    second: str,
    tasks: Sequence[str] = (),
    seeds: Sequence[int] = (),
    exact: bool = False,
    progress: Progress | None = None,
) -> dict[str, list[Comparison]]:
    """By data source, and by optimiser where that is not AdamW: one comparison for each evaluation set that both rows
    have, and of their mean where there are several.

    A task that was trained on different numbers of rows has a line for each and stands in the mean with the most rows.

    A row is named by its label or as tables print it. Both rows must have learned from the same rows and teacher and be
    scored on the same examples.
    Each is the mean of all its seeds, or of ``seeds``.

    Raises:
        InputError: a row that is not there, one row twice, or no task that both have.
    """
    store = Store(results)
    everything = list(store.records())
    rows, known = {r.row for r in everything}, {task for r in everything for task in r.cell.tasks}
    printed = {r.called: r.row for r in everything if r.called not in rows}
    first, second = printed.get(first, first), printed.get(second, second)
    of_rows = [r for r in everything if r.row in (first, second) and r.status == "ok"]
    mute = [r for r in of_rows if not store.has_predictions(r)]
    for record in mute:
        (progress or Progress()).say(
            f"left out: {record.row} on {'+'.join(record.cell.tasks)}, seed {record.cell.seed} ({record.key[:12]}): "
            f"its answers are not stored; run it again with --rerun"
        )
    of_rows = [record for record in of_rows if record not in mute]
    met = [r for r in of_rows if (not tasks or r.cell.tasks[0] in tasks) and (not seeds or r.cell.seed in seeds)]
    for row in (first, second):
        if row not in rows:
            raise unknown_row(row, rows, results)
    for task in tasks:
        if task not in {*known, *GLUE}:
            raise unknown(f"task in {results}", task, sorted(known))
    if first == second:
        raise InputError(f"compare needs two different rows; both are {first!r}")
    progress = progress or Progress()
    shown, left = newest_of(met, lambda r: (r.row, _question(r)))
    for text in (*left_out_lines(left), *of_code(shown, store.freshness)):
        progress.say(text)
    found: dict[str, dict[tuple, list[Record]]] = {first: {}, second: {}}
    for record in sorted(shown, key=lambda r: r.cell.seed):
        found[record.row].setdefault(_question(record), []).append(record)
    for row in (first, second):
        if not found[row]:
            raise _none_finished(row, of_rows, results)
    shared = sorted(found[first].keys() & found[second].keys(), key=str)
    questions: list[Sides] = [(found[first][key], found[second][key]) for key in shared]
    if not questions:
        raise InputError(f"{first} and {second} have no task, data and teacher in common; compare rows of one report")
    lines: dict[str, list[Comparison]] = {}
    columns: dict[str, dict[tuple, tuple[int, Comparison, np.ndarray]]] = {}
    """by data source: task and evaluation set -> training rows, comparison, resamples"""
    with progress.task("resampling") as update:
        for number, sides in enumerate(questions, start=1):
            cell = sides[0][0].cell
            other = _optimizer(cell)
            data = cell.data.name if other == ADAMW else f"{cell.data.name}, optimizer {other}"
            for name, metrics in sides[0][0].scores.items():
                line, drawn = compare_records(store, sides, name, next(iter(metrics)), exact)
                lines.setdefault(data, []).append(line)
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


def _none_finished(row: str, of_rows: Sequence[Record], results: Path) -> InputError:
    """The error for a row without a record on the tasks and seeds that were asked for, with what it has."""
    has: dict[str, set[int]] = {}
    for record in of_rows:
        if record.row == row:
            has.setdefault(record.cell.tasks[0], set()).add(record.cell.seed)
    there = "; ".join(f"{task}, seed {' '.join(map(str, sorted(seeds)))}" for task, seeds in sorted(has.items()))
    return InputError(
        f"no finished record of the row {row!r} in {results} on these tasks and seeds; it has: {there or 'none'}"
    )


def adjusted(lines: Sequence[Comparison]) -> list[Comparison]:
    """The comparisons of one table with Holm's adjustment over all of them."""
    values = holm([line.p for line in lines])
    return [replace(line, adjusted=value) for line, value in zip(lines, values, strict=True)]


def _mean(lines: Sequence[Comparison], samples: Sequence[np.ndarray]) -> Comparison:
    drawn = np.mean(samples, axis=0)
    low, high = interval(drawn)
    known = all(line.least is not None for line in lines) and all(np.ptp(sample) > 0 for sample in samples)
    alike = len({(line.seeds, line.second_seeds) for line in lines}) == 1
    return Comparison(
        task=MEAN,
        metric=f"{len(lines)} columns",
        examples=sum(line.examples for line in lines),
        seeds=lines[0].seeds if alike else (),
        second_seeds=lines[0].second_seeds if alike else (),
        borrowed=any(line.borrowed for line in lines),
        first=float(np.mean([line.first for line in lines])),
        second=float(np.mean([line.second for line in lines])),
        low=low,
        high=high,
        test="bootstrap",
        p=bootstrap_p(drawn),
        least=least_detectable(drawn) if known else None,
        names=lines[0].names,
    )


def _question(record: Record) -> tuple:
    """What two records have to share."""
    cell = record.cell
    recipe = (cell.recipe["name"], cell.recipe["epochs"], _optimizer(cell))
    return cell.tasks, cell.data.train, tuple(cell.data.evaluation.items()), cell.teacher.key, recipe


def _optimizer(cell: Cell) -> str:
    """Of a recipe that is common to all rows."""
    return str(cell.recipe.get("optimizer", ADAMW))


def fixed(sides: Sides) -> tuple[bool, bool]:
    """Which side is one model for all seeds: a teacher or a finished checkpoint."""
    first, second = (side[0].cell.method in (TEACHER, CHECKPOINT) for side in sides)
    return first, second


def compare_records(
    store: Store, sides: Sides, evaluation: str, metric: str, exact: bool = False
) -> tuple[Comparison, np.ndarray]:
    """Two systems on one evaluation set; and the resampled differences in percent.

    Raises:
        InputError: their predictions are of different examples, or not stored.
    """
    first = sides[0][0]
    records = [*sides[0], *sides[1]]
    for record in records:
        if not store.has_predictions(record):
            raise InputError(f"{record.row}, {evaluation}: its answers are not stored; run it again with --rerun")
    data = resampled(Column(first.cell.tasks[0], evaluation, metric), records, store)
    for record in records:
        if record.key in data.others:
            raise InputError(
                f"{record.row}, {evaluation}: its predictions are of other examples; run it again with --rerun"
            )
    title = first.cell.tasks[0] if len(first.scores) == 1 else f"{first.cell.tasks[0]} {evaluation}"
    if first.cell.data.max_train_rows:
        title += f", {first.cell.data.rows['train']:,} rows"
    return compared(data, sides, title, exact)


def compared(data: Resampled, sides: Sides, title: str, exact: bool = False) -> tuple[Comparison, np.ndarray]:
    """Two rows' records of one column; and the resampled differences in percent.

    They follow from the two rows and the column alone, and are the turned ones where the rows change places.
    One seed has its own test; of several the bootstrap, with Student's t over the seeds, says how far 0 lies outside.
    """
    if _place(sides[1]) < _place(sides[0]):
        line, drawn = compared(data, (sides[1], sides[0]), title, exact)
        return line.turned(), -drawn
    column, still = data.column, fixed(sides)
    rng = chance(column, "difference", *(side[0].row for side in sides))
    spread = of_difference(data.stacked(sides[0]), data.stacked(sides[1]), rng, still)
    drawn = 100 * metric_of(column.metric).possible_differences(spread)
    said = [[data.predicted[record.key] for record in side] for side in sides]
    pairs = Pairs(said[0], said[1], data.labels, column.metric, still)
    low, high = interval(drawn)
    test, p = single_test(pairs, rng, exact) if pairs.seeds == 1 else ("bootstrap", bootstrap_p(drawn))
    scores = [100 * float(np.mean([r.scores[column.evaluation][column.metric] for r in side])) for side in sides]
    line = Comparison(
        task=title,
        metric=column.metric,
        examples=len(data.labels),
        seeds=tuple(record.cell.seed for record in sides[0]),
        second_seeds=tuple(record.cell.seed for record in sides[1]),
        borrowed=any(len(side) == 1 < pairs.seeds and not one for side, one in zip(sides, still, strict=True)),
        first=scores[0],
        second=scores[1],
        low=low,
        high=high,
        test=test,
        p=p,
        least=_least(pairs, spread, exact),
        names=(sides[0][0].called, sides[1][0].called),
    )
    return line, drawn


def _least(pairs: Pairs, spread: np.ndarray, exact: bool) -> float | None:
    """The least detectable gap in percent, from differences as they were drawn, or None where they do not say.

    Where two rows answer alike, drawing examples moves nothing. Shares of right answers still have the gap that McNemar's test could find at
    best; other metrics have no such bound. Of one seed each no gap below that bound is found either, however little was drawn.
    """
    still = float(np.ptp(spread)) <= 1e-12
    least = None if still else least_detectable(spread)
    if pairs.is_share_of_right and (still or pairs.seeds == 1):
        bound = least_gap_without_disagreement(len(pairs.labels), exact)
        least = None if bound is None else max(bound, least or 0.0)
    return 100 * least if least is not None and least <= metric_of(pairs.metric).largest_difference else None


def _place(side: Sequence[Record]) -> tuple[str, list[str]]:
    """By what two rows are put in one order, whichever is named first."""
    return side[0].row, [record.key for record in side]


def single_test(pairs: Pairs, rng: np.random.Generator, exact: bool = False) -> tuple[str, float]:
    """Name and p-value of the test for one seed: McNemar's for shares of right answers, permutation for other metrics."""
    if pairs.is_share_of_right:
        return "McNemar, exact" if exact else "McNemar, mid-p", mcnemar(*pairs.discordant(), exact)
    return "permutation", pairs.permutation(rng)


def shown(p: float) -> str:
    """Three digits; what is smaller is said to be so."""
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"


def said_of(lines: Collection[Comparison]) -> list[str]:
    """What a reader of these comparisons has to know of their seeds and least detectable gaps."""
    said = [ONE_TRAINING] if any(line.one_training_each for line in lines) else []
    said += [ONE_BESIDE_SEVERAL] if any(line.borrowed for line in lines) else []
    return said + ([NO_LEAST] if any(line.least is None for line in lines) else [])


def _seeds(line: Comparison) -> str:
    """The first's, and after a stroke the second's where they are others."""
    sides = dict.fromkeys(", ".join(map(str, seeds)) for seeds in (line.seeds, line.second_seeds))
    return " / ".join(sides) or "each its own"


def table(first: str, second: str, lines: Sequence[Comparison]) -> str:
    """Markdown."""
    rows = [
        [
            line.task,
            line.metric,
            f"{line.examples:,}",
            _seeds(line),
            f"{line.first:.1f}",
            f"{line.second:.1f}",
            f"{line.difference:+.1f}",
            f"{line.low:+.1f} to {line.high:+.1f}",
            "–" if line.least is None else f"{line.least:.1f}",
            f"{shown(line.p)} ({line.test})",
            shown(line.adjusted),
            line.verdict,
        ]
        for line in lines
    ]
    called = next((line.names for line in lines), (first, second))
    header = ["task", "metric", "examples", "seeds", *called, "difference", "95 % interval"]
    header += ["least detectable", "p", "p, Holm", "the first is"]
    return github(rows, header, "right")
