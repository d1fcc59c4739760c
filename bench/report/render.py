"""What a table becomes: GitHub Markdown, CSV, or LaTeX for a paper. No torch, no clock."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.files import write_atomically
from bench.report.escape import cell as escaped
from bench.report.escape import flat, spreadsheet
from bench.report.table import Footnotes, Line, Table, TableCell


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


def write_tables(folder: Path, tables: Mapping[str, tuple[Table, Paper]], latex: bool) -> None:
    """Write ``STEM.csv`` of each table, and ``STEM.tex`` where LaTeX is asked for; files of other tables are removed."""
    for stem, (table, paper) in tables.items():
        write_atomically(folder / f"{stem}.csv", to_csv(table).encode())
        if latex:
            write_atomically(folder / f"{stem}.tex", to_latex(table, paper, stem).encode())
    remove_stale_files(folder, tables, latex)


def remove_stale_files(folder: Path, stems: Collection[str], latex: bool) -> None:
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


SPECIAL = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "±": r"$\pm$",
        "×": r"$\times$",
        "–": "--",
    }
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


FIELD = {
    "cola": "CoLA",
    "sst2": "SST-2",
    "mrpc": "MRPC",
    "stsb": "STS-B",
    "qqp": "QQP",
    "mnli": "MNLI",
    "qnli": "QNLI",
}
FIELD |= {"mnli-m": "MNLI-m", "mnli-mm": "MNLI-mm", "rte": "RTE", "wnli": "WNLI"}
"""Tasks as papers spell them."""
SIGNS = {"better": "*", "keeps": "*", "worse": r"\dagger", "loses": r"\dagger"}
"""Verdict -> its sign in a paper."""
TEX_COLUMN, TEX_TEXT = 216.0, 394.0
"""Points that a table has: in a column of ACL (3.03 in), and in the text of NeurIPS (5.5 in), which is narrower than ACL's."""
TEX_SIZES = (
    (r"\small", 4.6, 4.0, 12.0),
    (r"\footnotesize", 4.1, 3.0, 11.0),
    (r"\scriptsize", 3.7, 2.5, 9.5),
)
"""Type, points of a character, of the space at each side of a column, and of a line (in a paper of 11 points: others have less)."""
SMALL = 3.6
"""Points of a character of deviations, intervals and marks."""
TEX_PAGE, TEX_CAPTION, TEX_RULES = 620.0, 50.0, 20.0
"""Points: the height of a float that fits on a page of NeurIPS (648), of its caption, and of the rules and the space of a block."""
TEX_WORDS = 45
"""Characters of a column of words that is not broken into lines."""
TEX_NOTE = 90
"""Characters of a footnote; of a longer one its beginning is printed, and all of it is in the comments."""


def _has_interval(cell: TableCell) -> bool:
    """Whether an interval is printed; a size has the ends of a range there."""
    return cell.value is not None and cell.low is not None and " to " in cell.text


def _tex_cell(
    cell: TableCell, notes: Footnotes, interval: bool, small_share: float
) -> tuple[str, float]:
    """A cell as LaTeX: what is measured, in small type what follows it, and its marks above the line; and its width in characters.

    Args:
        small_share: the width of a character in small type.
    """
    marks = [chr(96 + notes.number(note)) for note in cell.footnotes][:26]
    text, small = flat(cell.text), ""
    if cell.value is not None:
        text, _, rest = text.removesuffix(" %").partition(" ")
        digits = len(text.rstrip("x").partition(".")[2])
        if cell.deviation is not None:
            small = f"±{cell.deviation:.{digits}f}"
        elif interval and _has_interval(cell):
            small = f" [{cell.low:.{digits}f}, {cell.high:.{digits}f}]"
        small += " (n = " + rest.partition("(n = ")[2] if "(n = " in rest else ""
        text = f"{text[:-1]}×" if text.endswith("x") else text
        marks = [f"${sign}$" if (sign := SIGNS.get(cell.verdict, "")) else "", *marks]
    text, mark = _tex(f"**{text}**" if cell.bold else text), ",".join(filter(None, marks))
    small = (r"\," if small.startswith(" ") else "") + _tex(small.strip())
    width = len(plain(text)) * (1.1 if r"\textbf" in text else 1.0) + small_share * len(
        plain(small) + plain(mark)
    )
    small = rf"{{\scriptsize {small}}}" if small else ""
    return text + small + (rf"\textsuperscript{{{mark}}}" if mark else ""), width


