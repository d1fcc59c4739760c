"""One printed table: what each cell measures, and how it is printed.

Every format is made from it (``render.py``). No torch, no clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

DASH = "–"
BUSY = " (busy)"
"""Behind the title of a column of times that were taken on a busy machine."""


class Footnotes:
    """Footnotes numbered once each, in the order of their first use.

    Notes of the same words are one.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    @property
    def texts(self) -> list[str]:
        """All notes so far, in the order of their numbers."""
        return list(self._numbers)

    def number(self, note: str) -> int:
        """The number of a note, from 1 on."""
        return self._numbers.setdefault(note, len(self._numbers) + 1)


@dataclass(frozen=True)
class TableCell:
    """One cell: a measured number with its interval, and how it is printed.

    Attributes:
        text: as it is printed, without bold and without the marks of footnotes.
        value: what was measured, unrounded, in the unit of its column; None for words and for what
            is missing.
        low, high: the 95 % interval of the value.
        deviation: the sample standard deviation over seeds; None for one seed.
        n: how many trainings the value is the mean of.
        keys: of the records that it is made of.
        bold: whether it is the best of its column.
        plain: the text for a CSV file, if it differs from ``text``. Example: a row's name as a user
            types it.
        p, alone: of the test of the value, after Holm's adjustment and before it.
        verdict: how a test ended, ``better``, ``worse``, ``keeps`` ...; "" where nothing was
            tested.
        is_within: of a difference, whether it is shown to be within the margin of
            :mod:`bench.stats.equivalence`; None where that was not asked.
    """

    text: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    deviation: float | None = None
    n: int | None = None
    keys: tuple[str, ...] = ()
    footnotes: tuple[str, ...] = ()
    bold: bool = False
    plain: str | None = None
    p: float | None = None
    alone: float | None = None
    verdict: str = ""
    is_within: bool | None = None


def number(value: float | None, form: str = ".1f", unit: str = "", **facts: Any) -> TableCell:
    """The cell of a number, with its interval in brackets where ``facts`` have one.

    It is a dash where there is no number.

    Args:
        facts: other attributes of the cell.
    """
    if value is None:
        return TableCell(DASH)
    # a difference of equal answers is 0 up to rounding, and has no sign
    if isinstance(value, float):
        value = round(value, EXACT) + 0.0
    for name in ("low", "high"):
        if facts.get(name) is not None:
            facts[name] = round(facts[name], EXACT) + 0.0

    text = f"{value:{form}}{unit}"
    low = facts.get("low")
    high = facts.get("high")
    if low is not None and high is not None:
        text += f" ({low:{form}} to {high:{form}})"
    return TableCell(text, value=value, **facts)


EXACT = 12
"""Numbers that differ only in further decimals are one number."""
Fields = Mapping[str, str]
"""The columns that one column has in a CSV file.

The key is what their titles have behind its own, the value is the attribute of its cells.
"""
TEXT: Fields = {"": "text"}
VALUE: Fields = {"": "value"}
SPREAD: Fields = {" mean": "value", " sd": "deviation", " n": "n"}
INTERVAL: Fields = {"": "value", " low": "low", " high": "high"}
JUDGED: Fields = {**INTERVAL, " verdict": "verdict"}
CHOSEN: Fields = {"": "text", " score": "high", " lowest": "low", " trials": "seeds"}
TESTED: Fields = {**INTERVAL, " p": "alone", " p, Holm": "p", " verdict": "verdict"}
COMPARED: Fields = {**TESTED, " n": "seeds"}


class Column(NamedTuple):
    """One column of a table.

    Attributes:
        words: it holds words: they are printed to the left, and are text in a CSV file.
        csv: its columns in a CSV file; of words their text alone where nothing else is said.
        digits: decimals of its numbers there.
        beside: it stays beside the column before it where a table is broken into blocks.
    """

    title: str
    words: bool = False
    csv: Fields = VALUE
    digits: int = 4
    beside: bool = False


@dataclass(frozen=True)
class Line:
    """One line of a table: its name, and a cell for each further column.

    Attributes:
        label: the name as it is typed; CSV files and look-ups have this one.
        name: as it is printed; "" where that is the label.
        footnotes: what a reader has to know of the whole line.
        row: the label of the row that the line is of; None where it is ``label``, "" for a line of
            no row.
    """

    label: str
    cells: Sequence[TableCell]
    name: str = ""
    footnotes: tuple[str, ...] = ()
    row: str | None = None

    @property
    def all_cells(self) -> list[TableCell]:
        """The name as a cell, and the others."""
        name = TableCell(self.name or self.label, footnotes=self.footnotes, plain=self.label)
        return [name, *self.cells]


@dataclass(frozen=True)
class Table:
    """One table: the title, the columns, the lines, and sentences below them.

    The first column names the lines.

    Attributes:
        file: the name of its files, where that is not the title.
        section: of a report in which it is printed.
        width: characters of a line of Markdown: columns that do not fit go into further tables
            below. None: any number.
        folded: whether a report shows it only on a click.
    """

    title: str
    columns: Sequence[Column]
    lines: Sequence[Line]
    notes: Sequence[str] = ()
    file: str = ""
    section: str = ""
    width: int | None = None
    folded: bool = False

    @property
    def header(self) -> list[str]:
        """The titles of the columns."""
        return [column.title for column in self.columns]

    @property
    def sides(self) -> list[str]:
        """``left`` or ``right`` for each column."""
        words = ["left" if column.words else "right" for column in self.columns]
        return ["left", *words[1:]]

    @property
    def rows(self) -> list[list[str]]:
        """What is printed in each cell, without bold and footnotes."""
        rows = []
        for line in self.lines:
            rows.append([cell.text for cell in line.all_cells])
        return rows

    @property
    def _fields(self) -> list[Fields]:
        """What a CSV file has of each column; of names and of words their text."""
        fields = []
        for i, column in enumerate(self.columns):
            is_text = i == 0 or (column.words and column.csv is VALUE)
            fields.append(TEXT if is_text else column.csv)
        return fields

    @property
    def values_header(self) -> list[str]:
        """The titles of the columns of a CSV file, which are the same on a busy machine: there a
        further column says that it was busy."""
        titles = []
        for column, fields in zip(self.columns, self._fields, strict=True):
            title = column.title.removesuffix(BUSY)
            titles += [title + suffix for suffix in fields]
            if title != column.title:
                titles.append(f"{title} busy")
        return titles

    @property
    def values(self) -> list[list[str]]:
        """The cells of a CSV file, line by line: numbers without units, one in each cell.

        A cell is empty where there is no number.
        """
        return [self._values_of(line) for line in self.lines]

    def _values_of(self, line: Line) -> list[str]:
        """The cells of a CSV file on one line."""
        values = []
        for column, fields, cell in zip(self.columns, self._fields, line.all_cells, strict=True):
            for attribute in fields.values():
                values.append(_plain(cell, attribute, column.digits))
            if column.title.endswith(BUSY):
                values.append("yes")
        return values


def _plain(cell: TableCell, attribute: str, digits: int) -> str:
    """An attribute of a cell as a CSV file has it."""
    if attribute == "text":
        text = cell.text if cell.plain is None else cell.plain
        return "" if text == DASH else text
    if attribute == "n":
        return str(cell.n or 0)
    if attribute == "seeds":  # n, where a cell may have none without lacking anything
        return "" if cell.n is None else str(cell.n)
    value = getattr(cell, attribute)
    if isinstance(value, float):
        return f"{value:.4g}" if attribute in ("p", "alone") else f"{value:.{digits}f}"
    return "" if value is None else str(value)
