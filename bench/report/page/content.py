"""What the HTML page of a report shows: the same frames as its Markdown, and the numbers behind its pictures. No torch, no clock."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

from bench.record.cell import TEACHER
from bench.report.escape import flat
from bench.report.file_names import table_names
from bench.report.frame import Footnotes, Frame, TableCell, number_all
from bench.report.groups import ReportGroup
from bench.report.plot.forest import differences
from bench.report.plot.learning_curves import curves_of
from bench.report.plot.scatter import flops_of, latencies_of, points
from bench.report.render import aligned
from bench.report.tables.paired_comparisons import SYSTEMS, reference_of, systems_of
from bench.report.tables.registry import ReportData
from bench.stats.multiple import holm

CURVE_POINTS = 60
"""Values of a term that a curve shows at most: each the mean of its part of the training."""
DIGITS = 4
"""Decimals of the numbers in the page's data."""


@dataclass(frozen=True)
class PageCell:
    """One cell as the page prints it."""

    text: str
    marks: Sequence[int]
    """numbers of its footnotes"""
    value: float | None
    bold: bool
    verdict: str
    detail: int | None
    """index of its entry in :attr:`Details.all`"""


@dataclass(frozen=True)
class TableLine:
    """One line: the row that it is of ("" for none), its cells (the first is the name), and whether it stays below the line
    before it.
    """

    row: str
    cells: Sequence[PageCell]
    continues: bool


@dataclass(frozen=True)
class PageTable:
    """One table of the page."""

    name: str
    title: str
    columns: Sequence[tuple[str, str]]
    """title and side, ``left`` or ``right``"""
    lines: Sequence[TableLine]
    notes: Sequence[str]
    footnotes: Sequence[tuple[int, str]]
    """those that are printed first here"""
    section: str
    is_folded: bool


class Details:
    """What a reader sees of a cell on a closer look.

    Attributes:
        all: an entry for each cell that has more than its text; the cell keeps the index of its entry.
        keys: of the records of these cells, each once.
    """

    def __init__(self) -> None:
        self.all: list[dict[str, Any]] = []
        self.keys: dict[str, None] = {}

    def of(self, cell: TableCell) -> int | None:
        """Add the entry of a cell; returns its index, or None where the cell has only its text."""
        if cell.value is None and not cell.keys:
            return None
        found = {"value": cell.value, "low": cell.low, "high": cell.high, "sd": cell.deviation, "n": cell.n}
        self.keys |= dict.fromkeys(cell.keys)
        self.all.append({name: _rounded(value) for name, value in found.items() if value is not None})
        if cell.keys:
            self.all[-1]["keys"] = list(cell.keys)
        return len(self.all) - 1


def tables_of(frames: Sequence[Frame], details: Details) -> list[PageTable]:
    """The frames of a report, with footnotes numbered as in its Markdown."""
    notes = Footnotes()
    names = table_names([frame.file or frame.title for frame in frames])
    return [_table(frame, name, notes, details) for frame, name in zip(frames, names, strict=True)]


def _table(frame: Frame, name: str, notes: Footnotes, details: Details) -> PageTable:
    before = len(notes.texts)
    number_all(frame, notes)
    lines = [
        TableLine(
            line.label if line.row is None else line.row,
            [_cell(cell, notes, details) for cell in (line.head, *line.cells)],
            line.continues,
        )
        for line in frame.printed_lines
    ]
    return PageTable(
        name=name,
        title=frame.title,
        columns=list(zip(frame.header, aligned(frame), strict=True)),
        lines=lines,
        notes=[flat(note) for note in frame.notes],
        footnotes=[(number, flat(text)) for number, text in enumerate(notes.texts[before:], start=before + 1)],
        section=frame.section,
        is_folded=frame.folded,
    )


def _cell(cell: TableCell, notes: Footnotes, details: Details) -> PageCell:
    numbers = [notes.number(note) for note in cell.footnotes]
    return PageCell(flat(cell.text), numbers, cell.value, cell.bold, cell.verdict, details.of(cell))


def numbers_of(data: ReportData, details: Details) -> dict[str, Any]:
    """What the page's pictures and closer looks are made of, as JSON has it."""
    group = data.group
    return {
        "teacher": TEACHER,
        "reference": group.called(reference_of(group)),
        "majority": _rounded(data.group.majority),
        "columns": [column.title for column in group.columns],
        "rows": _rows(data),
        "details": details.all,
        "records": _records(group, details.keys),
        "results": shlex.quote(group.results),
        "forest": _forest(data),
        "scatter": {"FLOPs (G)": _points(data, flops_of(data)), "latency (ms)": _points(data, latencies_of(data))},
        "pairs": _pairs(data),
        "curves": _curves(group),
    }


def _rounded(value: float | None) -> float | None:
    return value if value is None or isinstance(value, int) else round(value, DIGITS)


