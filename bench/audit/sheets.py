"""Tables of papers and pages read from their files: tidy CSV, Markdown, HTML, LaTeX, reStructuredText, notebooks, text."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.audit.grid import MOST_CELLS, MOST_TEXT, TOO_MANY, Grid, cells_with, line_of
from bench.audit.latex import latex_grids
from bench.audit.layout import Unread, sheets_of, unread
from bench.audit.markdown import markdown_grids
from bench.audit.printed import printed
from bench.audit.rst import rst_grids
from bench.audit.table import PrintedRow, Sheet
from bench.audit.webpage import html_grids
from bench.errors import InputError
from bench.user_files import text_of

SIZES = {"params_m": "params", "flops_b": "flops", "speedup": "speed-up"}
TIDY = ("source", "table", "system", "task", "value")
SPREADS = (" sd", " n", " low", " high", " p", " p, Holm", " verdict")
"""Ends of the names of columns that stand beside another one in a report's CSV file."""
TEXTS = (".md", ".markdown", ".txt", ".rst", ".html", ".htm", ".tex")
"""Endings of text files: each is searched for tables of every text format, as HTML in Markdown."""
KINDS = (".csv", ".tsv", ".ipynb", *TEXTS)
"""Endings of all files that tables are read from."""


@dataclass
class Pages:
    """What several files hold together."""

    sheets: list[Sheet] = field(default_factory=list)
    without: list[str] = field(default_factory=list)
    """names of files without a table of numbers: a page whose text speaks of others' tables, a list of keys"""
    unread: list[tuple[str, Unread]] = field(default_factory=list)
    """file name and number of those that are in a table and in no row of it"""

    @property
    def reading(self) -> str:
        """How much of the files was read. "Nothing found" says nothing about the rest."""
        read = sum(len(row.cells) + len(row.sizes) for sheet in self.sheets for row in sheet.rows)
        tables = f"{len(self.sheets)} table{'' if len(self.sheets) == 1 else 's'}"
        return f"read {read:,} of {read + len(self.unread):,} numbers in {tables}"


def read_all(files: Sequence[Path]) -> Pages:
    """The tables of several files together, and their running text; also where no file has a table.

    Raises:
        InputError: a file that cannot be read, or more than is read at once.
    """
    pages = Pages()
    for path in dict.fromkeys(files):
        text, kind = _text_of(path), path.suffix.lower()
        # messages call a file by its name, with as many folders as it takes where several have that name
        parts = 1
        while any(other != path and other.parts[-parts:] == path.parts[-parts:] for other in files):
            parts += 1
        name = Path(*path.parts[-parts:]).as_posix()
        try:
            if kind in (".csv", ".tsv"):
                grids, sheets = _of_values(text, kind, name)
            else:
                grids = _of_text(path, text, kind)
                sheets = sheets_of(name, grids)
        except csv.Error as error:
            raise InputError(f"{path}: not comma-separated values ({error})") from None
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
        if not sheets:
            pages.without.append(name)
        pages.sheets += sheets
        pages.unread += [(name, number) for number in unread(grids, sheets)]
    return pages


def _of_values(text: str, kind: str, name: str) -> tuple[list[Grid], list[Sheet]]:
    """The table of a file of separated values; tidy values are sheets without a grid."""
    # spreadsheets write semicolons where numbers have decimal commas
    first = text.partition("\n")[0]
    mark = ";" if first.count(";") > first.count(",") else ","
    mark = "\t" if kind == ".tsv" else mark
    lines = list(csv.reader(io.StringIO(text, newline=""), delimiter=mark))
    header = [value.strip() for value in lines[0]] if lines else []
    if set(TIDY) <= set(header):
        return [], from_tidy(header, lines[1:])
    if sum(map(len, lines)) > MOST_CELLS:
        raise InputError(TOO_MANY)
    lines = _without_spreads(lines)
    grid = Grid("", [], 1)
    for number, line in enumerate(lines, start=1):
        # a quoted cell may have line breaks
        grid.lines.append(line_of((" ".join(cell.split()) for cell in line), number))
    return [grid], sheets_of(name, [grid])


def _of_text(path: Path, text: str, kind: str) -> list[Grid]:
    """The tables of a text, or of all texts of a notebook."""
    if kind != ".ipynb":
        return grids_of(text, kind == ".txt", path.parent if kind == ".tex" else None)
    grids = []
    cells = 0
    for part in _notebook_texts(text):
        for grid in grids_of(part, aligned=True):
            cells = cells_with(grid, cells)
            grids.append(grid)
    return grids


