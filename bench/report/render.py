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

    def text(cell: TableCell) -> str:
        marked = " ".join([cell.text, *(f"[{notes.number(note)}]" for note in cell.footnotes)])
        return f"**{marked}**" if cell.bold else marked

    rows = [[text(cell) for cell in line.all_cells] for line in table.lines]
    widths = [
        max(map(len, map(escaped, column))) for column in zip(table.header, *rows, strict=True)
    ]
    blocks = [range(len(widths))] if table.width is None else _blocks(table, widths, table.width)

    def picked(cells: Sequence[str], block: Sequence[int]) -> list[str]:
        return [cells[i] for i in block]

    return "\n\n".join(
        github(
            [picked(row, block) for row in rows],
            picked(table.header, block),
            picked(table.sides, block),
        )
        for block in blocks
    )


def _blocks(table: Table, widths: Sequence[int], most: int, between: int = 3) -> list[list[int]]:
    """The numbers of the columns in each block: the first column in all of them, and as many others as fit.

    Args:
        widths: characters of each column.
        most: characters of a line.
        between: characters between two columns.
    """
    blocks: list[list[int]] = [[0]]
    for i in range(1, len(widths)):
        if len(blocks[-1]) > 1 and 1 + sum(widths[j] + between for j in (*blocks[-1], i)) > most:
            held = [blocks[-1].pop()] if table.columns[i].beside and len(blocks[-1]) > 2 else []
            blocks.append([0, *held])
        blocks[-1].append(i)
    return blocks


def github(rows: Sequence[Sequence[str]], header: Sequence[str], sides: Sequence[str] | str) -> str:
    """Rows as a Markdown table; whatever is in a cell stays in it.

    Args:
        sides: ``left`` or ``right``, of each column or of all.
    """
    columns = [[escaped(text) for text in column] for column in zip(header, *rows, strict=True)]
    sizes = [max(3, *map(len, column)) for column in columns]
    is_left = [
        side == "left" for side in ([sides] * len(header) if isinstance(sides, str) else sides)
    ]
    rule = [
        "-" * (size + 2) if left else "-" * (size + 1) + ":"
        for size, left in zip(sizes, is_left, strict=True)
    ]
    aligned = [
        [text.ljust(size) if left else text.rjust(size) for text in column]
        for column, size, left in zip(columns, sizes, is_left, strict=True)
    ]
    head, *lines = [f"| {' | '.join(cells)} |" for cells in zip(*aligned, strict=True)]
    return "\n".join([head, f"|{'|'.join(rule)}|", *lines])


def to_csv(table: Table) -> str:
    """Plain numbers, unrounded where the table has them."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows(map(spreadsheet, row) for row in (table.values_header, *table.values))
    return out.getvalue()
