"""The Markdown of a report: few sections with plain names, each table in its own, footnotes below the table that has them first;
and the index of a folder of reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.files import write_atomically
from bench.report import escape
from bench.report.file_names import HTML, PAGE, TABLES, table_names
from bench.report.groups import ReportGroup
from bench.report.render import to_markdown
from bench.report.reproduce import commands
from bench.report.sources import environment, made_again, provenance, warnings
from bench.report.summary import summary
from bench.report.table import Footnotes, Table
from bench.report.tables.parts import ReportData, counted
from bench.report.tables.registry import ABLATIONS, COST, ENVIRONMENT, PAIRED, PROVENANCE, RESULTS, RETENTION

LONGEST_FOLDED = 60
"""Lines of a folded table that the page still has; a longer one is in its file and in the HTML page alone."""


def document(data: ReportData, pictures: Sequence[str] = ()) -> str:
    """The text of a report, with lines that show its pictures. No date, no host: those are in the records."""
    group, notes = data.group, Footnotes()
    lines = paragraphs([f"# {group.title}", *warnings(group)])
    lines += section_lines("Summary", paragraphs(summary(group, data.tables, data.kept)))
    lines += section_lines(RESULTS, [*pictures, *_tables_of(RESULTS, data.tables, notes)])
    for title in (PAIRED, RETENTION, ABLATIONS, COST):
        lines += section_lines(title, _tables_of(title, data.tables, notes))
    lines += section_lines(ENVIRONMENT, [*paragraphs(environment(group)), *_tables_of(ENVIRONMENT, data.tables, notes)])
    lines += provenance_section(group, commands(group), _tables_of(PROVENANCE, data.tables, notes))
    return "\n".join(lines).rstrip() + "\n"


def paragraphs(texts: Iterable[str]) -> list[str]:
    return [line for text in texts for line in (escape.markdown(text), "")]


def section_lines(title: str, body: Sequence[str]) -> list[str]:
    """A section, or nothing where it is empty."""
    return [f"## {title}", "", *body] if body else []


def provenance_section(group: ReportGroup, made: Sequence[str], tables: Sequence[str]) -> list[str]:
    """Records, code and examples, the commands that make the records again, and the tables that say more."""
    listed = map(escape.markdown, provenance(group.records))
    return section_lines(PROVENANCE, [*listed, *made_again(made, group), "", *tables])


def _tables_of(title: str, tables: Sequence[Table], notes: Footnotes) -> list[str]:
    """The tables of a section; with headings of their own where there are several."""
    own, lines = [table for table in tables if table.section == title], []
    for table in own:
        has_heading = len(own) > 1 and not table.folded and table.title != title
        lines += table_lines(table, notes, f"### {escape.markdown(table.title)}" if has_heading else "")
    return lines


def table_lines(table: Table, notes: Footnotes, heading: str = "") -> list[str]:
    """A table under its heading, then what is said of it, then the footnotes that it is the first to have."""
    title, length, said = escape.markdown(table.title), len(table.printed_lines), paragraphs(table.notes)
    if table.folded and length > LONGEST_FOLDED:  # its sentences, and where it is
        (stem,) = table_names([table.file or table.title])
        file = f"{TABLES}/{stem}.csv"
        where = f"All {length} lines: [{file}]({file}) and [{HTML}]({HTML})."
        return [f"**{title}**", "", *map(escape.markdown, table.notes), "", where, ""]
    before = len(notes.texts)
    body = [to_markdown(table, notes), "", *said]
    new = [f"[{i}] {escape.markdown(text)}  " for i, text in enumerate(notes.texts[before:], start=before + 1)]
    body += [*new, ""] if new else []
    if table.folded:
        return [f"<details><summary>{title} ({counted(length, 'line')})</summary>", "", *body, "</details>", ""]
    return [*([heading, ""] if heading else []), *body]


MARK = "<!-- written by bench report -->"
"""The last line of an index. A page without it is somebody else's, and stays."""
LIST = "<!-- reports -->"
"""Before the list of an index. What a person wrote above it stays."""
HEAD = f"""# Reports

Most folders are named by the data, and the folder in each by the teacher and the recipe (`1t`: the jobs had one
thread). The report of an experiment is in a folder named by the paper. A `speed` session is in `speed/`.

{LIST}"""


def write_index(folder: Path) -> Path | None:
    """Write ``README.md`` of the folder: a line for each report below it. None where there is another page of that name."""
    index, head = folder / PAGE, HEAD
    if index.is_file():
        there = index.read_text(encoding="utf-8", errors="replace")
        if MARK not in there:
            return None
        head = there.partition(LIST)[0] + LIST if LIST in there else HEAD
    lines = [head, ""]
    for page in sorted(folder.glob(f"*/*/{PAGE}")):
        place = page.parent.relative_to(folder).as_posix()
        with page.open(encoding="utf-8", errors="replace") as file:
            title = next((line.removeprefix("# ").strip() for line in file if line.startswith("# ")), "")
        lines.append(f"- [{place}]({place}/{PAGE}): {title}")
    write_atomically(index, ("\n".join([*lines, "", MARK]) + "\n").encode())
    return index
