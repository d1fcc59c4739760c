"""One table as a tidy frame: what each cell measures, and what it needs to be printed. No torch, no clock.

Tables make frames from records (``bench/report/tables/``). Markdown, LaTeX, CSV and the terminal's text are made from the
same frame (``bench/report/render.py``), so that no form of a table can have other numbers than the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Footnote:
    """What a reader has to know of one cell or row.

    Attributes:
        text: the words; of a note that names others, those before them.
        see: the other notes that it names.
        after: the words after them.
    """

    text: str
    see: tuple[Footnote, ...] = ()
    after: str = ""


class Footnotes:
    """Footnotes numbered once each, in the order of their first use. Notes of the same words are one."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def number(self, note: Footnote) -> int:
        """The number of a note, from 1 on. The notes that it names are numbered before it."""
        text = self.words(note)
        if text not in self.texts:
            self.texts.append(text)
        return self.texts.index(text) + 1

    def words(self, note: Footnote) -> str:
        """The words of a note, with the numbers of those that it names."""
        return note.text + " ".join(f"[{self.number(other)}]" for other in note.see) + note.after


@dataclass(frozen=True)
class TableCell:
    """One cell: a measured number with its interval, and how it is printed.

    Attributes:
        text: as it is printed, without bold and without the marks of footnotes.
        value: what was measured, unrounded, in the unit of its column; None for words and for what is missing.
        low, high: the 95 % interval of the value.
        deviation: the sample standard deviation over seeds; None for one seed.
        n: how many trainings the value is the mean of.
        keys: of the records that it is made of.
        footnotes: what a reader has to know of it.
        bold: whether it is the best of its column.
        plain: the text for a CSV file, if it differs from ``text``. Example: a row's name as a user types it.
        verdict: how a test ended, ``better``, ``worse``, ``keeps`` ...; "" where nothing was tested.
    """

    text: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    deviation: float | None = None
    n: int | None = None
    keys: tuple[str, ...] = ()
    footnotes: tuple[Footnote, ...] = ()
    bold: bool = False
    plain: str | None = None
    verdict: str = ""


Field = tuple[str, Callable[[TableCell], str]]
"""One column of a CSV file: what its title has behind the column's own, and the text of a cell."""


def csv_text(cell: TableCell) -> str:
    """The text of a cell in a CSV file: ``plain`` where the cell has one, else the printed text."""
    return cell.text if cell.plain is None else cell.plain


def exact(digits: int = 4) -> Callable[[TableCell], str]:
    """The text of a cell in a CSV file, where that is the value with so many decimals; empty where there is none."""
    return lambda cell: "" if cell.value is None else f"{cell.value:.{digits}f}"


def _deviation(cell: TableCell) -> str:
    return "" if cell.deviation is None else f"{cell.deviation:.4f}"


TEXT: tuple[Field, ...] = (("", csv_text),)
EXACT: tuple[Field, ...] = (("", exact()),)
SPREAD: tuple[Field, ...] = ((" mean", exact()), (" sd", _deviation), (" n", lambda cell: str(cell.n or 0)))
"""A mean over seeds, with its standard deviation and number of seeds."""


@dataclass(frozen=True)
class TableColumn:
    """One column: its title, whether it holds words (printed to the left), and its columns in a CSV file."""

    title: str
    words: bool = False
    csv: tuple[Field, ...] = TEXT


@dataclass(frozen=True)
class FrameLine:
    """One line of a table: its name, and a cell for each further column.

    Attributes:
        label: the name as it is typed; CSV files and look-ups have this one.
        cells: of the columns behind the first, in their order.
        name: as it is printed; "" where that is the label.
        footnotes: what a reader has to know of the whole line.
        only: ``csv`` for a line of the CSV file alone, ``markdown`` for one that every form but the CSV file has; "" for all forms.
        row: the label of the row that the line is of; None where it is ``label``, "" for a line of no row.
        continues: whether it stays below the line before it when a reader sorts the table.
    """

    label: str
    cells: tuple[TableCell, ...]
    name: str = ""
    footnotes: tuple[Footnote, ...] = ()
    only: str = ""
    row: str | None = None
    continues: bool = False

    @property
    def head(self) -> TableCell:
        """The name as a cell."""
        return TableCell(self.name or self.label, footnotes=self.footnotes, plain=self.label)


@dataclass(frozen=True)
class Frame:
    """One table: the title, the columns (the first one names the lines), the lines, and sentences below them.

    Attributes:
        file: the name of its files, where that is not the title.
        section: of a report in which it is printed.
        width: characters of a line of Markdown: columns that do not fit go into further tables below. None: any number.
        folded: whether a report shows it only on a click.
    """

    title: str
    columns: tuple[TableColumn, ...]
    lines: tuple[FrameLine, ...]
    notes: tuple[str, ...] = ()
    file: str = ""
    section: str = ""
    width: int | None = None
    folded: bool = False

    def __post_init__(self) -> None:
        for line in self.lines:
            if len(line.cells) != len(self.columns) - 1:
                columns = f"the {len(self.columns) - 1} columns behind the first"
                raise ValueError(f"{self.title}, {line.label}: {len(line.cells)} cells for {columns}")

    @property
    def header(self) -> list[str]:
        return [column.title for column in self.columns]

    @property
    def printed_lines(self) -> list[FrameLine]:
        """The lines of all forms but the CSV file."""
        return [line for line in self.lines if line.only != "csv"]

    @property
    def rows(self) -> list[list[str]]:
        """What is printed in each cell, without bold and footnotes."""
        return [[line.head.text, *(cell.text for cell in line.cells)] for line in self.printed_lines]

    @property
    def values_header(self) -> list[str]:
        """The titles of the columns of a CSV file."""
        return [column.title + suffix for column in self.columns for suffix, _ in column.csv]

    @property
    def values(self) -> list[list[str]]:
        """The cells of a CSV file, line by line."""
        return [
            [
                text(cell)
                for column, cell in zip(self.columns, [line.head, *line.cells], strict=True)
                for _, text in column.csv
            ]
            for line in self.lines
            if line.only != "markdown"
        ]

    def of(self, labels: Collection[str]) -> Frame:
        """The same table with the lines of these labels alone."""
        return replace(self, lines=tuple(line for line in self.lines if line.label in labels))

    def whole(self) -> Frame:
        """The same table with all lines in all its forms."""
        return replace(self, lines=tuple(replace(line, only="") for line in self.lines))


def number_all(frame: Frame, notes: Footnotes) -> None:
    """Number the footnotes of a table in the order of reading: line by line, from left to right."""
    for line in frame.printed_lines:
        for note in (*line.footnotes, *(note for cell in line.cells for note in cell.footnotes)):
            notes.number(note)