def _rows(data: ReportData) -> dict[str, dict[str, Any]]:
    """Row -> its printed name, its method, and whether it has all columns."""
    group = data.group
    return {
        label: {
            "name": group.called(label),
            "method": group.of(label)[0].cell.method,
            "complete": label in data.means,
        }
        for label in group.systems
    }


def _records(group: ReportGroup, keys: Mapping[str, None]) -> dict[str, dict[str, Any]]:
    """Key -> what a closer look shows of a record."""
    return {
        record.key: {
            "row": record.called,
            "tasks": list(record.cell.tasks),
            "seed": record.cell.seed,
            "scores": {
                name: {metric: _rounded(100 * score) for metric, score in scores.items()}
                for name, scores in record.scores.items()
            },
        }
        for record in group.records
        if record.key in keys
    }


def _forest(data: ReportData) -> list[dict[str, Any]]:
    """The choices of the forest plot: the mean, and each column."""
    group = data.group
    found = [
        {"row": label, "value": one.value, "low": one.low, "high": one.high, "significant": one.is_significant}
        for label, one in differences(data).items()
    ]
    baseline = data.means.get(reference_of(group))
    majority = data.group.majority - baseline.value if data.group.majority is not None and baseline else None
    count = len(group.columns)
    title = f"mean of {count} columns" if count > 1 else "mean"
    choices: list[dict[str, Any]] = []
    if found:
        choices.append({"title": title, "majority": _rounded(majority), "lines": found})
    table = next((table for table in data.tables if table.file == SYSTEMS), None)
    for place, column in enumerate(group.columns, start=1):
        lines = [
            {
                "row": line.label,
                "value": line.cells[place].value,
                "low": line.cells[place].low,
                "high": line.cells[place].high,
                "significant": line.cells[place].verdict in ("better", "worse"),
            }
            for line in (table.lines if table is not None else ())
            if line.cells[place].low is not None
        ]
        own = list(group.values(reference_of(group), column).values())
        best = group.baselines.get(column)
        line_of_majority = best - sum(own) / len(own) if own and best is not None else None
        if lines:
            choices.append({"title": column.title, "majority": _rounded(line_of_majority), "lines": lines})
    return [choice | {"lines": [_numbers(line) for line in choice["lines"]]} for choice in choices]


def _numbers(line: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _rounded(value) if isinstance(value, float) else value for name, value in line.items()}


def _points(data: ReportData, costs: Mapping[str, float]) -> list[dict[str, Any]]:
    return [
        {
            "row": point.label,
            "cost": float(f"{point.cost:.6g}"),
            "value": _rounded(point.mean.value),
            "low": _rounded(point.mean.low),
            "high": _rounded(point.mean.high),
            "beaten": point.is_beaten,
        }
        for point in points(data, costs)
    ]


def _pairs(data: ReportData) -> dict[str, Any]:
    """The matrix of mean differences between complete systems, the best first, with Holm's adjustment over its pairs.

    Variants of a row are left out: so many pairs would need a smaller p than resampling can give. Nothing for one column, whose
    table has its own test.
    """
    means, systems = data.means, {TEACHER, reference_of(data.group), *systems_of(data.group)}
    order = sorted((label for label in means if label in systems), key=lambda label: -means[label].value)
    pairs = [pair for pair in combinations(order, 2) if pair in data.pairs]
    if len(data.group.columns) < 2 or not pairs:
        return {"rows": [], "cells": []}
    adjusted = holm([data.pairs[pair].p or 0.0 for pair in pairs])
    p_of = {frozenset(pair): p for pair, p in zip(pairs, adjusted, strict=True)}

    def cell(first: str, second: str) -> list[float | None] | None:
        one = data.pairs.get((first, second))
        if one is None:
            return None
        return [*map(_rounded, (one.value, one.low, one.high, p_of[frozenset((first, second))]))]

    return {"rows": order, "cells": [[cell(first, second) for second in order] for first in order]}


def _curves(group: ReportGroup) -> dict[str, Any]:
    task, found = curves_of(group)
    rows = [
        {
            "row": label,
            "seed": record.cell.seed,
            "stages": [
                {"name": stage, "terms": {name: _thinned(values) for name, values in terms.items()}}
                for stage, terms in record.terms.items()
            ],
        }
        for label, record in found.items()
    ]
    return {"task": task, "rows": rows}


def _thinned(values: Sequence[float]) -> list[float]:
    """At most so many values: the means of equal parts."""
    if len(values) <= CURVE_POINTS:
        return [float(f"{value:.4g}") for value in values]
    bounds = [round(i * len(values) / CURVE_POINTS) for i in range(CURVE_POINTS + 1)]
    parts = [values[a:b] for a, b in pairwise(bounds)]
    return [float(f"{sum(part) / len(part):.4g}") for part in parts]
