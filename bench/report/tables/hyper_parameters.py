"""The numbers that rows were trained with: one line for each set of them, with the rows that have it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from bench.record.cell import TEACHER
from bench.record.recipe import ADAMW, PAPER
from bench.record.schema import Record
from bench.report import frame
from bench.report.frame import Frame, FrameLine, TableCell
from bench.report.groups import ReportGroup
from bench.report.learning_rates import peak_rate, was_trained, written
from bench.report.tables.registry import ENVIRONMENT, ReportData, table

NUMBERS: tuple[tuple[str, Callable[[Mapping[str, Any]], str]], ...] = (
    ("epochs", lambda recipe: f"{recipe['epochs']:g}"),
    ("batch size", lambda recipe: _batch_size(recipe)),
    ("longest input (tokens)", lambda recipe: str(recipe["max_length"])),
    ("schedule", lambda recipe: str(recipe.get("schedule", "–"))),
    ("warm-up (share of steps)", lambda recipe: f"{recipe['warmup']:g}" if "warmup" in recipe else "–"),
    ("weight decay", lambda recipe: f"{recipe['weight_decay']:g}" if "weight_decay" in recipe else "–"),
    ("largest gradient norm", lambda recipe: f"{recipe['clip']:g}" if "clip" in recipe else "–"),
    ("optimizer", lambda recipe: str(recipe.get("optimizer", ADAMW))),
)
"""Title of a column -> its text, from a recipe as a record has it."""


def _batch_size(recipe: Mapping[str, Any]) -> str:
    parts = recipe.get("micro_batch", 0)
    return str(recipe["batch_size"]) + (f" (in parts of at most {parts})" if parts else "")


@table(ENVIRONMENT, place=85)
def _frames(data: ReportData) -> Iterable[Frame | None]:
    return [hyper_parameters(data.group)]


def hyper_parameters(group: ReportGroup) -> Frame | None:
    """The sets of numbers of a report's trainings. Students trained by their papers' recipes are left out: each of their stages
    has its own numbers.
    """
    rows_of: dict[tuple[str, ...], list[str]] = {}
    for label in group.systems:
        for record in group.of(label):
            if was_trained(record) and not _by_its_paper(record):
                rows = rows_of.setdefault(_numbers(record), [])
                rows += [label] if label not in rows else []
    if not rows_of:
        return None
    lines = [
        FrameLine(
            rate,
            (*map(TableCell, numbers), TableCell(", ".join(map(group.called, rows)), plain=", ".join(rows))),
            row="",
        )
        for (rate, *numbers), rows in sorted(rows_of.items())
    ]
    columns = map(frame.TableColumn, ("Learning rate", *(title for title, _ in NUMBERS)))
    note = "The learning rate is the highest of its schedule, after the row's own factor. Seeds and data are in the records."
    return Frame("Hyper-parameters", (*columns, frame.TableColumn("rows", words=True)), tuple(lines), (note,))


def _by_its_paper(record: Record) -> bool:
    return record.cell.method != TEACHER and record.cell.recipe["name"] == PAPER


def _numbers(record: Record) -> tuple[str, ...]:
    cell = record.cell
    return written(peak_rate(cell)), *(text(cell.recipe) for _, text in NUMBERS)
