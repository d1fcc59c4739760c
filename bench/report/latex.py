"""A table as a paper has it: LaTeX with ``booktabs``, in one block that fits ACL and NeurIPS.

A template (``page/table.tex``) has the shape of the float. What is here escapes text, estimates how
wide each column is printed, and chooses the type in which the table fits. No torch, no clock.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from bench.report.escape import flat

if TYPE_CHECKING:
    from jinja2 import Template

TEMPLATES = Path(__file__).parent / "page"
FIELD = {
    "cola": "CoLA",
    "sst2": "SST-2",
    "mrpc": "MRPC",
    "stsb": "STS-B",
    "qqp": "QQP",
    "mnli": "MNLI",
    "qnli": "QNLI",
    "mnli-m": "MNLI-m",
    "mnli-mm": "MNLI-mm",
    "rte": "RTE",
    "wnli": "WNLI",
}
"""Tasks as papers spell them."""
METRIC = {"Matthews": "Mcc", "acc": "Acc."}
"""Metrics as papers shorten them."""

SPECIAL = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "±": r"$\pm$",
        "×": r"$\times$",
        "–": "--",
        "…": r"\ldots{}",
        "≥": r"$\geq$",
        "≤": r"$\leq$",
        "→": r"$\rightarrow$",
    }
)
"""Characters that LaTeX would take for commands, or that its fonts lack -> how they are written."""
NEGATIVE = re.compile(r"(?<![\w.-])-(?=\d)")
"""The minus of a number, which is no hyphen."""

TEXT_WIDTH = 394.0
"""Points that a table may have: the text of NeurIPS (5.5 in), less 3. In ACL's text (16 cm) type is
larger by an eighth, and it is wider by more."""
COLUMN_WIDTH = 188.0
"""Points of a table that stays in a column of ACL (7.7 cm), in type larger by an eighth."""
NARROWEST_NAMES = 90.0
"""Points of the column of names where names are broken into lines."""
MOST_ROWS = 40
"""Lines of a float: a table with more goes over several pages."""
SCRIPT = 7.0
"""Points of the small type of deviations, intervals and signs."""

NARROW = dict.fromkeys("ijlt.,:;'|/![]()-` ", 0.33)
WIDE = dict.fromkeys("ABCDEFGHKLNOPQRSTUVXYZw", 0.72) | dict.fromkeys("mwMW%@", 0.89)
MATHS = dict.fromkeys("±×+=<>−", 0.78)
EM = NARROW | WIDE | MATHS
"""Widths of characters of Times in ems, rounded up; of all others half an em."""


@dataclass(frozen=True)
class Layout:
    """A way to print a table.

    Attributes:
        size: the command of the type.
        points: of that type, in a paper of 10 points.
        space: points at each side of a column.
        breaks_names: whether long names of rows are broken into lines.
    """

    size: str
    points: float
    space: float
    breaks_names: bool = False


LAYOUTS = (
    Layout(r"\small", 9.0, 4.0),
    Layout(r"\footnotesize", 8.0, 4.0),
    Layout(r"\footnotesize", 8.0, 3.0),
    Layout(r"\footnotesize", 8.0, 3.0, breaks_names=True),
    Layout(r"\scriptsize", 7.0, 2.5),
    Layout(r"\scriptsize", 7.0, 2.5, breaks_names=True),
)
"""The first that fits is taken."""


@dataclass(frozen=True)
class LatexColumn:
    """The head of a column.

    Attributes:
        head: what is measured.
        below: how, in small type in a second line.
        is_left: whether it has words, which begin at the left.
        keeps_small: whether its small type is the last to be left out of a table that is too wide.
    """

    head: str
    below: str = ""
    is_left: bool = False
    keeps_small: bool = False


@dataclass(frozen=True)
class LatexCell:
    """What is printed in a cell.

    Attributes:
        text: a number or words.
        small: what stands behind it in small type: a deviation or an interval.
        marks: signs above the line, in LaTeX.
        bold: whether the text is bold.
    """

    text: str
    small: str = ""
    marks: Sequence[str] = ()
    bold: bool = False


@dataclass(frozen=True)
class LatexTable:
    """A table of a paper.

    Attributes:
        columns: the first one has the names of rows.
        blocks: rows with a rule between two blocks; a row has a cell for each column.
        caption: sentences, in LaTeX.
        label: without ``tab:``.
        notes: sentences below the table, in LaTeX.
        comments: lines above the table that no reader of the paper sees.
    """

    columns: Sequence[LatexColumn]
    blocks: Sequence[Sequence[Sequence[LatexCell]]]
    caption: str
    label: str
    notes: Sequence[str] = ()
    comments: Sequence[str] = ()


@dataclass(frozen=True)
class Typeset:
    """A table in a layout.

    Attributes:
        heads, below, blocks: of its columns and cells, the LaTeX.
        widths: of its columns, about so many points.
        has_all: whether no small type is left out.
    """

    layout: Layout
    heads: Sequence[str]
    below: Sequence[str]
    blocks: Sequence[Sequence[Sequence[str]]]
    widths: Sequence[float]
    has_all: bool

    @property
    def width(self) -> float:
        """Points of all columns: there is no space beside the first and the last."""
        return sum(self.widths) + 2 * self.layout.space * (len(self.widths) - 1)


def tex(text: str) -> str:
    """Plain text as LaTeX on one line: nothing is a command, a negative number has a minus."""
    return NEGATIVE.sub("$-$", flat(text).translate(SPECIAL))


def spelled(text: str) -> str:
    """The text with its tasks as papers spell them, where no row's settings name them."""
    names = "|".join(sorted(FIELD, reverse=True))
    return re.sub(
        rf"(?<![\w:=-])(?:{names})(?![\w=-])",
        lambda match: FIELD[match[0]],
        text,
    )