def _without_spreads(lines: list[list[str]]) -> list[list[str]]:
    """A report's CSV file without the columns that say how sure others are: of ``rte mean``, ``rte sd`` and ``rte n`` the first, as ``rte``;
    of ``mean of 4``, ``mean of 4 low`` and ``mean of 4 high`` the first. Other files as they are."""
    header = lines[0] if lines else []
    if header[:1] != ["System"]:
        return lines
    names = set(header)
    spread = {name: name.removesuffix(" mean") for name in header if name.endswith(" mean")}
    spread = {name: own for name, own in spread.items() if {f"{own} sd", f"{own} n"} <= names}
    sure = [
        *spread.values(),
        *(name for name in header if {f"{name} low", f"{name} high"} <= names),
    ]
    left_out = {f"{own}{end}" for own in sure for end in SPREADS}
    kept = [place for place, name in enumerate(header) if name not in left_out]
    named = [[spread.get(name, name) for name in header], *lines[1:]]
    return [[line[place] for place in kept if place < len(line)] for line in named]


def _text_of(path: Path) -> str:
    if not path.is_file():
        raise InputError(
            f"{path}: {'a folder; name a file in it' if path.is_dir() else 'no such file'}"
        )
    if path.suffix.lower() not in KINDS:
        raise InputError(f"{path}: tables are read from {', '.join(KINDS)}")
    if path.stat().st_size > MOST_TEXT:
        raise InputError(
            f"{path}: {path.stat().st_size:,} bytes; tables are read from files of at most {MOST_TEXT:,}"
        )
    # other marks that Python calls line ends, as U+2028 of a web page, stand within cells
    return text_of(path, str(path)).replace("\r\n", "\n").replace("\r", "\n")


def _notebook_texts(text: str) -> list[str]:
    """The Markdown cells of a Jupyter notebook and what its code cells printed; an output in HTML goes before its plain text.

    Raises:
        InputError: no JSON of a notebook.
    """

    def joined(source: Any) -> str:
        return "".join(source) if isinstance(source, list) else str(source)

    texts = []
    try:
        for cell in json.loads(text)["cells"]:
            if cell.get("cell_type") == "markdown":
                texts.append(joined(cell.get("source", "")))
            for output in cell.get("outputs", ()):
                data = output.get("data", {})
                kinds = (
                    kind
                    for kind in ("text/html", "text/markdown", "text/latex", "text/plain")
                    if kind in data
                )
                texts.append(joined(next((data[kind] for kind in kinds), output.get("text", ""))))
    except (ValueError, AttributeError, TypeError, KeyError, RecursionError) as error:
        raise InputError(f"not a Jupyter notebook ({error})") from None
    return [text for text in texts if text.strip()]


def from_tidy(header: Sequence[str], lines: Iterable[Sequence[str]]) -> list[Sheet]:
    """Rows of one value each: source, table, system, task, value, and perhaps metric, split and sizes.

    Raises:
        InputError: a line of more or fewer fields than the header.
    """
    bodies = []
    for number, values in enumerate(lines, start=2):
        if values and len(values) != len(header):
            raise InputError(f"line {number}: {len(values)} fields, expected {len(header)}")
        if values:  # no empty line
            bodies.append(dict(zip(header, values, strict=True)))
    # where some system has two values of a task, EM beside F1 are two columns, also for the others
    values_of = Counter(
        (body["source"], body["table"], body["task"], body["system"]) for body in bodies
    )
    several = {cell[:3] for cell, count in values_of.items() if count > 1}
    sheets: dict[tuple[str, str], Sheet] = {}
    rows: dict[tuple[str, str, str], PrintedRow] = {}
    for body in bodies:
        key, column = (body["source"], body["table"]), body["task"]
        sheet = sheets.setdefault(key, Sheet(*key, []))
        row = rows.get((*key, body["system"]))
        if row is None:
            row = rows[*key, body["system"]] = PrintedRow(body["system"], {})
            sheet.rows.append(row)
        row.sizes |= {
            ours: size for name, ours in SIZES.items() if (size := printed(body.get(name, "")))
        }
        if value := printed(body["value"]):
            if (*key, column) in several:
                column = f"{column} ({body.get('metric') or body.get('split')})"
            row.cells[column] = value
            row.kinds[column] = (body.get("metric", ""), body.get("split", ""))
    return [sheet for sheet in sheets.values() if any(row.cells for row in sheet.rows)]


def grids_of(text: str, aligned: bool = False, folder: Path | None = None) -> list[Grid]:
    """Tables of all kinds that a text holds, in their order; what one container's reader has read the next does not see.

    Args:
        aligned: also those whose columns only blanks keep apart.
        folder: of a source of LaTeX, for the files that it inputs.
    """
    grids: list[Grid] = []
    rest = text
    if folder is not None or re.search(r"\\begin\s*\{", text):
        grids, rest = latex_grids(text, folder)
    if re.search(r"<table\b", rest, re.IGNORECASE):
        more, rest = html_grids(rest)
        grids += more
    if re.search(r"^[^\S\n]*(?:\+[-=]+\+|=+[^\S\n]+=+)", rest, re.MULTILINE):
        more, rest = rst_grids(rest)
        grids += more
    grids += markdown_grids(rest, aligned)
    return sorted(grids, key=lambda grid: grid.place)
