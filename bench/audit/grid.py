"""A table as its container gives it: cells in lines, spans laid out, nothing interpreted."""

from __future__ import annotations

import html
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from bench.errors import InputError

WORDS = re.compile(r"\W*[^\W\d_]")
"""How a cell of words begins."""
MOST_TEXT = 5_000_000
"""Bytes of a file, with the files that it inputs."""
LONGEST_CELL = 1000
"""Characters that are read of a cell: what is longer is prose, and some patterns would take the
square of its length."""
LONGEST_SOURCE = 4 * LONGEST_CELL
"""Characters of a cell with its links and commands."""


class GridCell(NamedTuple):
    """One cell.

    Attributes:
        text: what it shows, at most :data:`LONGEST_CELL` characters.
        above: whether it repeats the cell above, which spans several lines.
        left: whether it repeats the cell to its left, which spans several columns.
    """

    text: str
    above: bool = False
    left: bool = False

    @property
    def unrepeated(self) -> str:
        """The text, or nothing where another cell of the table holds it already."""
        return "" if self.above or self.left else self.text


@dataclass
class GridLine:
    """One line of a table, and where it begins in the file."""

    cells: list[GridCell]
    number: int = 0


@dataclass
class Grid:
    """One table.

    Attributes:
        head: how many lines the container itself marks as header; 0 where it does not say.
        place: where the table begins in its file, to keep the order of several containers.
    """

    title: str
    lines: list[GridLine] = field(default_factory=list)
    head: int = 0
    place: int = 0


LONGEST_SPAN = 500
"""Lines or columns that a cell can span: a file may say any number."""
MOST_CELLS = 250_000
"""Cells of the tables of a file, with the places that spans fill."""
MOST_SPANNED = 100_000
"""Places of a table that spans fill, beside those where a cell is written."""
TOO_MANY = f"more than {MOST_CELLS:,} cells; name a file with the tables that you mean"


def cells_with(grid: Grid, others: int) -> int:
    """How many cells there are with those of one more table.

    Raises:
        InputError: more than :data:`MOST_CELLS`.
    """
    together = others + sum(len(line.cells) for line in grid.lines)
    if together > MOST_CELLS:
        raise InputError(TOO_MANY)
    return together


def span_of(text: str | None) -> int:
    """How many lines or columns a cell spans by its container; 1 where that is no number."""
    # of numbers like 2.0 the whole part; a negative one spans upwards in LaTeX, here one line
    number = re.fullmatch(r"\s*(-?[0-9]{1,6})(?:\.[0-9]*)?\s*", text or "")
    return min(LONGEST_SPAN, max(1, int(number[1]))) if number else 1


def line_of(cells: Iterable[str], number: int = 0) -> GridLine:
    """A line without spans."""
    return GridLine([GridCell(text[:LONGEST_CELL]) for text in cells], number)


class Spanned(NamedTuple):
    """A cell before spans are laid out."""

    text: str
    columns: int = 1
    rows: int = 1


def laid_out(rows: Sequence[Sequence[Spanned]]) -> list[list[GridCell]]:
    """Every cell at its column: one that spans several lines or columns is repeated there and
    marked.

    Raises:
        InputError: spans fill more than :data:`MOST_SPANNED` places.
    """
    spanned = 0
    pending: dict[int, tuple[int, GridCell]] = {}  # column -> lines still spanned, the cell there
    lines = []
    for row in rows:
        # the cells that reach down from the lines above
        cells = {place: cell for place, (_, cell) in pending.items()}
        pending = {place: (left - 1, cell) for place, (left, cell) in pending.items() if left > 1}

        # those of the line, in the columns that are left
        column = 0
        for text, columns, height in row:
            while column in cells:
                column += 1
            for place in range(column, column + columns):
                cells[place] = GridCell(text[:LONGEST_CELL], left=place > column)
                if height > 1:
                    pending[place] = height - 1, cells[place]._replace(above=True)
            column += columns

        # as wide as its last cell
        width = max(cells, default=-1) + 1
        spanned += width - len(row)
        if spanned > MOST_SPANNED:
            raise InputError(f"a table whose cells span more than {MOST_SPANNED:,} places")
        lines.append([cells.get(place, GridCell("")) for place in range(width)])
    return lines


def without_markup(text: str) -> str:
    """A cell of Markdown or HTML as it shows: links, images, tags and code marks gone."""
    if not text:
        return ""
    # images, footnotes and links
    text = re.sub(r"!\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])?", "", text[:LONGEST_SOURCE])
    text = re.sub(r"\s*\[\^\w+\]|\s*\[+\d+\]+\([^)]*\)", "", text)  # footnotes
    for _ in range(2):
        text = re.sub(r"\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\((?:[^()]|\([^()]*\))*\)", r"\1", text)

    # bold, and what is above or below the line
    text = re.sub(r"</?(?:b|strong)\b[^<>]*>", "", text).replace("**", "")
    text = re.sub(r"<(?:sup|sub)>\s*(?=[±+]|\\pm)(.*?)</su[pb]>", r" \1", text)
    text = re.sub(r"<sup\b[^<>]*>.*?</sup>", "", text)
    text = re.sub(r"<sub\b[^<>]*>(.*?)</sub>", r"_\1", text)

    # breaks and all other tags
    text = re.sub(r"(?<=\d)(\s*%?\**\s*)<br\s*/?>\s*(?=\**[-+(]?\d)", r"\1 / ", text)
    text = re.sub(r"<br\s*/?>", " ", text)
    text = re.sub(r"</?[A-Za-z][^<>]*>", "", text)
    text = re.sub(r"(?<!\w)_((?:[^_]|(?<=\w)_(?=\w))+)_(?!\w)", r"\1", text.replace("~~", ""))
    text = text.replace("`", "").replace(r"\|", "|")
    return re.sub(r"\s+", " ", html.unescape(text)).strip()


def line_numbers(text: str) -> Callable[[int], int]:
    """The line of a place in a text, without counting from its start each time."""
    ends = [mark.start() for mark in re.finditer("\n", text)]
    return lambda place: bisect_left(ends, place) + 1