def _tex_notes(table: Table, lines: Sequence[Line], interval: bool, said: Sequence[str]) -> str:
    """What the signs of these lines of a table mean, in a line."""
    cells = [cell for line in lines for cell in line.cells]
    verdicts = {cell.verdict for cell in cells}
    # each row of the leaderboard has one test, which is not adjusted: its mean
    has_family = any(
        cell.verdict and cell.alone not in (None, cell.p)
        for line in table.lines
        for cell in line.cells
    )
    has_mean = any(column.title.startswith("mean of") for column in table.columns)
    adjusted = (
        "Holm over the columns of a row"
        + ("; its mean is one test, not adjusted" if has_mean else "")
        if has_family
        else "one test a row, not adjusted"
    )
    margin = "" if table.margin is None else rf", margin {100 * table.margin:g}\,\%"
    meanings = {
        r"$\pm$: standard deviation over seeds.": any(cell.deviation is not None for cell in cells),
        r"[\,]: 95\,\% interval.": interval and any(map(_has_interval, cells)),
        "Bold: the highest.": any(cell.bold for cell in cells),
        rf"$^{{*}}$\,better, $^{{\dagger}}$\,worse ($p<0.05$, {adjusted}).": {"better", "worse"}
        & verdicts,
        rf"$^{{*}}$\,keeps, $^{{\dagger}}$\,loses its teacher's score (non-inferiority{margin}).": {
            "keeps",
            "loses",
        }
        & verdicts,
    }
    return " ".join([*said, *(meaning for meaning, applies in meanings.items() if applies)])


