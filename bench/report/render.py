"""What a frame becomes: GitHub Markdown, CSV, LaTeX for a paper, or text for a terminal. No torch, no clock."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import ceil
from pathlib import Path

from tabulate import tabulate

from bench.files import write_atomically
from bench.report.escape import cell as escaped
from bench.report.escape import csv_cell, flat
from bench.report.frame import Footnotes, Frame, TableCell, number_all


@dataclass(frozen=True)
class Paper:
    """What a table takes along into a paper, where the rest of the report is missing."""

    caption: str
    """what the numbers are of"""
    warnings: Sequence[str] = ()
    """what a reader has to know before the first number, as Markdown"""
    sources: Sequence[str] = ()
    """where the numbers come from: comments in the file"""
    name: str = ""
    """begins the labels of its tables, so that two reports fit in one paper"""


def write_table(folder: Path, stem: str, frame: Frame, title: str = "", paper: Paper | None = None) -> None:
    """Write ``STEM.csv``. With ``paper``, also write ``STEM.tex``. ``title`` replaces the table's own title."""
    write_atomically(folder / f"{stem}.csv", to_csv(frame).encode())
    if paper is not None:
        label = "-".join(("tab:" + paper.name, stem))
        write_atomically(folder / f"{stem}.tex", to_latex(frame, title or frame.title, paper, label).encode())


ENDINGS = {".csv": False, ".svg": False, ".tex": True, ".pdf": True}
"""Of the tables and pictures of a report; whether they are for a paper."""


def remove_stale_files(folder: Path, stems: Sequence[str], latex: bool) -> None:
    """Remove every table and picture (.csv, .svg, .tex, .pdf) of the folder that this report does not have, whoever put it there."""
    for file in folder.glob("*"):
        ending = ENDINGS.get(file.suffix)
        if ending is not None and (file.stem not in stems or (ending and not latex)):
            file.unlink(missing_ok=True)


def aligned(frame: Frame) -> list[str]:
    """``left`` or ``right`` for each column."""
    return ["left" if i == 0 or column.words else "right" for i, column in enumerate(frame.columns)]


def to_markdown(frame: Frame, notes: Footnotes | None = None) -> str:
    """The table as GitHub Markdown; numbers stay as they were formatted.

    Args:
        notes: the footnotes of all tables so far, to which those of this one are added.
    """
    numbered = Footnotes() if notes is None else notes
    number_all(frame, numbered)

    def text(cell: TableCell) -> str:
        marked = " ".join([cell.text, *(f"[{numbered.number(note)}]" for note in cell.footnotes)])
        return f"**{marked}**" if cell.bold else marked

    rows = [[text(cell) for cell in (line.head, *line.cells)] for line in frame.printed_lines]
    if frame.width is None:
        return github(rows, frame.header, aligned(frame))
    columns = [[escaped(name) for name in column] for column in zip(frame.header, *rows, strict=True)]
    widths = [max(map(len, column)) for column in columns]
    return "\n\n".join(_block(columns, aligned(frame), block) for block in _blocks(widths, frame.width))


def _blocks(widths: Sequence[int], most: int, between: int = 3) -> list[list[int]]:
    """The numbers of the columns in each table: the first column in all of them, and as many others as fit.

    Args:
        widths: characters of each column.
        most: characters of a line.
        between: characters between two columns.
    """
    blocks: list[list[int]] = [[0]]
    for i in range(1, len(widths)):
        if len(blocks[-1]) > 1 and 1 + sum(widths[j] + between for j in (*blocks[-1], i)) > most:
            blocks.append([0])
        blocks[-1].append(i)
    return blocks


def _block(columns: Sequence[Sequence[str]], sides: Sequence[str], block: Sequence[int]) -> str:
    """Some columns as one Markdown table. Unlike :func:`github` it adds no padding to the headings, so that :func:`_blocks` can
    count the characters.
    """
    sizes = {i: max(3, *map(len, columns[i])) for i in block}
    lines = [
        [columns[i][row].ljust(sizes[i]) if sides[i] == "left" else columns[i][row].rjust(sizes[i]) for i in block]
        for row in range(len(columns[0]))
    ]
    rule = [("-" * (sizes[i] + 2) if sides[i] == "left" else "-" * (sizes[i] + 1) + ":") for i in block]
    head, *rows = (f"| {' | '.join(cells)} |" for cells in lines)
    return "\n".join([head, f"|{'|'.join(rule)}|", *rows])