def to_latex(table: LatexTable) -> str:
    """A float that fits ACL's and NeurIPS' text, or a table over several pages where it is long.

    It keeps deviations and intervals if it fits with them in some type; else those of the columns
    that keep theirs; else none. Nothing is scaled. A table that fits in no type has the last one,
    and a comment that says so.
    """
    is_long = sum(map(len, table.blocks)) > MOST_ROWS
    typeset = fitting(table)
    layout = typeset.layout
    width = typeset.width
    comments = [
        r"needs \usepackage{booktabs}",
        *([r"needs \usepackage{longtable}, and \onecolumn before it in ACL"] if is_long else []),
        *([f"about {width:.0f} pt wide: leave out columns"] if width > TEXT_WIDTH else []),
        *([] if typeset.has_all else ["what does not fit in small type is in the CSV file"]),
        *table.comments,
    ]
    sides = ["l" if column.is_left else "r" for column in table.columns]
    if layout.breaks_names:
        # in ems: it grows with the type of the paper
        sides[0] = rf"p{{{typeset.widths[0] / layout.points:.1f}em}}"
    text = _template().render(
        table=typeset,
        caption=table.caption,
        label=f"tab:{table.label}",
        notes=" ".join(table.notes),
        comments=[flat(comment) for comment in comments if comment],
        is_long=is_long,
        environment="table" if width <= COLUMN_WIDTH else "table*",
        size=layout.size,
        space=f"{layout.space:g}",
        sides=f"@{{}}{''.join(sides)}@{{}}",
    )
    return text.strip() + "\n"


def fitting(table: LatexTable) -> Typeset:
    """The table in the first layout in which it fits, or in the last one."""
    everything = [True] * len(table.columns)
    kept_longest = [column.keeps_small for column in table.columns]
    nothing = [False] * len(table.columns)
    for has_small in (everything, kept_longest, nothing):
        for layout in LAYOUTS:
            typeset = _typeset(table, layout, has_small)
            if typeset.width <= TEXT_WIDTH:
                return typeset
    return typeset


