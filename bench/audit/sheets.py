"""Read tables of papers and pages from CSV, Markdown, HTML, LaTeX, rST, notebooks and text."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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
OUTPUTS = ("text/html", "text/markdown", "text/latex", "text/plain")
"""Kinds of one output of a notebook, the one that is read first."""
KINDS = (".csv", ".tsv", ".ipynb", *TEXTS)
"""Endings of all files that tables are read from."""


@dataclass
class Pages:
    """The tables of several files together."""

    sheets: list[Sheet] = field(default_factory=list)
    without: list[str] = field(default_factory=list)
    """names of files without a table of numbers: a page whose text speaks of others' tables, a list
    of keys"""
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
        text = _text_of(path)
        kind = path.suffix.lower()
        name = _short_name(path, files)
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

        # what was read, and what was not
        pages.sheets += sheets
        pages.unread += [(name, number) for number in unread(grids, sheets)]
    return pages


def _short_name(path: Path, files: Sequence[Path]) -> str:
    """A file's name, with as many folders as it takes where several files have that name."""
    parts = 1
    while any(other != path and other.parts[-parts:] == path.parts[-parts:] for other in files):
        parts += 1
    return Path(*path.parts[-parts:]).as_posix()


def _of_values(text: str, kind: str, name: str) -> tuple[list[Grid], list[Sheet]]:
    """The table of a file of separated values; tidy values are sheets without a grid."""
    # what parts the values
    mark = "\t" if kind == ".tsv" else _delimiter(text)
    lines = list(csv.reader(io.StringIO(text, newline=""), delimiter=mark))
    # a title, a comment or `sep=;` above the header: one text where the table has more places
    widest = max(map(len, lines), default=0)
    above = 0
    while widest > 2 and len(lines[above]) <= 2 and sum(map(bool, lines[above])) < 2:
        above += 1
    lines = lines[above:]

    # tidy values, or a table
    header = [value.strip() for value in lines[0]] if lines else []
    if set(TIDY) <= set(header):
        return [], from_tidy(header, lines[1:])
    if sum(map(len, lines)) > MOST_CELLS:
        raise InputError(TOO_MANY)

    # one table, of which the first line is the header
    lines = _without_spreads(lines)
    grid = Grid("", [], 1)
    for number, line in enumerate(lines, start=1 + above):
        # a quoted cell may have line breaks
        grid.lines.append(line_of((" ".join(cell.split()) for cell in line), number))
    return [grid], sheets_of(name, [grid])


def _delimiter(text: str) -> str:
    """Semicolon or comma: spreadsheets write semicolons where numbers have decimal commas."""
    for line in text.split("\n", 100):
        if max(line.count(";"), line.count(",")) >= 2:
            return ";" if line.count(";") > line.count(",") else ","
    return ";" if ";" in text and "," not in text else ","


def _of_text(path: Path, text: str, kind: str) -> list[Grid]:
    """The tables of a text, or of all texts of a notebook."""
    if kind != ".ipynb":
        return grids_of(text, kind == ".txt", path.parent if kind == ".tex" else None)

    # every text of the notebook
    grids = []
    cells = 0
    for part in _notebook_texts(text):
        for grid in grids_of(part, aligned=True):
            cells = cells_with(grid, cells)
            grids.append(grid)
    return grids


def _without_spreads(lines: list[list[str]]) -> list[list[str]]:
    """A report's CSV file without the columns that say how sure others are; other files as they
    are.

    Of ``rte mean``, ``rte sd`` and ``rte n`` the first stays, as ``rte``; of ``mean of 4``,
    ``mean of 4 low`` and ``mean of 4 high`` the first.
    """
    header = lines[0] if lines else []
    if header[:1] != ["System"]:
        return lines

    # the columns that have others beside them, and how the names of the others begin
    names = set(header)
    renamed = {}
    for name in header:
        stem = name.removesuffix(" mean")
        if stem != name and {f"{stem} sd", f"{stem} n"} <= names:
            renamed[name] = stem
    stems = list(renamed.values())
    stems += [name for name in header if {f"{name} low", f"{name} high"} <= names]

    # their columns are left out
    left_out: set[str] = set()
    for stem in stems:
        left_out.update(f"{stem}{end}" for end in SPREADS)

    # the other columns, under their short names
    kept = [index for index, name in enumerate(header) if name not in left_out]
    parted = []
    for line in lines:
        parted.append([line[index] for index in kept if index < len(line)])
    parted[0] = [renamed.get(name, name) for name in parted[0]]
    return parted


