"""The HTML page of a report: the same tables as its Markdown, and the numbers behind its pictures, in one file that asks no network.

The same records give the same bytes. Every text of a record or of data is escaped: by the template engine in the page, and
by the JSON filter in its data, which the script only ever sets as text.
"""

from __future__ import annotations

import base64
import hashlib
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.record.cell import TEACHER
from bench.report.comparison import BETTER, NOT_SIGNIFICANT, UNCLEAR, WORSE, MeanOfColumns, p_in_words
from bench.report.document import Section
from bench.report.escape import flat
from bench.report.file_names import table_names
from bench.report.pictures import flops_of, looks, plotted_differences, points, systems_in
from bench.report.render import Paper, to_csv, to_latex
from bench.report.reproduce import commands
from bench.report.sources import facts
from bench.report.table import Footnotes, Table, TableCell
from bench.report.tables.differences import MEAN_OF, SYSTEMS, reference_of, systems_of
from bench.report.tables.leaderboard import LEADERBOARD, SYMBOLS
from bench.report.tables.parts import ReportData
from bench.report.tables.registry import COST, PAIRED, RESULTS, SUMMARY

if TYPE_CHECKING:
    from jinja2 import Environment

HERE = Path(__file__).parent / "page"
DIGITS = 4
"""Decimals of the numbers in the page's data."""


def html_page(data: ReportData, sections: Sequence[Section], paper: Paper) -> bytes:
    """The page of a group with these sections; the template writes them.

    Args:
        paper: what its tables need as LaTeX.
    """
    group = data.group
    stems = table_names([table.file or table.title for table in data.tables])
    name_of = {table.title: stem for table, stem in zip(data.tables, stems, strict=True)}

    # what a reader sees of a cell on a closer look: the template adds an entry for each cell that has more than its text
    details: list[dict[str, Any]] = []

    def detail(cell: TableCell) -> int | None:
        """Add the entry of a cell; returns its index, or None where the cell has only its text."""
        if cell.value is None and not cell.keys:
            return None
        facts = {
            "value": cell.value,
            "low": cell.low,
            "high": cell.high,
            "sd": cell.deviation,
            "n": cell.n,
            "p": cell.p,
        }
        details.append({name: _rounded(value) for name, value in facts.items() if value is not None})
        if cell.keys:
            details[-1]["keys"] = list(cell.keys)
        return len(details) - 1

    files = {
        name_of[table.title]: (
            to_csv(table),
            "" if table.folded else to_latex(table, table.title, paper, f"tab:{paper.name}-{name_of[table.title]}"),
        )
        for table in data.tables
    }
    style, script = (HERE / "page.css").read_text(encoding="utf-8"), (HERE / "page.js").read_text(encoding="utf-8")
    text = _environment().get_template("page.html")
    typed = commands(group)
    return text.render(
        title=group.heading,
        facts=facts(group),
        command=typed[0] if typed else "",
        further=len(typed) - 1,
        sections=[section for section in sections if any(section[1:])],
        titles={"summary": SUMMARY, "results": RESULTS, "paired": PAIRED, "cost": COST},
        name_of=name_of,
        methods=sorted({record.cell.method for record in group.records}),
        columns=[column.title for column in group.printed_columns],
        notes=Footnotes(),
        detail=detail,
        order=_mean_first,
        split=_split,
        bar=_bars(data),
        image=lambda svg: f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}",
        width=lambda svg: round(1.8 * float(re.findall(rb'width="([\d.]+)pt"', svg)[0])),
        interactive={"differences": "forest", "score-flops": "scatter"},
        numbers=lambda: numbers_of(data, details, files),
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
    ).encode()


def _mean_first(table: Table) -> list[int]:
    """The order of the columns in the page: a mean stands before what it is the mean of, where no screen cuts it off."""
    if table.file == LEADERBOARD:
        return list(range(len(table.columns)))
    first = 1 + sum(column.words for column in table.columns[1:2])
    means = [i for i, column in enumerate(table.columns) if i >= first and column.title.startswith(MEAN_OF)]
    return [*range(first), *means, *(i for i in range(first, len(table.columns)) if i not in means)]


