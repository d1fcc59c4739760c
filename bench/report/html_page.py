"""The HTML page of a report: the same tables as its Markdown, and the numbers behind its pictures, in one file that asks no network.

The same records give the same bytes. Every text of a record or of data is escaped: by the template engine in the page, and
by the JSON filter in its data, which the script only ever sets as text.
"""

from __future__ import annotations

import base64
import hashlib
import shlex
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.record.cell import TEACHER
from bench.report.comparison import BETTER, WORSE, MeanOfColumns
from bench.report.document import Section
from bench.report.escape import flat
from bench.report.file_names import table_names
from bench.report.groups import ReportGroup
from bench.report.pictures import flops_of, latencies_of, plotted_differences, points
from bench.report.table import Footnotes, TableCell
from bench.report.tables.differences import SYSTEMS, reference_of, systems_of
from bench.report.tables.parts import ReportData
from bench.report.tables.registry import COST, PAIRED, RESULTS, SUMMARY
from bench.stats.multiple import holm

if TYPE_CHECKING:
    from jinja2 import Environment

HERE = Path(__file__).parent / "page"
CURVE_POINTS = 60
"""Values of a term that a curve shows at most: each the mean of its part of the training."""
DIGITS = 4
"""Decimals of the numbers in the page's data."""


def html_page(data: ReportData, sections: Sequence[Section]) -> bytes:
    """The page of a group with these sections; the template writes them."""
    group = data.group
    stems = table_names([table.file or table.title for table in data.tables])

    # what a reader sees of a cell on a closer look: the template adds an entry for each cell that has more than its text
    details: list[dict[str, Any]] = []

    def detail(cell: TableCell) -> int | None:
        """Add the entry of a cell; returns its index, or None where the cell has only its text."""
        if cell.value is None and not cell.keys:
            return None
        facts = {"value": cell.value, "low": cell.low, "high": cell.high, "sd": cell.deviation, "n": cell.n}
        details.append({name: _rounded(value) for name, value in facts.items() if value is not None})
        if cell.keys:
            details[-1]["keys"] = list(cell.keys)
        return len(details) - 1

    style, script = (HERE / "page.css").read_text(encoding="utf-8"), (HERE / "page.js").read_text(encoding="utf-8")
    text = _environment().get_template("page.html")
    return text.render(
        title=group.title,
        sections=[section for section in sections if any(section[1:])],
        titles={"summary": SUMMARY, "results": RESULTS, "paired": PAIRED, "cost": COST},
        name_of={table.title: stem for table, stem in zip(data.tables, stems, strict=True)},
        methods=sorted({record.cell.method for record in group.records}),
        columns=[column.title for column in group.printed_columns],
        notes=Footnotes(),
        detail=detail,
        numbers=lambda: numbers_of(data, details),
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
    ).encode()


def _hash(text: str) -> str:
    """How a page's policy names a style or script that it allows."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@cache
def _environment() -> Environment:
    """The template engine: it escapes everything, and a name that is missing is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    engine = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    engine.filters["flat"] = lambda text: flat(text).replace("**", "").replace("`", "")
    engine.policies["json.dumps_kwargs"] = {"sort_keys": False, "separators": (",", ":"), "ensure_ascii": False}
    return engine


def _rounded(value: float | None) -> float | None:
    return value if value is None or isinstance(value, int) else round(value, DIGITS)


def _interval(number: TableCell | MeanOfColumns) -> dict[str, float | None]:
    return {"value": _rounded(number.value), "low": _rounded(number.low), "high": _rounded(number.high)}


def numbers_of(data: ReportData, details: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the page's pictures and closer looks are made of, as JSON has it."""
    group = data.group
    shown = {key for detail in details for key in detail.get("keys", ())}
    costs = {"FLOPs (G)": flops_of(data), "latency (ms)": latencies_of(data)}
    return {
        "teacher": TEACHER,
        "reference": group.called(reference_of(group)),
        "majority": _rounded(group.majority),
        "columns": [column.title for column in group.printed_columns],
        "rows": {
            label: {
                "name": group.called(label),
                "method": group.of(label)[0].cell.method,
                "complete": label in data.means,
            }
            for label in group.systems
        },
        "details": details,
        "records": {
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
            if record.key in shown
        },
        "results": shlex.quote(group.results),
        "forest": _forest(data),
        "scatter": {
            title: [
                {
                    "row": point.label,
                    "cost": float(f"{point.cost:.6g}"),
                    **_interval(point.mean),
                    "beaten": point.is_beaten,
                }
                for point in points(data, of_rows)
            ]
            for title, of_rows in costs.items()
        },
        "pairs": _pairs(data),
        "curves": _curves(group),
    }


def _forest(data: ReportData) -> list[dict[str, Any]]:
    """The choices of the forest plot: the mean, and each column."""
    group, count, choices = data.group, len(data.group.columns), []

    def choice(title: str, cells: Mapping[str, TableCell], majority: float | None) -> None:
        lines = [
            {
                "row": label,
                **_interval(cell),
                "significant": cell.verdict in (BETTER, WORSE),
            }
            for label, cell in cells.items()
        ]
        if lines:
            choices.append({"title": title, "majority": _rounded(majority), "lines": lines})

    baseline, majority = data.means.get(reference_of(group)), group.majority
    below = majority - baseline.value if majority is not None and baseline else None
    choice(f"mean of {count} columns" if count > 1 else "mean", plotted_differences(data), below)
    lines = next((table.lines for table in data.tables if table.file == SYSTEMS), ())
    for place, column in enumerate(group.columns, start=1):
        own, best = list(group.values(reference_of(group), column).values()), group.baselines.get(column)
        below = best - sum(own) / len(own) if own and best is not None else None
        choice(column.title, {x.label: x.cells[place] for x in lines if x.cells[place].low is not None}, below)
    return choices


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
        pair = data.pairs.get((first, second))
        if pair is None:
            return None
        return [*map(_rounded, (pair.value, pair.low, pair.high, p_of[frozenset((first, second))]))]

    return {"rows": order, "cells": [[cell(first, second) for second in order] for first in order]}


def _curves(group: ReportGroup) -> dict[str, Any]:
    """The learning curves on the task that most full rows have: of the first record of each training, methods as they are before
    rows with changed settings. Each curve has a bounded number of values: the means of equal parts.
    """
    trained = [r for r in group.records if r.terms and r.cell.ablation_of is None and r.cell.method != TEACHER]
    rows_of = {task: {r.row for r in trained if task in r.cell.tasks} for task in group.tasks if trained}
    task = max(rows_of, key=lambda name: len(rows_of[name]), default="")
    labels = sorted((s for s in group.systems if s in rows_of.get(task, ())), key=lambda label: ":" in label)
    first = {label: next(r for r in group.of(label, task) if r.terms) for label in labels}
    once = {record.train_key: label for label, record in reversed(first.items())}  # operating points share a training

    def thinned(values: Sequence[float]) -> list[float]:
        count = min(len(values), CURVE_POINTS)
        bounds = [round(i * len(values) / count) for i in range(count + 1)] if count else []
        return [float(f"{sum(values[a:b]) / (b - a):.4g}") for a, b in pairwise(bounds)]

    rows = [
        {
            "row": label,
            "seed": record.cell.seed,
            "stages": [
                {"name": stage, "terms": {name: thinned(values) for name, values in terms.items()}}
                for stage, terms in record.terms.items()
            ],
        }
        for label, record in first.items()
        if label in once.values()
    ]
    return {"task": task, "rows": rows}
