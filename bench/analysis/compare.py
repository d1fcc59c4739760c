"""Two rows on the same examples: the difference, its interval, a paired test, and whether it is significant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from bench.data.tasks import check_known
from bench.errors import InputError, unknown_row
from bench.progress import Progress
from bench.record.cell import Cell
from bench.record.freshness import code_warnings
from bench.record.newest import left_out_lines, newest_of
from bench.record.recipe import ADAMW
from bench.record.schema import Record
from bench.record.store import Store
from bench.report.comparison import (
    NOT_SIGNIFICANT,
    UNCLEAR,
    Comparison,
    Sides,
    adjusted,
    compared,
    of_mean,
    p_in_words,
)
from bench.report.groups import FROM_GLUE, GENERATED, ScoreColumn
from bench.report.render import github
from bench.report.resampled import resampled

SUITE = "sample suite "
"""Begins the name of the sample suite."""


@dataclass
class _Source:
    """The comparisons of one data source."""

    lines: list[Comparison] = field(default_factory=list)
    columns: dict[tuple[object, ...], tuple[int, Comparison, np.ndarray]] = field(default_factory=dict)
    """task and evaluation set -> training rows, comparison, resampled differences"""

    def add(self, cell: Cell, evaluation: str, found: tuple[Comparison, np.ndarray]) -> None:
        """Add a comparison. If a task was trained on several numbers of rows, the mean has the one with the most."""
        self.lines.append(found[0])
        column, size = (cell.tasks, evaluation), cell.data.rows["train"]
        best = self.columns.get(column)
        if best is None or size > best[0]:
            self.columns[column] = (size, *found)

    def answer(self) -> list[Comparison]:
        """The comparisons with Holm's adjustment, and their mean, which is not adjusted, where there are several."""
        whole = list(self.columns.values())
        mean = [of_mean([line for _, line, _ in whole], [drawn for _, _, drawn in whole])] if len(whole) > 1 else []
        return [*adjusted(self.lines), *(replace(line, adjusted=line.p) for line in mean)]


def compare(
    results: Path,
    first: str,
    second: str,
    tasks: Sequence[str] = (),
    seeds: Sequence[int] = (),
    exact: bool = False,
) -> dict[str, list[Comparison]]:
    """By data source, by optimiser where that is not AdamW, and by teacher and recipe where there are several: one
    comparison for each evaluation set that both rows have, and of their mean where there are several.

    A task that was trained on different numbers of rows has a line for each; the mean has the one with the most rows.

    A row is named by its label or as tables print it. Both rows must have learned from the same rows and teacher and be
    scored on the same examples.
    Each is the mean of all its seeds, or of ``seeds``.

    Raises:
        InputError: a row that is not there, one row twice, or no task that both have.
    """
    store, progress = Store(results), Progress()
    everything = list(store.records())
    rows = _named(everything, (first, second), tasks, results)
    of_rows = _with_answers(store, [r for r in everything if r.row in rows and r.status == "ok"], progress)
    met = [r for r in of_rows if (not tasks or r.cell.tasks[0] in tasks) and (not seeds or r.cell.seed in seeds)]
    kept, left = newest_of(met, lambda r: (r.row, _question(r)))
    for text in (*left_out_lines(left), *code_warnings(kept, store.freshness)):
        progress.say(text)
    found = [_by_question([record for record in kept if record.row == row]) for row in rows]
    for row, questions in zip(rows, found, strict=True):
        if not questions:
            raise _none_finished(row, of_rows, results)
    shared = sorted(found[0].keys() & found[1].keys(), key=str)
    if not shared:
        raise InputError(
            f"{rows[0]} and {rows[1]} have no task, data and teacher in common; compare rows of one report"
        )
    names = _source_names([found[0][key][0].cell for key in shared])
    sources: dict[str, _Source] = {}
    with progress.task("resampling") as update:
        for number, (key, source) in enumerate(zip(shared, names, strict=True), start=1):
            sides = found[0][key], found[1][key]
            record = sides[0][0]
            for name, metrics in record.scores.items():
                line = compare_records(store, sides, name, next(iter(metrics)), exact)
                sources.setdefault(source, _Source()).add(record.cell, name, line)
            update(number, len(shared))
    return {name: source.answer() for name, source in sources.items()}


