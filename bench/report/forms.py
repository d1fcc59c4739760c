"""What a table becomes: GitHub Markdown, CSV, or LaTeX for a paper. No torch, no clock."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tabulate import tabulate

from bench.record.store import write_atomically
from bench.report.tables import Footnotes, Table

WORDS = {"start", "stage", "term", "where", "comparable", "Row here", "Quantity", "rule"}
"""Columns of words: they stand left."""


@dataclass(frozen=True)
class Paper:
    """What a table takes along into a paper, where nothing of the report stands around it."""

    caption: str
    """what the numbers are of"""
    warnings: Sequence[str] = ()
    """what a reader has to know before the first number, as Markdown"""
    footnotes: Footnotes | None = None
    sources: Sequence[str] = ()
    """where the numbers come from: comments in the file"""


def write_table(folder: Path, stem: str, table: Table, title: str = "", paper: Paper | None = None) -> None:
    """``STEM.csv``, and ``.tex`` with it where there is a ``paper``; ``title`` in the place of the table's own."""
    write_atomically(folder / f"{stem}.csv", csv_of(table).encode())
    if paper is not None:
        write_atomically(folder / f"{stem}.tex", latex_of(table, title or table.title, paper, f"tab:{stem}").encode())


def aligned(table: Table) -> list[str]:
    """``left`` or ``right`` for each column."""
    return ["left" if i == 0 or name in WORDS else "right" for i, name in enumerate(table.header)]


def grid(table: Table) -> str:
    """The table as GitHub Markdown; numbers stay as they were formatted."""
    return tabulate(table.rows, headers=table.header, tablefmt="github", colalign=aligned(table), disable_numparse=True)


def csv_of(table: Table) -> str:
    """Plain numbers, unrounded where the table has them."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table.values_header or table.header)
    writer.writerows(table.values)
    return out.getvalue()


SPECIAL = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "±": r"$\pm$", "×": r"$\times$", "–": "--"}
    | {"…": r"\ldots{}", "≥": r"$\geq$", "≤": r"$\leq$", "→": r"$\rightarrow$"}
)
MARK = re.compile(r"(?: ?\[\d+\])+")


def tex(text: str) -> str:
    """Our Markdown as LaTeX: bold, code, and a minus where a number is negative; the rest is escaped."""
    parts = re.split(r"(\*\*.+?\*\*|`[^`]+`)", text)
    return "".join(
        rf"\textbf{{{tex(part[2:-2])}}}"
        if part.startswith("**") and len(part) > 4
        else rf"\texttt{{{part[1:-1].translate(SPECIAL)}}}"
        if part.startswith("`") and len(part) > 2
        else re.sub(r"(?<![\w.-])-(?=\d)", "$-$", part.translate(SPECIAL))
        for part in parts
    )


def latex_of(table: Table, title: str, paper: Paper, label: str) -> str:
    """A ``table*`` with ``booktabs`` rules, no wider than the text (``graphicx``); footnotes numbered anew below it.

    Where the numbers come from stands above it as comments.
    """
    own: list[str] = []  # footnotes of this table, in the order of their first use

    def cell(text: str) -> str:
        if paper.footnotes is None:
            return tex(text)
        shown, last = [], 0
        for found in MARK.finditer(text):
            numbers = [int(number) for number in re.findall(r"\d+", found.group(0))]
            if not all(1 <= number <= len(paper.footnotes.texts) for number in numbers):
                continue  # brackets of somebody's own, in a row's name
            notes = [paper.footnotes.texts[number - 1] for number in numbers]
            own.extend(note for note in dict.fromkeys(notes) if note not in own)
            shown += [text[last : found.start()], f"\0{','.join(str(own.index(note) + 1) for note in notes)}\1"]
            last = found.end()
        marked = tex("".join([*shown, text[last:]]))
        return marked.replace("\0", r"\textsuperscript{").replace("\1", "}")

    rows = [" & ".join(cell(text) for text in row) + r" \\" for row in [table.header, *table.rows]]
    notes = [rf"\textsuperscript{{{number}}} {tex(note)}" for number, note in enumerate(own, start=1)]
    below = [*(tex(line) for line in [*paper.warnings, *table.notes] if line), *notes]
    return (
        "\n".join(
            [
                r"% needs \usepackage{booktabs,graphicx}",
                *(f"% {line}" for line in paper.sources),
                r"\begin{table*}",
                r"\centering",
                rf"\caption{{{tex(f'{title}. {paper.caption}.')}}}",
                rf"\label{{{label}}}",
                r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
                rf"\begin{{tabular}}{{{''.join(side[0] for side in aligned(table))}}}",
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
