"""The HTML page of a report: the tables and pictures of its Markdown, in one file without network.

The same records give the same bytes. Every text of a record or of data is escaped: by the template
engine in the page, and by the JSON filter in its data, which the script only ever sets as text.
"""

from __future__ import annotations

import base64
import hashlib
import re
import shlex
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.report.document import Section
from bench.report.escape import flat
from bench.report.latex import LatexTable, to_latex
from bench.report.page_sentences import facts
from bench.report.paired_rows import p_in_words
from bench.report.render import to_csv
from bench.report.reproduce import commands
from bench.report.study import Study
from bench.report.table import Footnotes, Table, TableCell
from bench.report.tables.leaderboard import SYMBOLS
from bench.report.tables.registry import SUMMARY

if TYPE_CHECKING:
    from jinja2 import Environment

HERE = Path(__file__).parent / "page"
DIGITS = 4
"""Decimals of the numbers in the page's data."""


def html_page(
    study: Study,
    tables: Mapping[str, Table],
    sections: Sequence[Section],
    papers: Mapping[str, LatexTable],
) -> bytes:
    """The page of a group with these sections; the template writes them.

    Args:
        tables: by the names of their files.
        papers: of the tables that are for a paper, by the names of their files.
    """
    # what a reader sees of a cell on a closer look: the template adds an entry for each cell that
    # has more than its text
    details: list[dict[str, Any]] = []

    def detail(cell: TableCell) -> int | None:
        """Add the entry of a cell; returns its index, or None where the cell has only its text."""
        if cell.value is None and not cell.keys:
            return None
        details.append(_detail(cell))
        return len(details) - 1

    # what a reader can copy of a table
    files = {
        stem: (to_csv(table), to_latex(papers[stem]) if stem in papers else "")
        for stem, table in tables.items()
    }
    style = (HERE / "page.css").read_text(encoding="utf-8")
    script = (HERE / "page.js").read_text(encoding="utf-8")
    template = _environment().get_template("page.html")
    typed = commands(study)
    return template.render(
        title=study.heading,
        facts=facts(study),
        command=typed[0] if typed else "",
        further=len(typed) - 1,
        sections=[section for section in sections if any(section[1:])],
        summary=SUMMARY,
        name_of={table.title: stem for stem, table in tables.items()},
        for_paper=papers,
        methods=sorted({record.cell.method for record in study.records}),
        columns=[column.title for column in study.printed_columns],
        notes=Footnotes(),
        detail=detail,
        split=_split,
        image=lambda svg: f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}",
        width=lambda svg: round(1.8 * float(re.findall(rb'width="([\d.]+)pt"', svg)[0])),
        # when the tables have added their details
        numbers=lambda: numbers_of(study, details, files),
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
    ).encode()


def _detail(cell: TableCell) -> dict[str, Any]:
    """The numbers of a cell, and the keys of its records."""
    numbers = {
        "value": cell.value,
        "low": cell.low,
        "high": cell.high,
        "sd": cell.deviation,
        "n": cell.n,
        "p": cell.p,
    }
    detail: dict[str, Any] = {}
    for name, value in numbers.items():
        if value is not None:
            detail[name] = _rounded(value)
    if cell.keys:
        detail["keys"] = list(cell.keys)
    return detail


def _split(cell: TableCell) -> tuple[str, str, str]:
    """What is printed of a cell: large, small, and on a closer look.

    The verdict of a tested difference is a sign.
    """
    # no interval
    if cell.low is None:
        return cell.text, "", ""
    # an interval alone
    if cell.p is None or cell.value is None or cell.high is None:
        large, bracket, small = flat(cell.text).partition(" (")
        return large, bracket.strip() + small, ""
    # a tested difference
    test = f"{cell.verdict}: p = {p_in_words(cell.p)}".replace("= <", "<")
    if cell.alone not in (None, cell.p):
        test += f" after Holm's adjustment ({p_in_words(cell.alone)} before)"
    large = f"{cell.value:+.1f} {SYMBOLS[cell.verdict]}"
    return large, f"({cell.low:+.1f} to {cell.high:+.1f})", test


def _hash(text: str) -> str:
    """How a page's policy names a style or script that it allows."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@cache
def _environment() -> Environment:
    """The template engine: it escapes everything, and a name that is missing is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    engine = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    engine.filters["flat"] = lambda text: flat(text).replace("**", "").replace("`", "")
    engine.policies["json.dumps_kwargs"] = {
        "sort_keys": False,
        "separators": (",", ":"),
        "ensure_ascii": False,
    }
    return engine


def _rounded(value: float) -> float:
    return value if isinstance(value, int) else round(value, DIGITS)


def numbers_of(
    study: Study, details: Sequence[Mapping[str, Any]], files: Mapping[str, tuple[str, str]]
) -> dict[str, Any]:
    """What the page's filters, closer looks and copies are made of, as JSON has it."""
    rows = {}
    for label in study.systems:
        rows[label] = {
            "name": study.called(label),
            "method": study.records_of(label)[0].cell.method,
            "complete": label in study.mean_scores,
        }
    # the records that a closer look names
    shown = {key for detail in details for key in detail.get("keys", ())}
    records = {}
    for record in study.records:
        if record.key in shown:
            records[record.key] = {
                "row": record.called,
                "tasks": list(map(study.shown, record.cell.tasks)),
                "seed": record.cell.seed,
                "scores": {name: _percent(scores) for name, scores in record.scores.items()},
            }
    return {
        "columns": [column.title for column in study.printed_columns],
        "rows": rows,
        "details": details,
        "records": records,
        "results": shlex.quote(study.results),
        "files": files,
    }


def _percent(scores: Mapping[str, float]) -> dict[str, float]:
    """Metric -> score in percent."""
    return {metric: _rounded(100 * score) for metric, score in scores.items()}
