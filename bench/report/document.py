"""A page as data: its sections, which Markdown and HTML print alike; its Markdown; and the index of a folder of reports."""

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
"""Lines of a table of the Markdown page, besides the main one; a longer one is in its file and in the HTML page alone."""


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
        return (
            table.title
            if len(self.tables) > 1 and not table.folded and table.title != self.title
            else ""
        )


def to_page(title: str, sections: Iterable[Section]) -> bytes:
    """The Markdown of a page. No date, no host: those are in the records."""
    lines, notes = [f"# {escape.markdown(title)}", ""], Footnotes()
    for section in sections:
        if not any(section[1:]):
            continue
        lines += [f"## {escape.markdown(section.title)}", ""] if section.title else []
        lines += [line for text in section.texts for line in (escape.markdown(text), "")]
        points = [f"- {escape.markdown(point)}" for point in section.points]
        points += [f"- command: {escape.code(command)}" for command in section.commands]
        lines += [*points, ""] if points else []
        for table in section.tables:
            heading = escape.markdown(section.heading_of(table))
            lines += [f"### {heading}", ""] if heading else []
            if table.folded or (len(table.lines) > LONGEST and table.width is None):  # where it is
                (stem,) = named([table])
                file, length = f"{TABLES}/{stem}.csv", counted(len(table.lines), "line")
                text = f"**{escape.markdown(table.title)}**: {length}, in [{file}]({file}) and [{HTML}]({HTML})."
                lines += [" ".join([text, *map(escape.markdown, table.notes)]), ""]
                continue
            # its sentences, then the footnotes that it is the first to have
            before = len(notes.texts)
            lines += [to_markdown(table, notes), ""]
            lines += [escape.markdown(" ".join(table.notes)), ""] if table.notes else []
            new = [
                f"[{i}] {escape.markdown(text)}  "
                for i, text in enumerate(notes.texts[before:], start=before + 1)
            ]
            lines += [*new, ""] if new else []
        for picture in section.pictures:
            caption = f"*{picture.title}.* {escape.markdown(picture.caption)}"
            lines += [f"![{picture.title}]({FIGURES}/{picture.name}.svg)  ", caption, ""]
    return ("\n".join(lines).rstrip() + "\n").encode()


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
            title = next(
                (line.removeprefix("# ").strip() for line in file if line.startswith("# ")), ""
            )
        # a folder that somebody else put here may be called anything
        link = f"{quote(place)}/{PAGE}"
        # a bracket of its own would end the text of the link, or the link
        text = re.sub(r"([\\\[\]])", r"\\\1", escape.flat(place)).replace("<", "&lt;")
        lines.append(f"- [{text}]({link}): {escape.markdown(title)}")
    write_atomically(index, ("\n".join([*lines, "", MARK]) + "\n").encode())
    return index