def _split(cell: TableCell) -> tuple[str, str, str]:
    """What is printed of a cell: large, small, and on a closer look. Of a tested difference the verdict is a sign."""
    large, bracket, small = flat(cell.text).partition(" (") if cell.low is not None else (cell.text, "", "")
    if cell.p is None or cell.value is None or cell.low is None or cell.high is None:
        return large, bracket.strip() + small, ""
    verdict = NOT_SIGNIFICANT if cell.verdict == UNCLEAR else cell.verdict
    said = f"{verdict}: p = {p_in_words(cell.p)}".replace("= <", "<")
    said += f" after Holm's adjustment ({p_in_words(cell.alone)} before)" if cell.alone not in (None, cell.p) else ""
    return f"{cell.value:+.1f} {SYMBOLS[cell.verdict]}", f"({cell.low:+.1f} to {cell.high:+.1f})", said


BAR = 120
"""Pixels of the widest bar of a leaderboard."""


def _bars(data: ReportData) -> Callable[[Table, int, TableCell], dict[str, float] | None]:
    """Where the interval of a mean is drawn in the leaderboard: the ends, the mean, and the mean of the baseline."""
    # suspect answers do not set the scale: a bar may be cut off
    means = [mean for row, mean in data.means.items() if mean.low is not None and not data.group.is_suspect(row)]
    least, most = min((m.low or 0.0 for m in means), default=0.0), max((m.high or 0.0 for m in means), default=0.0)
    baseline = data.means.get(reference_of(data.group))

    def bar(table: Table, column: int, cell: TableCell) -> dict[str, float] | None:
        if table.file != LEADERBOARD or column != 2 or most <= least:
            return None
        if cell.low is None:
            return {}
        ends = {
            "low": cell.low,
            "value": cell.value,
            "high": cell.high,
            "baseline": baseline.value if baseline else None,
        }
        return {k: round(4 + (BAR - 8) * (v - least) / (most - least), 1) for k, v in ends.items() if v is not None}

    return bar


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


def numbers_of(
    data: ReportData, details: Sequence[Mapping[str, Any]], files: Mapping[str, tuple[str, str]]
) -> dict[str, Any]:
    """What the page's pictures, closer looks and copies are made of, as JSON has it."""
    group = data.group
    shown = {key for detail in details for key in detail.get("keys", ())}
    costs = {"FLOPs (G)": flops_of(data), "latency (ms)": data.group.latencies}
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
                "look": looks(group)[label],
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
                if point.label in systems_in(data)
            ]
            for title, of_rows in costs.items()
        },
        "pairs": _pairs(data),
        "files": files,
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
    for place, column in enumerate(group.columns, start=2):
        own, best = list(group.values(reference_of(group), column).values()), group.baselines.get(column)
        below = best - sum(own) / len(own) if own and best is not None else None
        choice(column.title, {x.label: x.cells[place] for x in lines if x.cells[place].low is not None}, below)
    return choices


def _pairs(data: ReportData) -> dict[str, Any]:
    """The matrix of mean differences between complete systems, the best first, each pair one test.

    Variants of a row are left out. Nothing for one column, whose table has its own test.
    """
    means, systems = data.means, {TEACHER, reference_of(data.group), *systems_of(data.group)}
    order = sorted((label for label in means if label in systems), key=lambda label: -means[label].value)
    pairs = [pair for pair in combinations(order, 2) if pair in data.pairs]
    if len(data.group.columns) < 2 or not pairs:
        return {"rows": [], "cells": []}

    def cell(first: str, second: str) -> list[float | None] | None:
        pair = data.pairs.get((first, second))
        if pair is None:
            return None
        return [*map(_rounded, (pair.value, pair.low, pair.high, pair.p))]

    return {"rows": order, "cells": [[cell(first, second) for second in order] for first in order]}
