"""What a table of a report becomes: GitHub Markdown and CSV, and the files of both and of LaTeX.

No torch, no clock.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from bench.files import write_atomically
from bench.report.escape import cell as escaped
from bench.report.escape import spreadsheet
from bench.report.latex import LatexTable, to_latex
from bench.report.table import Footnotes, Table, TableCell


def write_tables(
    folder: Path,
    tables: Mapping[str, Table],
    papers: Mapping[str, LatexTable] = MappingProxyType({}),
) -> None:
    """Write ``STEM.csv`` of each table, and ``STEM.tex`` of those for a paper.

    Every other table of the folder is removed, whoever put it there.
    """
    files = {f"{stem}.csv": to_csv(table) for stem, table in tables.items()}
    files |= {f"{stem}.tex": to_latex(table) for stem, table in papers.items()}
    for name, text in files.items():
        write_atomically(folder / name, text.encode())
    remove_stale_files(folder, files)


def remove_stale_files(folder: Path, names: Collection[str]) -> None:
    """Remove every table and picture of a folder that has none of these names."""
    for file in folder.glob("*"):
        if file.suffix in (".csv", ".svg", ".tex", ".pdf") and file.name not in names:
            file.unlink(missing_ok=True)


def to_markdown(table: Table, notes: Footnotes | None = None) -> str:
    """The table as GitHub Markdown; numbers stay as they were formatted.

    Args:
        notes: the footnotes of all tables so far, to which those of this one are added.
    """
    notes = Footnotes() if notes is None else notes
    rows = []
    for line in table.lines:
        rows.append([_marked(cell, notes) for cell in line.all_cells])
    blocks = [list(range(len(table.columns)))]
    if table.width is not None:
        blocks = _blocks(table, rows, table.width)
    parts = []
    for block in blocks:
        shown = [_at(row, block) for row in rows]
        parts.append(github(shown, _at(table.header, block), _at(table.sides, block)))
    return "\n\n".join(parts)


def _at(texts: Sequence[str], columns: Sequence[int]) -> list[str]:
    """The texts in these columns."""
    return [texts[column] for column in columns]


def _marked(cell: TableCell, notes: Footnotes) -> str:
    """The text of a cell with the numbers of its footnotes, bold if the cell is."""
    marks = [f"[{notes.number(note)}]" for note in cell.footnotes]
    text = " ".join([cell.text, *marks])
    return f"**{text}**" if cell.bold else text


BETWEEN = 3
"""Characters between two columns."""


def _blocks(table: Table, rows: Sequence[Sequence[str]], most: int) -> list[list[int]]:
    """The numbers of the columns in each block: the first one in all, and as many others as fit.

    Args:
        rows: texts of the cells.
        most: characters of a line.
    """
    widths = []
    for column in zip(table.header, *rows, strict=True):
        widths.append(BETWEEN + max(len(escaped(text)) for text in column))
    blocks: list[list[int]] = [[0]]
    for i in range(1, len(widths)):
        block = blocks[-1]
        width = 1 + sum(widths[j] for j in block) + widths[i]
        if len(block) > 1 and width > most:
            # a column that stays beside the one before it takes that along
            takes_along = table.columns[i].beside and len(block) > 2
            blocks.append([0, block.pop()] if takes_along else [0])
        blocks[-1].append(i)
    return blocks


def github(rows: Sequence[Sequence[str]], header: Sequence[str], sides: Sequence[str] | str) -> str:
    """Rows as a Markdown table; whatever is in a cell stays in it.

    Args:
        sides: ``left`` or ``right``, of each column or of all.
    """
    of_column = [sides] * len(header) if isinstance(sides, str) else sides
    aligned = []
    rule = []
    for column, side in zip(zip(header, *rows, strict=True), of_column, strict=True):
        texts = [escaped(text) for text in column]
        size = max(3, *map(len, texts))
        if side == "left":
            aligned.append([text.ljust(size) for text in texts])
            rule.append("-" * (size + 2))
        else:
            aligned.append([text.rjust(size) for text in texts])
            rule.append("-" * (size + 1) + ":")
    head, *lines = [f"| {' | '.join(cells)} |" for cells in zip(*aligned, strict=True)]
    return "\n".join([head, f"|{'|'.join(rule)}|", *lines])


def to_csv(table: Table) -> str:
    """Plain numbers, unrounded where the table has them."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows(map(spreadsheet, row) for row in (table.values_header, *table.values))
    return out.getvalue()