def _named(
    everything: Sequence[Record], typed: tuple[str, str], tasks: Sequence[str], results: Path
) -> tuple[str, str]:
    """The labels of two rows that were typed as labels or as tables print them.

    Raises:
        InputError: a row or a task that is not there, or one row twice.
    """
    labels = {r.row for r in everything}
    printed = {r.called: r.row for r in everything if r.called not in labels}
    first, second = (printed.get(name, name) for name in typed)
    for row in (first, second):
        if row not in labels:
            raise unknown_row(row, labels, results)
    check_known(tasks, {task for r in everything for task in r.cell.tasks}, results)
    if first == second:
        raise InputError(f"compare needs two different rows; both are {first!r}")
    return first, second


def _with_answers(store: Store, records: Sequence[Record], progress: Progress) -> list[Record]:
    """Those whose answers are stored; the others are named."""
    there = []
    for record in records:
        if store.has_predictions(record):
            there.append(record)
            continue
        progress.say(
            f"left out: {record.row} on {'+'.join(record.cell.tasks)}, seed {record.cell.seed} ({record.key[:12]}): "
            f"its answers are not stored; run it again with --rerun"
        )
    return there


def _by_question(records: Sequence[Record]) -> dict[tuple, list[Record]]:
    """The records of one row by what another row's have to share with them, in the order of seeds."""
    found: dict[tuple, list[Record]] = {}
    for record in sorted(records, key=lambda r: r.cell.seed):
        found.setdefault(_question(record), []).append(record)
    return found


def _source_names(cells: Sequence[Cell]) -> list[str]:
    """The data source of each, with the optimiser where that is not AdamW, and teacher and recipe where there are several."""
    optimizers = ["" if _optimizer(cell) == ADAMW else f", optimizer {_optimizer(cell)}" for cell in cells]
    teachers = [f", teacher {cell.teacher.name}" for cell in cells]
    recipes = [f", {cell.recipe['name']} recipe, {cell.recipe['epochs']:g} epochs" for cell in cells]
    parts = [optimizers, *(each for each in (teachers, recipes) if len(set(each)) > 1)]
    return [cell.data.name + "".join(added) for cell, *added in zip(cells, *parts, strict=True)]


def title_of(source: str) -> str:
    """A data source of an answer as reports call it."""
    name, found, rest = source.partition(", ")
    if name.startswith(SUITE):
        name += GENERATED
    return FROM_GLUE.sub("", name, count=1) + found + rest


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


def _question(record: Record) -> tuple:
    """What two records have to share."""
    cell = record.cell
    recipe = (cell.recipe["name"], cell.recipe["epochs"], _optimizer(cell))
    return cell.tasks, cell.data.train, tuple(cell.data.evaluation.items()), cell.teacher.key, recipe


def _optimizer(cell: Cell) -> str:
    """Of a recipe that is common to all rows."""
    return str(cell.recipe.get("optimizer", ADAMW))


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
    data = resampled(ScoreColumn(first.cell.tasks[0], evaluation, metric), records, store)
    for record in records:
        if record.key in data.others:
            raise InputError(
                f"{record.row}, {evaluation}: its predictions are of other examples; run it again with --rerun"
            )
    title = first.cell.tasks[0] if len(first.scores) == 1 else f"{first.cell.tasks[0]} {evaluation}"
    if first.cell.data.max_train_rows:
        title += f", {first.cell.data.rows['train']:,} training examples"
    return compared(data, sides, title, exact)


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
            f"{p_in_words(line.p)} ({line.test})",
            p_in_words(line.adjusted),
            NOT_SIGNIFICANT if line.verdict == UNCLEAR else line.verdict,
        ]
        for line in lines
    ]
    called = next((line.names for line in lines), (first, second))
    header = ["task", "metric", "examples", "seeds", *called, "difference", "95 % interval"]
    header += ["min. detectable", "p", "p, Holm", "verdict"]
    return github(rows, header, "right")