def _text_of(path: Path) -> str:
    """The text of a file that may have tables, each line end as one mark."""
    if path.is_dir():
        raise InputError(f"{path}: a folder; name a file in it")
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    if path.suffix.lower() not in KINDS:
        raise InputError(f"{path}: tables are read from {', '.join(KINDS)}")
    size = path.stat().st_size
    if size > MOST_TEXT:
        most = f"tables are read from files of at most {MOST_TEXT:,}"
        raise InputError(f"{path}: {size:,} bytes; {most}")
    # other marks that Python calls line ends, as U+2028 of a web page, stand within cells
    return text_of(path, str(path)).replace("\r\n", "\n").replace("\r", "\n")


def _notebook_texts(text: str) -> list[str]:
    """The Markdown cells of a Jupyter notebook and what its code cells printed; an output in HTML
    goes before its plain text.

    Raises:
        InputError: no JSON of a notebook.
    """

    def joined(source: Any) -> str:
        return "".join(source) if isinstance(source, list) else str(source)

    # texts that somebody wrote, and outputs in their richest form
    texts = []
    try:
        for cell in json.loads(text)["cells"]:
            if cell.get("cell_type") == "markdown":
                texts.append(joined(cell.get("source", "")))
            for output in cell.get("outputs", ()):
                data = output.get("data", {})
                richest = next((kind for kind in OUTPUTS if kind in data), None)
                texts.append(joined(data[richest] if richest else output.get("text", "")))
    except (ValueError, AttributeError, TypeError, KeyError, RecursionError) as error:
        raise InputError(f"not a Jupyter notebook ({error})") from None
    return [text for text in texts if text.strip()]


def from_tidy(header: Sequence[str], lines: Iterable[Sequence[str]]) -> list[Sheet]:
    """Tables of lines of one value each: source, table, system, task, value.

    Metric, split and sizes may stand there too.

    Raises:
        InputError: a line of more or fewer fields than the header.
    """
    bodies = []
    for number, values in enumerate(lines, start=2):
        if not values:
            continue  # an empty line
        if len(values) != len(header):
            raise InputError(f"line {number}: {len(values)} fields, expected {len(header)}")
        bodies.append(dict(zip(header, values, strict=True)))

    # where some system has two values of a task, as EM beside F1, they are two columns,
    # also for the others
    values_of: Counter[tuple[str, ...]] = Counter()
    for body in bodies:
        values_of[body["source"], body["table"], body["task"], body["system"]] += 1
    several = {cell[:3] for cell, count in values_of.items() if count > 1}

    # a row for each system of each table
    sheets: dict[tuple[str, str], Sheet] = {}
    rows: dict[tuple[str, str, str], PrintedRow] = {}
    for body in bodies:
        table = (body["source"], body["table"])
        sheet = sheets.setdefault(table, Sheet(*table, []))
        system = (*table, body["system"])
        if system not in rows:
            rows[system] = PrintedRow(body["system"], {})
            sheet.rows.append(rows[system])
        _add_value(rows[system], body, (*table, body["task"]) in several)
    return [sheet for sheet in sheets.values() if sheet.columns]


def _add_value(row: PrintedRow, body: Mapping[str, str], is_one_of_several: bool) -> None:
    """Add the sizes and the value of a line to its row.

    Args:
        is_one_of_several: whether the task has several values; then the metric names the column.
    """
    for name, size in SIZES.items():
        number = printed(body.get(name, ""))
        if number is not None:
            row.sizes[size] = number
    value = printed(body["value"])
    if value is None:
        return

    # the value, in the column of its task
    column = body["task"]
    if is_one_of_several:
        column = f"{column} ({body.get('metric') or body.get('split')})"
    row.cells[column] = value
    row.kinds[column] = (body.get("metric", ""), body.get("split", ""))


def grids_of(text: str, aligned: bool = False, folder: Path | None = None) -> list[Grid]:
    """Tables of all kinds that a text holds, in their order; what one container's reader has read
    the next does not see.

    Args:
        aligned: also those whose columns only blanks keep apart.
        folder: of a source of LaTeX, for the files that it inputs.
    """
    grids: list[Grid] = []

    # each reader takes its tables out of the text
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
