"""What a table becomes: GitHub Markdown, CSV, LaTeX for a paper, or text for a terminal. No torch, no clock."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import ceil
from pathlib import Path

from bench.files import write_atomically
from bench.report.escape import cell as escaped
from bench.report.escape import csv_cell, flat
from bench.report.table import Footnotes, Table, TableCell


@dataclass(frozen=True)
class Paper:
    """What a table takes along into a paper, where the rest of the report is missing.

    Attributes:
        caption: what the numbers are of.
        warnings: what a reader has to know before the first number, as Markdown.
        sources: where the numbers come from: comments in the file.
        name: begins the labels of its tables, so that two reports fit in one paper.
    """

    caption: str
    warnings: Sequence[str] = ()
    sources: Sequence[str] = ()
    name: str = ""


def write_table(folder: Path, stem: str, table: Table, paper: Paper | None = None) -> None:
    """Write ``STEM.csv``. With ``paper``, also write ``STEM.tex``."""
    write_atomically(folder / f"{stem}.csv", to_csv(table).encode())
    if paper is not None:
        latex = to_latex(table, table.title, paper, f"tab:{paper.name}-{stem}")
        write_atomically(folder / f"{stem}.tex", latex.encode())


def remove_stale_files(folder: Path, stems: Sequence[str], latex: bool) -> None:
    """Remove every table and picture (.csv, .svg, .tex, .pdf) of the folder that this report does not have, whoever put it there."""
    for file in folder.glob("*"):
        for_paper = {".csv": False, ".svg": False, ".tex": True, ".pdf": True}.get(file.suffix)
        if for_paper is not None and (file.stem not in stems or (for_paper and not latex)):
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

    rows = [[text(cell) for cell in line.all_cells] for line in table.printed_lines]
    widths = [max(map(len, map(escaped, column))) for column in zip(table.header, *rows, strict=True)]
    blocks = [range(len(widths))] if table.width is None else _blocks(table, widths, table.width)

    def picked(cells: Sequence[str], block: Sequence[int]) -> list[str]:
        return [cells[i] for i in block]

    return "\n\n".join(
        github([picked(row, block) for row in rows], picked(table.header, block), picked(table.sides, block))
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
    is_left = [side == "left" for side in ([sides] * len(header) if isinstance(sides, str) else sides)]
    rule = ["-" * (size + 2) if left else "-" * (size + 1) + ":" for size, left in zip(sizes, is_left, strict=True)]
    aligned = [
        [text.ljust(size) if left else text.rjust(size) for text in column]
        for column, size, left in zip(columns, sizes, is_left, strict=True)
    ]
    head, *lines = [f"| {' | '.join(cells)} |" for cells in zip(*aligned, strict=True)]
    return "\n".join([head, f"|{'|'.join(rule)}|", *lines])


TERMINAL = 100
"""Characters of a line in a terminal."""
NAME = 40
"""Characters of a row's name in a line of a terminal; longer ones go on in the next."""


def to_terminal(table: Table, width: int = TERMINAL) -> str:
    """The table as plain text: no footnotes, ``*`` behind what is bold, and columns that do not fit in a block below."""
    cells = [[flat(cell.text) + (" *" if cell.bold else "") for cell in line.all_cells] for line in table.printed_lines]
    columns = []
    for i, title in enumerate(table.header):
        # a title has its bracket, or what follows its first `of`, in a second line
        first, bracket, rest = title.partition(" (")
        head = f"{first}\n({rest}" if bracket else title.replace(" of ", " of\n", 1)
        columns.append([head, *(_wrapped(row[i]) if i == 0 else row[i] for row in cells)])
    sizes = [max(len(line) for cell in column for line in cell.split("\n")) for column in columns]

    def drawn(block: Sequence[int], row: int) -> list[str]:
        """The lines of one row, each cell from the top."""
        lines = []
        for parts in zip_longest(*(columns[i][row].split("\n") for i in block), fillvalue=""):
            padded = (
                part.ljust(sizes[i]) if table.sides[i] == "left" else part.rjust(sizes[i])
                for i, part in zip(block, parts, strict=True)
            )
            lines.append("  ".join(padded).rstrip())
        return lines

    blocks = []
    for block in _blocks(
        table, sizes, width + 3, between=2
    ):  # nothing is printed before the first column or behind the last
        below = [text for row in range(1, len(cells) + 1) for text in drawn(block, row)]
        blocks.append("\n".join([*drawn(block, 0), "  ".join("-" * sizes[i] for i in block), *below]))
    return "\n\n".join(blocks)


def _wrapped(name: str) -> str:
    """A row's name in lines that break behind a colon or a space."""
    lines = [""]
    for part in re.split(r"(?<=[: ])", name):
        if lines[-1] and len(lines[-1]) + len(part) > NAME:
            lines.append("")
        lines[-1] += part
    return "\n".join(line[i : i + NAME] for line in lines for i in range(0, max(len(line), 1), NAME))