def to_latex(table: Table, paper: Paper, stem: str) -> str:
    """A float with ``booktabs`` rules that fits in a column or in the text of NeurIPS and ACL; nothing in it is scaled.

    Cells have numbers and signs, deviations and intervals in small type; one line below says what the signs mean. What a reader of
    the paper does not need stands above as comments. Only a table that is longer than a page has a second float.

    Args:
        stem: ends its label.
    """
    lines = table.lines
    # a column of words or counts that says the same of all rows is said once, below
    shown, said = [0], []
    for i, column in enumerate(table.columns[1:], start=1):
        texts = {line.cells[i - 1].text for line in lines if line.row != ""}
        if (column.words or column.digits == 0) and len(texts) == 1 and len(lines) > 1:
            said.append(tex(f"{column.title.capitalize()}: {texts.pop()}."))
        else:
            shown.append(i)
    heads = []
    for i in shown:
        name, bracket, rest = table.header[i].partition(" (")
        if not bracket and len(name) > 8:  # "mean of 4 differences", "difference to finetune"
            name, _, rest = name.removesuffix(" differences").partition(" ")
        heads.append((tex(FIELD.get(name, name)), tex(rest.removesuffix(")"))))

    # as few blocks as possible, in the largest type of those; a test says too little without its interval, other numbers may lose theirs
    is_tested = any(cell.verdict for line in lines for cell in line.cells)
    without = [] if is_tested else [(False, fit) for fit in TEX_SIZES]
    layouts = []
    for interval, (size, character, space, height) in [
        *((True, fit) for fit in TEX_SIZES),
        *without,
    ]:
        notes = Footnotes()
        body = [
            [_tex_cell(line.all_cells[i], notes, interval, SMALL / character) for i in shown]
            for line in lines
        ]
        widths = [
            character
            * min(
                TEX_WORDS,
                max(*(width for _, width in column), len(plain(head)), 0.8 * len(plain(below))),
            )
            for (head, below), column in zip(heads, zip(*body, strict=True), strict=True)
        ]
        # behind the last column is no space
        blocks = _blocks(
            table, list(map(round, widths)), round(TEX_TEXT + 2 * space), round(2 * space)
        )
        width = max(sum(widths[i] + 2 * space for i in block) for block in blocks) - 2 * space
        words = " ".join([_tex_notes(table, lines, interval, said), *map(_tex_note, notes.texts)])
        narrow = min(max(width, TEX_COLUMN - 4), TEX_TEXT)
        high = TEX_PAGE - TEX_CAPTION - 9.5 * (1 + len(plain(words)) * SMALL // narrow)
        # a block has two lines of heads
        on_a_page = max(1, int((high / len(blocks) - TEX_RULES) / height) - 2)
        count = -(-len(body) // on_a_page)
        layouts.append(
            (len(blocks), count, interval, size, character, space, notes, body, blocks, width)
        )
    _, count, interval, size, character, space, notes, body, blocks, width = min(
        layouts, key=lambda layout: layout[:2]
    )
    sides = []
    for i in shown:
        is_broken = (
            table.sides[i] == "left"
            and max(len(line.all_cells[i].text) for line in lines) > TEX_WORDS
        )
        sides.append(rf"p{{{TEX_WORDS * character:.0f}pt}}" if is_broken else table.sides[i][0])

    environment = "table" if width <= TEX_COLUMN else "table*"
    narrow = min(max(width, TEX_COLUMN - 4), TEX_TEXT)
    on_a_page = -(-len(body) // count)  # not two lines alone on the last page
    floats, label = [], f"tab:{paper.name}-{stem}"
    for number, begin in enumerate(range(0, len(body), on_a_page), start=1):
        caption = tex(
            spelled(
                f"{table.title}. {paper.caption}." if number == 1 else f"{table.title}, continued"
            )
        )
        text = [
            rf"\begin{{{environment}}}",
            r"\centering",
            size,
            rf"\setlength{{\tabcolsep}}{{{space}pt}}",
        ]
        text += [
            rf"\caption{{{caption}}}",
            rf"\label{{{label if number == 1 else f'{label}-{number}'}}}",
        ]
        for block in blocks:
            text += [r"\medskip"] if block != blocks[0] else []
            text += [
                rf"\begin{{tabular}}{{@{{}}{''.join(sides[i] for i in block)}@{{}}}}",
                r"\toprule",
            ]
            text.append(_tex_row([heads[i][0] for i in block]))
            if any(heads[i][1] for i in block):
                text.append(
                    _tex_row(
                        [rf"{{\scriptsize {heads[i][1]}}}" if heads[i][1] else "" for i in block]
                    )
                )
            text += [
                r"\midrule",
                *(_tex_row([row[i][0] for i in block]) for row in body[begin : begin + on_a_page]),
            ]
            text += [r"\bottomrule", r"\end{tabular}"]
            text += [r"\par"] if block != blocks[-1] else []
        part = lines[begin : begin + on_a_page]  # a float has the notes of its own lines
        used = {note for line in part for i in shown for note in line.all_cells[i].footnotes}
        own = [(i, note) for i, note in enumerate(notes.texts[:26]) if note in used]
        footnotes = [rf"\textsuperscript{{{chr(97 + i)}}}\,{_tex_note(note)}" for i, note in own]
        if words := " ".join(filter(None, [_tex_notes(table, part, interval, said), *footnotes])):
            text.append(
                rf"\par\smallskip\parbox{{{narrow:.0f}pt}}{{\scriptsize\raggedright {words}}}"
            )
        floats.append("\n".join([*text, rf"\end{{{environment}}}"]))
    remarks = [
        *paper.warnings,
        *table.notes,
        *(f"({chr(97 + i)}) {text}" for i, text in enumerate(notes.texts)),
    ]
    comments = [
        r"% needs \usepackage{booktabs}",
        *(f"% {flat(text)}" for text in [*paper.sources, *remarks] if text),
    ]
    return "\n".join([*comments, *floats]) + "\n"


def spelled(text: str) -> str:
    """The text with its tasks as papers spell them, where no row's settings name them."""
    return re.sub(
        r"(?<![\w:=-])(?:" + "|".join(sorted(FIELD, reverse=True)) + r")(?![\w=-])",
        lambda m: FIELD[m[0]],
        text,
    )


def plain(text: str) -> str:
    """LaTeX without its commands: about as many characters as it prints."""
    return re.sub(
        r"\\[a-zA-Z]+\s?|[\\{}$^]",
        "",
        text.replace(r"\pm", "±").replace(r"\times", "×").replace("--", "–"),
    )


def _tex_note(text: str) -> str:
    """A footnote as LaTeX: its beginning, which says what is the matter; the rows and seeds are in the comments."""
    return tex(spelled(_shortened(text)))


def _shortened(text: str) -> str:
    """The beginning of a footnote."""
    text = (
        re.sub(r"\[(\d+)\]", lambda match: chr(96 + int(match[1])), text)
        .split("; ")[0]
        .split(". ")[0]
    )
    if re.search(r", seeds? \d", text):
        text = text.rpartition(": ")[0] or text
    if len(text) > TEX_NOTE:
        text = text[:TEX_NOTE].rpartition(",")[0] or text[:TEX_NOTE].rpartition(" ")[0]
    return text.rstrip(".") + "."
