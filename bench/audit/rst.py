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


def rst_grids(text: str) -> tuple[list[Grid], str]:
    """Every table of a text, and the text with them blanked out."""
    lines = text.split("\n")
    starts = [0, *itertools.accumulate(len(line) + 1 for line in lines)]
    grids: list[Grid] = []
    title = ""
    at = 0
    cells = 0
    while at < len(lines):
        end, grid = at, None
        if at and re.fullmatch(r"([=\-~^\"'#*+])\1{2,}\s*", lines[at]) and lines[at - 1].strip():
            title = lines[at - 1].strip()[:80]  # an underlined heading
        if BORDER.match(lines[at]):
            end, grid = _drawn(lines, at)
        elif SIMPLE.match(lines[at]):
            end, grid = _simple(lines, at)
        if grid is None or not grid.lines:
            at = max(at + 1, end if BORDER.match(lines[at]) else 0)
            continue
        grid.title, grid.place = title, starts[at]
        cells = cells_with(grid, cells)
        grids.append(grid)
        lines[at:end] = [""] * (end - at)
        at = end
    return grids, "\n".join(lines)


def _drawn(lines: list[str], at: int) -> tuple[int, Grid]:
    """A grid of + - |: a line of cells is what is between two borders; a cell may span several columns."""
    end = at
    while end < len(lines) and re.match(r"\s*[+|]", lines[end]):
        end += 1
    drawn = [
        m.start()
        for line in lines[at:end]
        if re.match(r"\s*\+", line)
        for m in re.finditer(r"\+", line)
    ]
    edges = {place: column for column, place in enumerate(sorted(set(drawn)))}
    grid = Grid("")
    rows: list[tuple[int, list[Spanned]]] = []
    texts: dict[int, list[str]] = {}
    spans: dict[int, int] = {}
    first = at
    for place in range(at, end):
        line = lines[place]
        if re.match(r"\s*\+[-=+ |]*$", line):
            if texts:
                rows.append(
                    (
                        first + 1,
                        [Spanned(" ".join(texts[c]).strip(), spans[c]) for c in sorted(texts)],
                    )
                )
            if "=" in line:
                grid.head = len(rows)
            texts, spans, first = {}, {}, place + 1
            continue
        bars = [m.start() for m in re.finditer(r"\|", line) if m.start() in edges]
        for left, right in itertools.pairwise(bars):
            column = edges[left]
            texts.setdefault(column, []).append(without_markup(line[left + 1 : right]))
            spans[column] = edges[right] - column
    grid.lines = [
        GridLine(cells, number)
        for (number, _), cells in zip(rows, laid_out([r for _, r in rows]), strict=True)
    ]
    return end, grid


def _simple(lines: list[str], at: int) -> tuple[int, Grid]:
    """Columns below runs of equal signs; the second such line ends the header, the third the table."""
    slots = [(m.start(), m.end()) for m in re.finditer(r"=+", lines[at])]
    grid, end, borders = Grid(""), at + 1, 1
    while end < len(lines):
        line = lines[end]
        end += 1
        if SIMPLE.match(line):
            borders += 1
            if borders == 2:
                grid.head = len(grid.lines)
            following = lines[end].strip() if end < len(lines) else ""
            if borders >= 3 or not following:
                break
        elif line.strip() and not re.fullmatch(r"[\s-]+", line):
            starts = [start for start, _ in slots]
            if len(slots) * len(grid.lines) > MOST_CELLS:
                raise InputError(TOO_MANY)
            stops = [*starts[1:], len(line) + 1]
            cells = [line[a:b].strip() for a, b in zip(starts, stops, strict=True)]
            if (
                not cells[0]
                and grid.lines
                and len(grid.lines) != grid.head
                and not any(map(str.isdigit, "".join(cells)))
            ):
                above = grid.lines[-1]
                joined = (
                    f"{old.text} {new}".strip() for old, new in zip(above.cells, cells, strict=True)
                )
                grid.lines[-1] = line_of(joined, above.number)
            else:
                grid.lines.append(line_of(map(without_markup, cells), end))
    return end, grid