def to_csv(table: Table) -> str:
    """Plain numbers, unrounded where the table has them."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([csv_cell(value) for value in row] for row in (table.values_header, *table.values))
    return out.getvalue()


SPECIAL = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "±": r"$\pm$", "×": r"$\times$", "–": "--"}
    | {"…": r"\ldots{}", "≥": r"$\geq$", "≤": r"$\leq$", "→": r"$\rightarrow$"}
    | {"▲": r"$\uparrow$", "▼": r"$\downarrow$", "○": r"$\circ$"}
)


def tex(text: str) -> str:
    """Our Markdown as LaTeX: bold, code, and a minus where a number is negative; the rest is escaped."""
    return _tex(flat(text))


def _tex(text: str) -> str:
    """Of text on one line."""
    words = []
    for part in re.split(r"(\*\*.+?\*\*|`[^`]+`)", text):
        if part.startswith("**") and len(part) > 4:
            words.append(rf"\textbf{{{_tex(part[2:-2])}}}")
        elif part.startswith("`") and len(part) > 2:
            words.append(rf"\texttt{{{part[1:-1].translate(SPECIAL)}}}")
        else:
            words.append(re.sub(r"(?<![\w.-])-(?=\d)", "$-$", part.translate(SPECIAL)))
    return "".join(words)


def _tex_row(cells: Sequence[str]) -> str:
    """A row of a LaTeX table; a bracket at its beginning would belong to the ``\\\\`` before it."""
    text = " & ".join(cells)
    return ("{}" if text.lstrip().startswith(("[", "*")) else "") + text + r" \\"


def _tex_cell(cell: TableCell, notes: Footnotes) -> str:
    """A cell as LaTeX, with the numbers of its footnotes."""
    numbers = ",".join(str(notes.number(note)) for note in cell.footnotes)
    # control characters, which no text has, stand for commands until the text is escaped
    marked = flat(cell.text) + (f"\0{numbers}\1" if numbers else "")
    return _tex(f"**{marked}**" if cell.bold else marked).replace("\0", r"\textsuperscript{").replace("\1", "}")


TEX_WIDTH = 82
"""Characters of a line of a table in small type, about 4.5 pt each, in a text 14 cm wide: NeurIPS and ICLR; ACL's is 16 cm."""
TEX_LINES = 44
"""Lines of a page, in small type, without the caption."""
TEX_WORDS = 60
"""Characters of a column of words that is not broken into lines."""
TEX_NOTE = 95
"""Characters of a line of the notes below a table."""


def to_latex(table: Table, title: str, paper: Paper, label: str) -> str:
    """A ``table*`` with ``booktabs`` rules in ``\\small``, never scaled; footnotes are numbered anew below it.

    Columns that do not fit in the width of the text go into further blocks, and what does not fit on a page goes into further
    tables. Where the numbers come from is above it as comments.
    """
    notes = Footnotes()
    lines = [[TableCell(name) for name in table.header], *(line.all_cells for line in table.printed_lines)]
    rows = [[_tex_cell(cell, notes) for cell in cells] for cells in lines]

    # a long column of words is broken into lines: it has a share of the text's width
    widths = [max(len(line[i].text) for line in lines) for i in range(len(table.columns))]
    share = 0.5 if len(widths) > 2 else 0.7
    broken = [side == "left" and width > TEX_WORDS for side, width in zip(table.sides, widths, strict=True)]
    sides = [rf"p{{{share}\linewidth}}" if b else side[0] for b, side in zip(broken, table.sides, strict=True)]
    heights = [
        max(ceil(len(cell.text) / (share * TEX_WIDTH)) if b else 1 for cell, b in zip(line, broken, strict=True))
        for line in lines
    ]

    # parts of a page, with their lines: a tabular for each block of columns and page of rows, then the notes
    parts: list[tuple[str, int, bool]] = []
    for block in _blocks(table, [min(width, TEX_WORDS) for width in widths], TEX_WIDTH):
        for page in _pages(heights[1:], TEX_LINES - 3):
            head, *body = [_tex_row([rows[row][i] for i in block]) for row in (0, *(1 + row for row in page))]
            begin = rf"\begin{{tabular}}{{{''.join(sides[i] for i in block)}}}"
            text = "\n".join([begin, r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}"])
            parts.append((text, 3 + sum(heights[1 + row] for row in page), False))
    below = [tex(line) for line in [*paper.warnings, *table.notes] if line]
    below += [rf"\textsuperscript{{{i}}} {tex(note)}" for i, note in enumerate(notes.texts, start=1)]
    parts += [(note, ceil(len(note) / TEX_NOTE), True) for note in below]

    floats = []
    for page_number, page in enumerate(_pages([height for _, height, _ in parts], TEX_LINES), start=1):
        is_first = page_number == 1
        caption = tex(f"{title}. {paper.caption}." if is_first else f"{title}, continued")
        own_label = label if is_first else f"{label}-{page_number}"
        text = "\n".join([r"\begin{table*}", r"\centering\small", rf"\caption{{{caption}}}", rf"\label{{{own_label}}}"])
        text += "\n" + "\n\\par\\medskip\n".join(parts[i][0] for i in page if not parts[i][2])
        if below_it := [parts[i][0] + r"\par" for i in page if parts[i][2]]:
            minipage = r"\par\medskip\begin{minipage}{\linewidth}\footnotesize"
            text += "\n" + "\n".join([minipage, *below_it, r"\end{minipage}"])
        floats.append(text + "\n" + r"\end{table*}")
    head_lines = [
        r"% needs \usepackage{booktabs} and a text at least 14 cm wide",
        *(f"% {flat(s)}" for s in paper.sources),
    ]
    return "\n".join([*head_lines, *floats]) + "\n"


def _pages(heights: Sequence[int], most: int) -> list[list[int]]:
    """The numbers of the parts on each page: in their order, as many as fit."""
    pages: list[list[int]] = [[]]
    for i, height in enumerate(heights):
        if pages[-1] and sum(heights[j] for j in pages[-1]) + height > most:
            pages.append([])
        pages[-1].append(i)
    return pages
