"""Two rows on the same examples: the difference, its interval, a paired test, and whether it is significant."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.data.tasks import check_known
from bench.errors import InputError, known_row
from bench.progress import Progress
from bench.record.cell import Cell
from bench.record.code import stale_lines, unknown_lines
from bench.record.differences import left_out_lines, newest_of
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

    Where tasks were trained on at most so many rows, each limit has an answer of its own, as it has a report.

    A row is named by its label or as tables print it. Both rows must have learned from the same rows and teacher and be
    scored on the same examples.
    Each is the mean of all its seeds, or of ``seeds``.

    Raises:
        InputError: a row that is not there, one row twice, or no task that both have.
    """
    store, progress = Store(results), Progress()
    everything = list(store.records())
    rows = _named(everything, (first, second), tasks, results)
    of_rows = [r for r in everything if r.row in rows and r.status == "ok"]
    for r in [r for r in of_rows if not store.has_predictions(r)]:
        place = f"{r.row} on {'+'.join(r.cell.tasks)}, seed {r.cell.seed} ({r.key[:12]})"
        progress.say(f"left out: {place}: its answers are not stored; run it again with --rerun")
        of_rows.remove(r)
    met = [r for r in of_rows if (not tasks or r.cell.tasks[0] in tasks) and (not seeds or r.cell.seed in seeds)]
    kept, left = newest_of(met, lambda r: (r.row, _question(r)))
    for text in (*left_out_lines(left), *stale_lines(kept), *unknown_lines(kept)):
        progress.say(text)
    found: list[dict[tuple, list[Record]]] = [{}, {}]
    for row, questions in zip(rows, found, strict=True):
        for record in sorted((r for r in kept if r.row == row), key=lambda r: r.cell.seed):
            questions.setdefault(_question(record), []).append(record)
        if not questions:
            has: dict[str, list[int]] = {}
            for task, seed in sorted({(r.cell.tasks[0], r.cell.seed) for r in of_rows if r.row == row}):
                has.setdefault(task, []).append(seed)
            there = "; ".join(f"{task}, seed {' '.join(map(str, seeds))}" for task, seeds in has.items()) or "none"
            raise InputError(
                f"no finished record of the row {row!r} in {results} on these tasks and seeds; it has: {there}"
            )
    shared = sorted(found[0].keys() & found[1].keys(), key=str)
    if not shared:
        raise InputError(
            f"{rows[0]} and {rows[1]} have no task, data and teacher in common; compare rows of one report"
        )
    return _by_source(store, [(found[0][key], found[1][key]) for key in shared], exact, progress)


def _by_source(
    store: Store, questions: Sequence[Sides], exact: bool, progress: Progress
) -> dict[str, list[Comparison]]:
    """Data source -> the comparisons with Holm's adjustment, and their mean, which is one test, where there are several."""
    names = _source_names([first[0].cell for first, _ in questions])
    lines: dict[str, dict[int | None, list[tuple[Cell, Comparison, np.ndarray]]]] = {}
    with progress.task("resampling") as update:
        for number, (sides, source) in enumerate(zip(questions, names, strict=True), start=1):
            cell, scores = sides[0][0].cell, sides[0][0].scores
            for evaluation, metrics in scores.items():
                line, drawn = compare_records(store, sides, evaluation, next(iter(metrics)), exact)
                lines.setdefault(source, {}).setdefault(cell.data.max_train_rows, []).append((cell, line, drawn))
            update(number, len(questions))
    answer = {}
    for source, of_limit in lines.items():
        # with the tasks that have no more rows than the limit, as reports have them; what a larger answer holds is none of its own
        whole, tables = of_limit.get(None, []), dict(of_limit)
        for most in [limit for limit in of_limit if limit is not None]:
            tasks = {cell.tasks for cell, _, _ in of_limit[most]}
            small = [x for x in whole if x[0].data.rows["train"] <= most and x[0].tasks not in tasks]
            tables[most] = sorted([*of_limit[most], *small], key=lambda x: (x[0].tasks, x[1].task))
        held = {limit: {id(x) for x in table} for limit, table in tables.items()}
        for limit, table in tables.items():
            if not any(held[limit] < other for other in held.values()):
                means = [of_mean([line for _, line, _ in table], [drawn for _, _, drawn in table])] * (len(table) > 1)
                title = source + (f", at most {limit:,} training examples" if limit else "")
                answer[title] = [*adjusted([line for _, line, _ in table]), *means]
    return dict(sorted(answer.items(), key=lambda item: item[0].startswith(SUITE)))  # generated sentences last


def _named(
    everything: Sequence[Record], typed: tuple[str, str], tasks: Sequence[str], results: Path
) -> tuple[str, str]:
    """The labels of two rows that were typed as labels or as tables print them.

    Raises:
        InputError: a row or a task that is not there, or one row twice.
    """
    labels = {r.row for r in everything}
    printed = {r.called: r.row for r in everything if r.called not in labels}
    first, second = (printed.get(name) or known_row(name, labels, results) for name in typed)
    check_known(tasks, {task for r in everything for task in r.cell.tasks}, results)
    if first == second:
        raise InputError(f"compare needs two different rows; both are {first!r}")
    return first, second


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
    return compared(data, sides, title, exact)


def table(first: str, second: str, lines: Sequence[Comparison]) -> str:
    """Markdown."""
    rows = [
        [
            line.task,
            line.metric,
            f"{line.examples:,}",
            # the first's, and after a stroke the second's where they are others
            " / ".join(dict.fromkeys(", ".join(map(str, s)) for s in (line.seeds, line.second_seeds)))
            or "each its own",
            f"{line.first:.1f}",
            f"{line.second:.1f}",
            f"{line.difference:+.1f}",
            f"{line.low:+.1f} to {line.high:+.1f}",
            "–" if line.least is None else f"{line.least:.1f}",
            f"{p_in_words(line.p)} ({line.test})",
            p_in_words(line.adjusted),
            str(line.family),
            NOT_SIGNIFICANT if line.verdict == UNCLEAR else line.verdict,
        ]
        for line in lines
    ]
    called = next((line.names for line in lines), (first, second))
    header = ["task", "metric", "examples", "seeds", *called, "difference", "95 % interval"]
    header += ["min. detectable", "p", "p, Holm", "tests", "verdict"]
    return github(rows, header, "right")
