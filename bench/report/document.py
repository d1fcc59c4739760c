"""The Markdown of a report: few sections with plain names, each table in its own, footnotes below the table that has them first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.report import escape
from bench.report.file_names import HTML, TABLES, table_names
from bench.report.frame import Footnotes, Frame
from bench.report.groups import ReportGroup
from bench.report.render import to_markdown
from bench.report.reproduce import commands
from bench.report.sources import environment, made_again, provenance, warnings
from bench.report.summary import summary
from bench.report.tables.parts import counted
from bench.report.tables.registry import ABLATIONS, COST, ENVIRONMENT, KEPT, PAIRED, PROVENANCE, RESULTS, RETENTION

LONGEST_FOLDED = 60
"""Lines of a folded table that the page still has; a longer one is in its file and in the HTML page alone."""


@dataclass(frozen=True)
class ReportPicture:
    """A picture of a report."""

    section: str
    caption: str
    file: str
    """from the page's folder"""


def document(
    group: ReportGroup, tables: Sequence[Frame], pictures: Sequence[ReportPicture] = (), kept: float = KEPT
) -> str:
    """The text of a report. No date, no host: those are in the records.

    Args:
        tables: in their order.
        kept: the share of the teacher's score that counts as kept.
    """
    lines = [escape.markdown(line) for line in (f"# {group.title}", "", *warnings(group))]
    lines += section("Summary", [line for text in summary(group, tables, kept) for line in (escape.markdown(text), "")])
    notes = Footnotes()
    for title in (RESULTS, PAIRED, RETENTION, ABLATIONS, COST):
        body = tables_of(title, tables, notes)
        shown = [line for one in pictures if one.section == title for line in (f"![{one.caption}]({one.file})", "")]
        # a picture of the results is seen before their table, which is long
        lines += section(title, [*shown, *body] if title == RESULTS else [*body, *shown])
    lines += environment_section(group, tables_of(ENVIRONMENT, tables, notes))
    lines += provenance_section(group, tables_of(PROVENANCE, tables, notes), commands(group))
    return "\n".join(lines).rstrip() + "\n"


def section(title: str, body: Sequence[str]) -> list[str]:
    """A section, or nothing where it is empty."""
    return [f"## {title}", "", *body] if body else []


def environment_section(group: ReportGroup, tables: Sequence[str]) -> list[str]:
    """How the rows were trained, and where."""
    said = [line for text in environment(group) for line in (escape.markdown(text), "")]
    return section(ENVIRONMENT, [*said, *tables])


def provenance_section(group: ReportGroup, tables: Sequence[str], made: Sequence[str]) -> list[str]:
    """Records, code and examples, the commands that make the records again, and the tables that say more."""
    listed = [*map(escape.markdown, provenance(group.records)), *made_again(made, group)]
    return section(PROVENANCE, [*listed, "", *tables])


def tables_of(title: str, tables: Sequence[Frame], notes: Footnotes) -> list[str]:
    """The tables of a section; with headings of their own where there are several."""
    own = [table for table in tables if table.section == title]
    lines: list[str] = []
    for table in own:
        heading = (
            f"### {escape.markdown(table.title)}" if len(own) > 1 and not table.folded and table.title != title else ""
        )
        lines += table_lines(table, notes, heading)
    return lines


def linked(table: Frame) -> list[str]:
    """What stands for a table that is too long for the page: its sentences, and where it is."""
    (stem,) = table_names([table.file or table.title])
    file = f"{TABLES}/{stem}.csv"
    where = f"All {len(table.printed_lines)} lines: [{file}]({file}) and [{HTML}]({HTML})."
    return [f"**{escape.markdown(table.title)}**", "", *(escape.markdown(note) for note in table.notes), "", where, ""]


def table_lines(table: Frame, notes: Footnotes, heading: str = "") -> list[str]:
    """A table under its heading, then what is said of it, then the footnotes that it is the first to have."""
    if table.folded and len(table.printed_lines) > LONGEST_FOLDED:
        return linked(table)
    before = len(notes.texts)
    body = [to_markdown(table, notes), ""]
    body += [line for note in table.notes for line in (escape.markdown(note), "")]
    new = [f"[{i}] {escape.markdown(text)}  " for i, text in enumerate(notes.texts[before:], start=before + 1)]
    body += [*new, ""] if new else []
    if table.folded:
        named = f"{escape.markdown(table.title)} ({counted(len(table.printed_lines), 'line')})"
        body = [f"<details><summary>{named}</summary>", "", *body, "</details>", ""]
    return [*([heading, ""] if heading else []), *body]
