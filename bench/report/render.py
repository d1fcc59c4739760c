"""What a frame becomes: GitHub Markdown, CSV, LaTeX for a paper, or text for a terminal. No torch, no clock."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from tabulate import tabulate

from bench.record.store import write_atomically
from bench.report.escape import cell as escaped
from bench.report.escape import csv_cell, flat
from bench.report.frame import Cell, Footnotes, Frame, number_all


@dataclass(frozen=True)
class Paper:
    """What a table takes along into a paper, where the rest of the report is missing."""

    caption: str
    """what the numbers are of"""
    warnings: Sequence[str] = ()
    """what a reader has to know before the first number, as Markdown"""
    sources: Sequence[str] = ()
    """where the numbers come from: comments in the file"""


def write_table(folder: Path, stem: str, frame: Frame, title: str = "", paper: Paper | None = None) -> None:
    """Write ``STEM.csv``. With ``paper``, also write ``STEM.tex``. ``title`` replaces the table's own title."""
    write_atomically(folder / f"{stem}.csv", to_csv(frame).encode())
    if paper is not None:
        write_atomically(folder / f"{stem}.tex", to_latex(frame, title or frame.title, paper, f"tab:{stem}").encode())


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

    def text(cell: Cell) -> str:
        marked = " ".join([cell.text, *(f"[{numbered.number(note)}]" for note in cell.footnotes)])
        return f"**{marked}**" if cell.bold else marked

    rows = [[text(cell) for cell in (line.head, *line.cells)] for line in frame.printed_lines]
    if frame.width is None:
        return github(rows, frame.header, aligned(frame))
    columns = [[escaped(name) for name in column] for column in zip(frame.header, *rows, strict=True)]
    return "\n\n".join(_block(columns, aligned(frame), block) for block in _blocks(columns, frame.width))


def _blocks(columns: Sequence[Sequence[str]], width: int) -> list[list[int]]:
    """The numbers of the columns in each table: the first column in all of them, and as many others as fit."""
    sizes = [max(map(len, column)) + 3 for column in columns]
    blocks: list[list[int]] = [[0]]
    for i in range(1, len(columns)):
        if len(blocks[-1]) > 1 and 1 + sum(sizes[j] for j in blocks[-1]) + sizes[i] > width:
            blocks.append([0])
        blocks[-1].append(i)
    return blocks


def _block(columns: Sequence[Sequence[str]], sides: Sequence[str], block: Sequence[int]) -> str:
    """Some columns as one Markdown table without further spaces."""
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
    blocks: list[list[int]] = [[0]]
    for i in range(1, len(columns)):
        if len(blocks[-1]) > 1 and sum(sizes[j] + 2 for j in blocks[-1]) + sizes[i] > width:
            blocks.append([0])
        blocks[-1].append(i)
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
    for block in blocks:
        rule = "  ".join("-" * sizes[i] for i in block)
        below = [text for row in range(1, len(lines) + 1) for text in line(block, row)]
        drawn.append("\n".join([*line(block, 0), rule, *below]))
    return "\n\n".join(drawn)


def _bare(cell: Cell) -> str:
    """The words of a cell; ``*`` behind them where they are bold."""
    return flat(cell.text) + (" *" if cell.bold else "")


def _lines(name: str) -> str:
    """A column's title with its metric, or the second half of its words, in a second line."""
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


def _tex_cell(cell: Cell, own: Footnotes) -> str:
    """A cell as LaTeX, with the numbers of its footnotes."""
    numbers = ",".join(str(own.number(note)) for note in cell.footnotes)
    # control characters, which no text has, stand for commands until the text is escaped
    marked = flat(cell.text) + (f"\0{numbers}\1" if numbers else "")
    written = _tex(f"**{marked}**" if cell.bold else marked)
    return written.replace("\0", r"\textsuperscript{").replace("\1", "}")


def to_latex(frame: Frame, title: str, paper: Paper, label: str) -> str:
    """A ``table*`` with ``booktabs`` rules, no wider than the text (``graphicx``); footnotes numbered anew below it.

    Where the numbers come from is above it as comments.
    """
    own = Footnotes()
    lines = [[Cell(name) for name in frame.header], *([line.head, *line.cells] for line in frame.printed_lines)]
    rows = [_row([_tex_cell(cell, own) for cell in cells]) for cells in lines]
    notes = [rf"\textsuperscript{{{number}}} {tex(note)}" for number, note in enumerate(own.texts, start=1)]
    below = [*(tex(line) for line in [*paper.warnings, *frame.notes] if line), *notes]
    return (
        "\n".join(
            [
                r"% needs \usepackage{booktabs,graphicx}",
                *(f"% {flat(line)}" for line in paper.sources),
                r"\begin{table*}",
                r"\centering",
                rf"\caption{{{tex(f'{title}. {paper.caption}.')}}}",
                rf"\label{{{label}}}",
                r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
                rf"\begin{{tabular}}{{{''.join(side[0] for side in aligned(frame))}}}",
                r"\toprule",
                rows[0],
                r"\midrule",
                *rows[1:],
                r"\bottomrule",
                r"\end{tabular}}",
                *([r"\par\medskip\begin{minipage}{\linewidth}\footnotesize"] if below else []),
                *(line + r"\par" for line in below),
                *([r"\end{minipage}"] if below else []),
                r"\end{table*}",
            ]
        )
        + "\n"
    )
