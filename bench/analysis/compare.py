"""Two rows on the same examples: the difference, its interval, a paired test, and whether it can be told at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from bench.data.tasks import GLUE
from bench.errors import InputError, unknown, unknown_row
from bench.progress import Progress
from bench.record.cell import Cell
from bench.record.freshness import code_warnings
from bench.record.newest import left_out_lines, newest_of
from bench.record.recipe import ADAMW
from bench.record.schema import Record
from bench.record.store import Store
from bench.report.comparison import (
    Comparison,
    Sides,
    adjusted,
    compared,
    of_mean,
    shown,
)
from bench.report.groups import Column
from bench.report.render import github
from bench.report.resampled import resampled


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
    for text in (*left_out_lines(left), *code_warnings(shown, store.freshness)):
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
        mean = [of_mean([line for _, line, _ in whole], [drawn for _, _, drawn in whole])] if len(whole) > 1 else []
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
