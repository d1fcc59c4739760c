"""The HTML page of a report: one file with its data, style and script inside. Nothing on it asks a network.

The same records give the same bytes. Every text of a record or of data is escaped: by the template engine in the page, and
by the JSON filter in its data, which the script only ever sets as text.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from bench.report.escape import flat
from bench.report.page.content import Details, numbers_of, tables_of
from bench.report.reproduce import commands
from bench.report.sources import environment, made_again, provenance, warnings
from bench.report.summary import summary
from bench.report.tables.registry import (
    ABLATIONS,
    COST,
    ENVIRONMENT,
    PAIRED,
    PROVENANCE,
    RESULTS,
    RETENTION,
    ReportData,
)

if TYPE_CHECKING:
    from jinja2 import Environment

HERE = Path(__file__).parent
SECTIONS = (RESULTS, PAIRED, RETENTION, ABLATIONS, COST, ENVIRONMENT, PROVENANCE)


def page(data: ReportData) -> str:
    """The text of the page."""
    group, details = data.group, Details()
    tables = tables_of(data.tables, details)
    style, script = (HERE / "page.css").read_text(encoding="utf-8"), (HERE / "page.js").read_text(encoding="utf-8")
    return (
        _environment()
        .get_template("page.html")
        .render(
            title=flat(group.title),
            warnings=[flat(line.replace("**", "")) for line in warnings(group) if line],
            summary=[flat(line) for line in summary(group, data.tables, data.kept)],
            sections=[(title, [table for table in tables if table.section == title]) for title in SECTIONS],
            environment=[flat(line) for line in environment(group)],
            environment_title=ENVIRONMENT,
            provenance=[flat(line.removeprefix("- ")) for line in provenance(group.records)],
            provenance_title=PROVENANCE,
            results_title=RESULTS,
            paired_title=PAIRED,
            cost_title=COST,
            again=[flat(line.removeprefix("- ").replace("`", "")) for line in made_again(commands(group), group)],
            methods=sorted({record.cell.method for record in group.records}),
            columns=[column.title for column in group.columns],
            numbers=numbers_of(data, details),
            style=style,
            script=script,
            style_hash=_hash(style),
            script_hash=_hash(script),
        )
    )


def _hash(text: str) -> str:
    """How a page's policy names a style or script that it allows."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@cache
def _environment() -> Environment:
    """The template engine: it escapes everything, and a name that is missing is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.policies["json.dumps_kwargs"] = {"sort_keys": False, "separators": (",", ":"), "ensure_ascii": False}
    return made
