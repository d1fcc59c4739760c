"""Where the numbers come from: the numbers rows were trained with, and the records behind every
cell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench.record.cell import FINISHED, TEACHER, TOO_FEW, Cell, Search, split_row
from bench.record.recipe import ADAMW, PAPER
from bench.record.schema import Record
from bench.record.stated import stated
from bench.report.reproduce import verifying
from bench.report.study import Study
from bench.report.table import CHOSEN, DASH, TEXT, Column, Line, Table, TableCell
from bench.report.tables.parts import SEARCHES, keys_of, line_of


def was_trained(record: Record) -> bool:
    """Whether the harness trained this row: no finished model, and no teacher that was given as it
    is."""
    cell = record.cell
    return cell.method not in FINISHED and (
        cell.method != TEACHER or cell.teacher.origin == "fine-tuned"
    )


def peak_rate(cell: Cell) -> str:
    """The highest learning rate of a training's schedule, after its row's own factor: ``3e-4``."""
    factor = stated(cell.method, "rate_factor") or 1.0
    if isinstance(factor, str):  # the name of a setting
        factor = cell.settings.get(factor, stated(cell.method, factor))
    digits, _, power = f"{cell.recipe['learning_rate'] * factor:.3e}".partition("e")
    return f"{digits.rstrip('0').rstrip('.')}e{int(power)}"


def _batch_size(recipe: Mapping[str, Any]) -> str:
    parts = recipe.get("micro_batch", 0)
    return str(recipe["batch_size"]) + (f" (in parts of at most {parts})" if parts else "")


def _share(name: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda recipe: f"{recipe[name]:g}" if name in recipe else DASH


NUMBERS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "epochs": _share("epochs"),
    "batch size": _batch_size,
    "longest input (tokens)": lambda recipe: str(recipe["max_length"]),
    "schedule": lambda recipe: str(recipe.get("schedule", DASH)),
    "warm-up (share of steps)": _share("warmup"),
    "weight decay": _share("weight_decay"),
    "largest gradient norm": _share("clip"),
    "optimizer": lambda recipe: str(recipe.get("optimizer", ADAMW)),
}
"""Title of a column -> its text, from a recipe as a record has it."""


def hyper_parameters(study: Study) -> Table | None:
    """The numbers of a report's trainings: one line for each set of them. Students trained by their
    papers' recipes are left out: each of their stages has its own numbers.
    """
    rows_of: dict[tuple[str, ...], dict[str, str]] = {}
    for label in study.rows:
        for record in study.records_of(label):
            cell = record.cell
            has_stages = cell.method != TEACHER and cell.recipe["name"] == PAPER
            if was_trained(record) and not has_stages:
                numbers = (peak_rate(cell), *(text(cell.recipe) for text in NUMBERS.values()))
                rows_of.setdefault(numbers, {})[label] = study.called(label)
    if not rows_of:
        return None
    lines = []
    for numbers, rows in sorted(rows_of.items(), key=lambda item: item[0]):
        named = TableCell(", ".join(rows.values()), plain=", ".join(rows))
        lines.append(Line(numbers[0], [*map(TableCell, numbers[1:]), named], row=""))
    columns = [Column(title, csv=TEXT) for title in ("Learning rate", *NUMBERS)]
    columns.append(Column("rows", words=True))
    note = (
        "The learning rate is the highest of its schedule, after the row's own factor. Seeds and "
        "data are in the records."
    )
    return Table("Hyper-parameters", columns, lines, (note,))


def searches(study: Study) -> Table | None:
    """What searches chose for each row on each task, with its score on the held-out training
    examples, and the range of all trials."""
    tasks = list(dict.fromkeys(column.task for column in study.columns))
    lines = []
    for label in study.rows:
        by_task: dict[str, list[Search]] = {}
        for record in study.records_of(label):
            search = record.cell.search
            if search is None:
                continue
            found = by_task.setdefault(record.cell.tasks[0], [])
            if search not in found:
                found.append(search)
        if by_task:
            cells = [_chosen(by_task.get(task, [])) for task in tasks]
            lines.append(line_of(study, label, cells))
    columns = [Column("System")]
    columns += [Column(study.shown(task), words=True, csv=CHOSEN) for task in tasks]
    notes = (IN_BRACKETS, *_warnings_of_searches(study))
    return Table(SEARCHES, columns, lines, notes, file="searches")


IN_BRACKETS = (
    "In brackets: the score of the choice on held-out training examples, in percent, and the range "
    "of all trials that did not fail."
)


def _warnings_of_searches(study: Study) -> list[str]:
    """A sentence for each task on which a search had too few examples to decide."""
    examples_of: dict[str, int | None] = {}
    for label in study.systems:
        for record in study.records_of(label):
            search = record.cell.search
            if search is not None and search.too_few:
                examples_of[record.cell.tasks[0]] = search.examples
    return [
        f"{study.shown(task)}: {examples} examples, {TOO_FEW}."
        for task, examples in examples_of.items()
    ]


def _chosen(of_seeds: Sequence[Search]) -> TableCell:
    """``pace=0.5 (80.3; 65.1 to 80.3)``: what the best trial has set besides the row, and the
    scores; a dash without a search.

    A CSV file has the choice, the best score, the lowest one and how many trials have a score, each
    by itself.

    Args:
        of_seeds: one search for all seeds, or one for each: then their choices stand beside each
            other.
    """
    if not of_seeds:
        return TableCell(DASH)
    scores: list[float] = []
    choices: list[str] = []
    for search in of_seeds:
        scores += [trial.score for trial in search.trials if trial.score is not None]
        before = split_row(search.of)[1]
        chosen = [part for part in split_row(search.best.row)[1] if part not in before]
        choices.append(", ".join(chosen) or "as it is")
    choice = " / ".join(choices)
    low = min(scores)
    high = max(scores)
    text = f"{choice} ({high:.1f}; {low:.1f} to {high:.1f})"
    return TableCell(text, low=low, high=high, n=len(scores), plain=choice)


def record_keys(study: Study) -> Table | None:
    """The records behind every cell: the beginning of each one's key, in the order of seeds."""
    lines = []
    for label in study.rows:
        cells = []
        for column in study.columns:
            keys = keys_of(study.finished(label, column))
            cells.append(TableCell(", ".join(key[:8] for key in keys) or DASH, keys=keys))
        lines.append(line_of(study, label, cells))
    if not lines:
        return None
    command = f"python -m bench show KEY --results {study.results}"
    trace = f"python -m bench show --trace NUMBER --results {study.results}"
    note = (
        f"One key for each seed. `{command}` prints a record, `{trace}` finds a number's records, "
        f"`{verifying(study)}` trains the cell of a record again and says how close the results "
        "are."
    )
    columns = [Column("System"), *(Column(c.title, csv=TEXT) for c in study.columns)]
    return Table("Records of each number", columns, lines, (note,), file="records", folded=True)
