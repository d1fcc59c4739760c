"""A page as data: its sections, which Markdown and HTML print alike; its Markdown; and the index.

The index is the page of a folder of reports.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from bench.files import write_atomically
from bench.report import escape
from bench.report.file_names import FIGURES, HTML, PAGE, TABLES, named
from bench.report.render import to_markdown
from bench.report.table import Footnotes, Table
from bench.report.tables.parts import counted

LONGEST = 25
"""A table of the Markdown page has at most so many lines, besides the main one.

A longer one is in its file and in the HTML page alone.
"""


class Picture(NamedTuple):
    """A picture of a page: the name of its file, what is written below it, and the SVG."""

    name: str
    title: str
    caption: str
    svg: bytes


class Section(NamedTuple):
    """A part of a page: paragraphs, points of a list, commands, tables and pictures, in this order.

    Attributes:
        title: "" for what is above the first heading.
    """

    title: str
    texts: Sequence[str] = ()
    points: Sequence[str] = ()
    commands: Sequence[str] = ()
    pictures: Sequence[Picture] = ()
    tables: Sequence[Table] = ()

    def heading_of(self, table: Table) -> str:
        """The heading of one of several tables; "" where it needs none."""
        if len(self.tables) < 2 or table.folded or table.title == self.title:
            return ""
        return table.title


def to_page(title: str, sections: Iterable[Section]) -> bytes:
    """The Markdown of a page. No date, no host: those are in the records."""
    lines = [f"# {escape.markdown(title)}", ""]
    notes = Footnotes()
    for section in sections:
        is_empty = not any(section[1:])
        if is_empty:
            continue
        if section.title:
            lines += [f"## {escape.markdown(section.title)}", ""]
        for text in section.texts:
            lines += [escape.markdown(text), ""]
        points = [f"- {escape.markdown(point)}" for point in section.points]
        points += [f"- command: {escape.code(command)}" for command in section.commands]
        if points:
            lines += [*points, ""]
        for table in section.tables:
            heading = escape.markdown(section.heading_of(table))
            if heading:
                lines += [f"### {heading}", ""]
            is_long = len(table.lines) > LONGEST and table.width is None
            lines += _link_to(table) if table.folded or is_long else _printed(table, notes)
        for picture in section.pictures:
            caption = f"*{picture.title}.* {escape.markdown(picture.caption)}"
            lines += [f"![{picture.title}]({FIGURES}/{picture.name}.svg)  ", caption, ""]
    return ("\n".join(lines).rstrip() + "\n").encode()


def _link_to(table: Table) -> list[str]:
    """Where a table is that the page does not print, and its sentences."""
    (stem,) = named([table])
    file = f"{TABLES}/{stem}.csv"
    count = counted(len(table.lines), "line")
    where = f"{count}, in [{file}]({file}) and [{HTML}]({HTML})."
    sentences = [f"**{escape.markdown(table.title)}**: {where}"]
    sentences += [escape.markdown(note) for note in table.notes]
    return [" ".join(sentences), ""]


def _printed(table: Table, notes: Footnotes) -> list[str]:
    """A table, its sentences, and the footnotes that it is the first to have.

    Args:
        notes: of the page so far; those of the table are added.
    """
    before = len(notes.texts)
    lines = [to_markdown(table, notes), ""]
    if table.notes:
        lines += [escape.markdown(" ".join(table.notes)), ""]
    new = notes.texts[before:]
    if new:
        for number, text in enumerate(new, start=before + 1):
            lines.append(f"[{number}] {escape.markdown(text)}  ")
        lines.append("")
    return lines


MARK = "<!-- written by bench report -->"
"""The last line of an index. A page without it is somebody else's, and stays."""
LIST = "<!-- reports -->"
"""Before the list of an index. What a person wrote above it stays."""
HEAD = (
    "# Reports\n\n"
    "Most folders are named by the data, and the folder in each by the teacher and the recipe "
    "(`1t`: the jobs had one\nthread). The report of an experiment is in a folder named by the "
    "paper. A `speed` session is in `speed/`.\n\n"
    f"{LIST}"
)


def write_index(folder: Path) -> Path | None:
    """Write ``README.md`` of the folder: a line for each report below it.

    It returns None where there is another page of that name.
    """
    index = folder / PAGE
    head = HEAD
    # what a person wrote above the list stays
    if index.is_file():
        there = index.read_text(encoding="utf-8", errors="replace")
        if MARK not in there:
            return None
        if LIST in there:
            head = there.partition(LIST)[0] + LIST
    lines = [head, ""]
    for page in sorted(folder.glob(f"*/*/{PAGE}")):
        path = page.parent.relative_to(folder).as_posix()
        # a folder that somebody else put here may be called anything
        link = f"{quote(path)}/{PAGE}"
        # a bracket of its own would end the text of the link, or the link
        text = re.sub(r"([\\\[\]])", r"\\\1", escape.flat(path)).replace("<", "&lt;")
        lines.append(f"- [{text}]({link}): {escape.markdown(_title_of(page))}")
    write_atomically(index, ("\n".join([*lines, "", MARK]) + "\n").encode())
    return index


def _title_of(page: Path) -> str:
    """The first heading of a Markdown file; "" where it has none."""
    with page.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("# "):
                return line.removeprefix("# ").strip()
    return ""