def github(rows: Sequence[Sequence[str]], header: Sequence[str], sides: Sequence[str] | str) -> str:
    """Rows as a Markdown table; whatever is in a cell stays in it.

    Args:
        sides: ``left`` or ``right``, of each column or of all.
    """
    columns = [sides] * len(header) if isinstance(sides, str) else list(sides)
    cells, heads = [[escaped(text) for text in row] for row in rows], [escaped(name) for name in header]
    return tabulate(cells, headers=heads, tablefmt="github", colalign=columns if cells else None, disable_numparse=True)


TERMINAL = 100
"""Characters of a line in a terminal."""
NAME = 40
"""Characters of a row's name in a line of a terminal; longer ones go on in the next."""


def to_terminal(frame: Frame, width: int = TERMINAL) -> str:
    """The table as plain text: no footnotes, ``*`` behind what is bold, and columns that do not fit in a block below."""
    lines = [[line.head, *line.cells] for line in frame.printed_lines]
    columns = [[_lines(name), *(_bare(cells[i]) for cells in lines)] for i, name in enumerate(frame.header)]
    columns[0] = [columns[0][0], *(_wrapped(name) for name in columns[0][1:])]
    sizes = [max(len(line) for cell in column for line in cell.split("\n")) for column in columns]
    lefts = [side == "left" for side in aligned(frame)]

    def line(block: Sequence[int], row: int) -> list[str]:
        """The lines of one row, each cell from the top."""
        cells = [columns[i][row].split("\n") for i in block]
        return [
            "  ".join(
                part.ljust(sizes[i]) if lefts[i] else part.rjust(sizes[i]) for i, part in zip(block, parts, strict=True)
            ).rstrip()
            for parts in zip_longest(*cells, fillvalue="")
        ]

    drawn = []
    for block in _blocks(sizes, width + 3, between=2):  # nothing is printed before the first column or behind the last
        rule = "  ".join("-" * sizes[i] for i in block)
        below = [text for row in range(1, len(lines) + 1) for text in line(block, row)]
        drawn.append("\n".join([*line(block, 0), rule, *below]))
    return "\n\n".join(drawn)


def _bare(cell: TableCell) -> str:
    """The words of a cell; ``*`` behind them where they are bold."""
    return flat(cell.text) + (" *" if cell.bold else "")


def _lines(name: str) -> str:
    """A column's title; in a second line its bracket, or what follows its first `` of ``."""
    first, bracket, rest = name.partition(" (")
    return f"{first}\n({rest}" if bracket else name.replace(" of ", " of\n", 1)


def _wrapped(name: str) -> str:
    """A row's name in lines that break behind a colon or a space."""
    lines = [""]
    for part in re.split(r"(?<=[: ])", name):
        if lines[-1] and len(lines[-1]) + len(part) > NAME:
            lines.append("")
        lines[-1] += part
    return "\n".join(line[i : i + NAME] for line in lines for i in range(0, max(len(line), 1), NAME))


def to_csv(frame: Frame) -> str:
    """Plain numbers, unrounded where the table has them."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([csv_cell(name) for name in frame.values_header])
    writer.writerows([csv_cell(value) for value in row] for row in frame.values)
    return out.getvalue()


SPECIAL = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "±": r"$\pm$", "×": r"$\times$", "–": "--"}
    | {"…": r"\ldots{}", "≥": r"$\geq$", "≤": r"$\leq$", "→": r"$\rightarrow$"}
)


def tex(text: str) -> str:
    """Our Markdown as LaTeX: bold, code, and a minus where a number is negative; the rest is escaped."""
    return _tex(flat(text))


def _tex(text: str) -> str:
    """Of text on one line."""
    parts = re.split(r"(\*\*.+?\*\*|`[^`]+`)", text)
    return "".join(
        rf"\textbf{{{_tex(part[2:-2])}}}"
        if part.startswith("**") and len(part) > 4
        else rf"\texttt{{{part[1:-1].translate(SPECIAL)}}}"
        if part.startswith("`") and len(part) > 2
        else re.sub(r"(?<![\w.-])-(?=\d)", "$-$", part.translate(SPECIAL))
        for part in parts
    )


def _row(cells: Iterable[str]) -> str:
    """A row of a LaTeX table; a bracket at its beginning would belong to the ``\\\\`` before it."""
    text = " & ".join(cells)
    return ("{}" if text.lstrip().startswith(("[", "*")) else "") + text + r" \\"


def _tex_cell(cell: TableCell, own: Footnotes) -> str:
    """A cell as LaTeX, with the numbers of its footnotes."""
    numbers = ",".join(str(own.number(note)) for note in cell.footnotes)
    # control characters, which no text has, stand for commands until the text is escaped
    marked = flat(cell.text) + (f"\0{numbers}\1" if numbers else "")
    written = _tex(f"**{marked}**" if cell.bold else marked)
    return written.replace("\0", r"\textsuperscript{").replace("\1", "}")


TEX_WIDTH = 82
"""Characters of a line of a table in small type, about 4.5 pt each, in a text 14 cm wide: NeurIPS and ICLR; ACL's is 16 cm."""
TEX_LINES = 44
"""Lines of a page, in small type, without the caption."""
TEX_WORDS = 60
"""Characters of a column of words that is not broken into lines."""
TEX_NOTE = 95
"""Characters of a line of the notes below a table."""