def _typeset(table: LatexTable, layout: Layout, has_small: Sequence[bool]) -> Typeset:
    """The table in a layout.

    Args:
        has_small: of each column, whether its small type is printed.
    """
    rows = [cells for block in table.blocks for cells in block]
    widths = []
    for i, column in enumerate(table.columns):
        head = max(layout.points * ems(column.head), SCRIPT * ems(column.below))
        widths.append(max([head, *(_width(cells[i], layout, has_small[i]) for cells in rows)]))
    # the signs of a name take room
    widths[0] += SCRIPT if any(cells[0].marks for cells in rows) else 0.0
    if layout.breaks_names:
        others = sum(widths[1:]) + 2 * layout.space * (len(widths) - 1)
        widths[0] = min(widths[0], max(NARROWEST_NAMES, TEXT_WIDTH - others))
    blocks = []
    for block in table.blocks:
        printed = []
        for cells in block:
            name = _name(cells[0], layout.breaks_names)
            printed.append([name, *_numbers(cells[1:], has_small[1:])])
        blocks.append(printed)
    heads = [tex(column.head) for column in table.columns]
    below = [_small(column.below) for column in table.columns]
    return Typeset(layout, heads, below, blocks, widths, all(has_small))


def _name(cell: LatexCell, is_broken: bool) -> str:
    """The first cell of a row.

    Args:
        is_broken: whether it may go over several lines, also behind a setting of a row.
    """
    name = tex(cell.text) + _raised(cell.marks)
    # a bracket or a star would belong to the end of the line before it
    if cell.text.lstrip().startswith(("[", "*")):
        name = "{}" + name
    if is_broken:
        return r"\raggedright " + re.sub(r"([:,])(?=\w)", r"\1\\hspace{0pt}", name)
    return name


def _numbers(cells: Sequence[LatexCell], has_small: Sequence[bool]) -> list[str]:
    """The cells behind the name: what is measured, what follows it in small type, and its signs.

    The last sign takes no room: numbers with a sign and without end at one place.
    """
    texts = []
    for cell, is_small_shown in zip(cells, has_small, strict=True):
        text = tex(cell.text)
        if cell.bold:
            text = rf"\textbf{{{text}}}"
        if is_small_shown:
            text += _small(cell.small)
        text += _raised(cell.marks[:-1])
        if cell.marks:
            text += rf"\rlap{{{_raised(cell.marks[-1:])}}}"
        texts.append(text)
    return texts


def _raised(marks: Sequence[str]) -> str:
    return rf"\textsuperscript{{{''.join(marks)}}}" if marks else ""


def _small(text: str) -> str:
    """Small type; a space before it is a thin one."""
    space = r"\," if text.startswith(" ") else ""
    return rf"{{\scriptsize{space} {tex(text.strip())}}}" if text else ""


def _width(cell: LatexCell, layout: Layout, has_small: bool) -> float:
    """Points of a cell in a layout: a sign is half an em wide, and bold type a tenth wider."""
    text = layout.points * ems(cell.text) * (1.1 if cell.bold else 1.0)
    small = ems(cell.small) if has_small else 0.0
    return text + SCRIPT * (small + 0.5 * len(cell.marks[1:]))


def ems(text: str) -> float:
    """About how wide a text is in Times, in ems."""
    return sum(EM.get(character, 0.5) for character in flat(text))


@cache
def _template() -> Template:
    """The template of a table; a name that is missing is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    engine = Environment(
        loader=FileSystemLoader(TEMPLATES),
        # what is put in is LaTeX, and was escaped as that
        autoescape=False,
        undefined=StrictUndefined,
        variable_start_string="<<",
        variable_end_string=">>",
        block_start_string="<%",
        block_end_string="%>",
        comment_start_string="<#",
        comment_end_string="#>",
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return engine.get_template("table.tex")
