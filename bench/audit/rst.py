"""Tables of reStructuredText: drawn grids and simple tables."""

from __future__ import annotations

import itertools
import re

from bench.audit.grid import (
    MOST_CELLS,
    TOO_MANY,
    Grid,
    GridLine,
    Spanned,
    cells_with,
    laid_out,
    line_of,
    without_markup,
)
from bench.errors import InputError

BORDER = re.compile(r"\s*\+(?:[-=]+\+)+\s*$")
SIMPLE = re.compile(r"\s*=+(?:\s+=+)+\s*$")
UNDERLINE = re.compile(r"([=\-~^\"'#*+])\1{2,}\s*")
"""The line below a heading."""


def rst_grids(text: str) -> tuple[list[Grid], str]:
    """Every table of a text, and the text with them blanked out."""
    lines = text.split("\n")
    starts = [0, *itertools.accumulate(len(line) + 1 for line in lines)]
    grids: list[Grid] = []
    title = ""
    at = 0
    cells = 0
    while at < len(lines):
        if at and UNDERLINE.fullmatch(lines[at]) and lines[at - 1].strip():
            title = lines[at - 1].strip()[:80]

        # a table begins with a border, or with runs of equal signs
        end = at
        grid = None
        is_drawn = bool(BORDER.match(lines[at]))
        if is_drawn:
            end, grid = _drawn(lines, at)
        elif SIMPLE.match(lines[at]):
            end, grid = _simple(lines, at)
        if grid is None or not grid.lines:
            at = max(at + 1, end if is_drawn else 0)
            continue

        # out of the text, which the next reader sees
        grid.title = title
        grid.place = starts[at]
        cells = cells_with(grid, cells)
        grids.append(grid)
        lines[at:end] = [""] * (end - at)
        at = end
    return grids, "\n".join(lines)


def _drawn(lines: list[str], at: int) -> tuple[int, Grid]:
    """A table drawn with ``+``, ``-`` and ``|`` from a line on, and the line behind it.

    A row is what is between two borders; a cell may span several columns.
    """
    # the lines of the table, and its columns by the corners of all borders
    end = at
    while end < len(lines) and re.match(r"\s*[+|]", lines[end]):
        end += 1
    corners: set[int] = set()
    for line in lines[at:end]:
        if re.match(r"\s*\+", line):
            corners.update(corner.start() for corner in re.finditer(r"\+", line))
    edges = {corner: column for column, corner in enumerate(sorted(corners))}

    # what is read so far: whole rows, and the cells of the row that is open
    grid = Grid("")
    rows: list[list[Spanned]] = []
    numbers: list[int] = []
    texts: dict[int, list[str]] = {}  # column -> the texts of the row's lines
    spans: dict[int, int] = {}
    first = at
    for index in range(at, end):
        line = lines[index]
        if not re.match(r"\s*\+[-=+ |]*$", line):
            # a line of a row: its cells are between the bars at edges
            bars = [bar.start() for bar in re.finditer(r"\|", line) if bar.start() in edges]
            for left, right in itertools.pairwise(bars):
                column = edges[left]
                texts.setdefault(column, []).append(without_markup(line[left + 1 : right]))
                spans[column] = edges[right] - column
            continue
        # a border ends the row above it, and one of equal signs the header
        if texts:
            row = []
            for column in sorted(texts):
                text = " ".join(texts[column]).strip()
                row.append(Spanned(text, spans[column]))
            rows.append(row)
            numbers.append(first + 1)
        if "=" in line:
            grid.head = len(rows)
        texts = {}
        spans = {}
        first = index + 1

    # spans laid out
    for cells, number in zip(laid_out(rows), numbers, strict=True):
        grid.lines.append(GridLine(cells, number))
    return end, grid


def _simple(lines: list[str], at: int) -> tuple[int, Grid]:
    """A table with columns below runs of equal signs, and the line behind it.

    The second such line ends the header, the third the table.
    """
    # where the columns begin
    starts = [run.start() for run in re.finditer(r"=+", lines[at])]
    grid = Grid("")
    borders = 1
    end = at + 1
    while end < len(lines):
        line = lines[end]
        end += 1
        if SIMPLE.match(line):
            # the second border ends the header, the third the table
            borders += 1
            if borders == 2:
                grid.head = len(grid.lines)
            following = lines[end].strip() if end < len(lines) else ""
            if borders >= 3 or not following:
                break
        elif line.strip() and not re.fullmatch(r"[\s-]+", line):
            # a row may be short of all cells, and columns many
            if len(starts) * len(grid.lines) > MOST_CELLS:
                raise InputError(TOO_MANY)
            _add_line(grid, line, starts, end)
    return end, grid


def _add_line(grid: Grid, line: str, starts: list[int], number: int) -> None:
    """Add a line to a simple table: a row, or more text of the row above."""
    stops = [*starts[1:], len(line) + 1]
    cells = [line[a:b].strip() for a, b in zip(starts, stops, strict=True)]
    # without a name and without a number it goes on with the row above, but not with the header
    is_in_section = grid.lines and len(grid.lines) != grid.head
    has_digit = any(map(str.isdigit, "".join(cells)))
    is_more = is_in_section and not cells[0] and not has_digit
    if not is_more:
        grid.lines.append(line_of(map(without_markup, cells), number))
        return
    above = grid.lines[-1]
    joined = (f"{old.text} {new}".strip() for old, new in zip(above.cells, cells, strict=True))
    grid.lines[-1] = line_of(joined, above.number)