@dataclass(frozen=True)
class _Part:
    """What has to be on one page: a ``tabular`` and the space behind it, or one of the sentences below."""

    text: str
    lines: int
    is_note: bool = False


def _tabulars(
    rows: Sequence[Sequence[str]], heights: Sequence[int], sides: Sequence[str], block: Sequence[int]
) -> list[_Part]:
    """Some columns as one ``tabular`` a page; the first row is the heading of each.

    Args:
        heights: lines of each row.
    """
    pages: list[list[int]] = [[]]
    for row in range(1, len(rows)):
        if pages[-1] and sum(heights[other] for other in pages[-1]) + heights[row] > TEX_LINES - 3:
            pages.append([])
        pages[-1].append(row)
    columns = "".join(sides[i] for i in block)

    def tabular(numbers: Sequence[int]) -> str:
        head, *body = [_row([rows[row][i] for i in block]) for row in (0, *numbers)]
        lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule", *body]
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])

    return [_Part(tabular(page), 3 + sum(heights[row] for row in page)) for page in pages]


def _pages(parts: Sequence[_Part]) -> list[list[_Part]]:
    """The parts in their order, as many on each page as fit."""
    pages: list[list[_Part]] = [[]]
    for part in parts:
        if pages[-1] and sum(other.lines for other in pages[-1]) + part.lines > TEX_LINES:
            pages.append([])
        pages[-1].append(part)
    return pages


def _float(page: Sequence[_Part], caption: str, label: str) -> str:
    """A ``table*``: tabulars one below the other, and sentences below them."""
    lines = [r"\begin{table*}", r"\centering\small", rf"\caption{{{tex(caption)}}}", rf"\label{{{label}}}"]
    tabulars = [part.text for part in page if not part.is_note]
    below = [part.text + r"\par" for part in page if part.is_note]
    lines.append("\n\\par\\medskip\n".join(tabulars))
    if below:
        lines += [r"\par\medskip\begin{minipage}{\linewidth}\footnotesize", *below, r"\end{minipage}"]
    return "\n".join([*lines, r"\end{table*}"])


def to_latex(frame: Frame, title: str, paper: Paper, label: str) -> str:
    """A ``table*`` with ``booktabs`` rules in ``\\small``, never scaled; footnotes are numbered anew below it.

    Columns that do not fit in the width of the text go into further blocks, and what does not fit on a page goes into further
    tables. Where the numbers come from is above it as comments.
    """
    own = Footnotes()
    lines = [[TableCell(name) for name in frame.header], *([line.head, *line.cells] for line in frame.printed_lines)]
    rows = [[_tex_cell(cell, own) for cell in cells] for cells in lines]
    widths = [max(len(line[i].text) for line in lines) for i in range(len(lines[0]))]
    share = 0.5 if len(widths) > 2 else 0.7  # of the text's width, for a column of words
    broken = [side == "left" and width > TEX_WORDS for side, width in zip(aligned(frame), widths, strict=True)]
    sides = [
        rf"p{{{share}\linewidth}}" if words else side[0] for words, side in zip(broken, aligned(frame), strict=True)
    ]
    heights = [
        max(
            ceil(len(cell.text) / (share * TEX_WIDTH)) if words else 1 for cell, words in zip(line, broken, strict=True)
        )
        for line in lines
    ]
    blocks = _blocks([min(width, TEX_WORDS) for width in widths], TEX_WIDTH)
    tabulars = [part for block in blocks for part in _tabulars(rows, heights, sides, block)]
    notes = [rf"\textsuperscript{{{number}}} {tex(note)}" for number, note in enumerate(own.texts, start=1)]
    below = [*(tex(line) for line in [*paper.warnings, *frame.notes] if line), *notes]
    pages = _pages([*tabulars, *(_Part(note, ceil(len(note) / TEX_NOTE), is_note=True) for note in below)])
    floats = [
        _float(page, f"{title}. {paper.caption}.", label)
        if number == 1
        else _float(page, f"{title}, continued", f"{label}-{number}")
        for number, page in enumerate(pages, start=1)
    ]
    head = [
        r"% needs \usepackage{booktabs} and a text at least 14 cm wide",
        *(f"% {flat(line)}" for line in paper.sources),
    ]
    return "\n".join([*head, *floats]) + "\n"
