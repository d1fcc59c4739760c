"""Tables of Markdown and of plain text: pipes, tabs, columns aligned by blanks."""

from __future__ import annotations

import itertools
import re

from bench.audit.grid import WORDS, Grid, GridLine, line_of, without_markup
from bench.audit.latex import unlatex
from bench.audit.printed import numbers_of

SEPARATOR = re.compile(r"[\s|:+=]*+-[\s|:+=-]*+")
ONE_PIPE = "1"
"""The kind of a line with one pipe, until it is known whether that makes two columns."""
TITLE = re.compile(r"#+ |\*\*(?:Table|Tab\.)|Table \d|<h\d", re.IGNORECASE)


def markdown_grids(text: str, aligned: bool = False) -> list[Grid]:
    """Tables of pipes or tabs, also with blank lines between their rows.

    The nearest heading or caption above names each.

    Args:
        aligned: also read columns that only blanks keep apart, as pages of text have them.
    """
    # what keeps the cells of each line apart
    lines = _joined([_unquoted(line) for line in text.split("\n")])
    kinds = _kinds(lines, aligned)
    grids: list[Grid] = []
    table = Grid("")
    title = ""
    previous_kind = ""
    position = 0
    # an empty line of its own kind ends the last table
    for number, (line, kind) in enumerate(zip([*lines, ""], [*kinds, "end"], strict=True), start=1):
        position += len(line) + 1
        if _is_gap(line, kind, previous_kind):
            continue

        # a table ends where cells are kept apart otherwise, or before a second header
        is_separator = kind == "|" and bool(SEPARATOR.fullmatch(line))
        is_anew = is_separator and _ends_with_header(table)
        if table.lines and (kind != previous_kind or is_anew):
            header = [table.lines.pop()] if is_anew else []
            grids.append(table)
            table = Grid(title, header, len(header), position)
        previous_kind = kind

        # the line is a row, the end of the header, or running text
        if not table.lines:
            table.title = title
            table.place = position
        if is_separator:
            table.head = table.head or len(table.lines)
        elif kind:
            cells = _cells(line, kind)
            if any(cells):
                table.lines.append(line_of(cells, number))
        elif TITLE.match(line.strip()):
            title = re.sub(r"[#*]|</?h\d[^>]*>", "", without_markup(line)).strip()[:80]
    return grids


def _is_gap(line: str, kind: str, previous_kind: str) -> bool:
    """Whether a line is blank between rows: pages put such lines into a table."""
    return not kind and previous_kind in ("|", " ") and not line.strip()


def _unquoted(line: str) -> str:
    """A row without the mark of a quotation."""
    return re.sub(r"^\s*>\s?", "", line) if "|" in line else line


def _ends_with_header(table: Grid) -> bool:
    """Whether the last of a table's rows is the header of another table."""
    return table.head > 0 and len(table.lines) > 1 and _is_header(table.lines[-1])


def _joined(lines: list[str]) -> list[str]:
    """Rows that a line break within a cell has torn apart, as one line again.

    The second line stays, empty.
    """
    for index in range(len(lines) - 1):
        top = lines[index].strip()
        below = lines[index + 1].strip()

        # the first has no end, the second no beginning
        is_open = top.startswith("|") and not top.endswith("|")
        is_rest = below.endswith("|") and not below.startswith("|")
        if is_open and is_rest and not SEPARATOR.fullmatch(top):
            lines[index] = f"{top} {below}"
            lines[index + 1] = ""
    return lines


def _is_header(line: GridLine) -> bool:
    """Whether a line is a second header, below another table's rows: words and no number."""
    # the first cell of a header is often empty
    named = [cell.text for cell in line.cells[1:] if cell.text]
    return bool(named) and all(WORDS.match(text) and not numbers_of(text) for text in named)


def _cells(line: str, kind: str) -> list[str]:
    """The cells of a line as they show; formulas in them by their own reader."""
    if kind == "|":
        # pipes at both ends part nothing
        bare = line.strip().removeprefix("|")
        if bare.endswith("|") and not bare.endswith(r"\|"):
            bare = bare[:-1]
        parts = re.split(r"(?<!\\)\|", bare)
    elif kind == "\t":
        parts = line.split("\t")
    else:
        parts = _chunks(line)
    # at most so long that its patterns are quick
    cells = [without_markup(part.strip()) for part in parts]
    return [unlatex(cell) if "\\" in cell or "$" in cell else cell for cell in cells]


def _kinds(lines: list[str], aligned: bool) -> list[str]:
    """How the cells of each line are kept apart: by pipes, tabs or blanks; "" for running text."""
    kinds = [_kind(line) for line in lines]
    # a separator with one pipe makes a table of two columns of the lines around it
    runs = itertools.groupby(range(len(lines)), lambda index: kinds[index] in (ONE_PIPE, "|"))
    for is_piped, run in runs:
        if not is_piped:
            continue

        # one separator makes a table of all lines around it
        indices = list(run)
        is_table = any(
            kinds[index] == ONE_PIPE and SEPARATOR.fullmatch(lines[index]) for index in indices
        )
        for index in indices:
            kinds[index] = "|" if is_table or kinds[index] == "|" else ""
    if aligned:
        _mark_aligned(lines, kinds)
    return kinds


def _kind(line: str) -> str:
    """How the cells of a line seem to be kept apart: pipes, one pipe, tabs, or not."""
    # a pipe behind a backslash is a sign of the cell
    pipes = len(re.findall(r"(?<!\\)\|", line))
    if pipes >= 2:
        return "|"
    if pipes == 1:
        return ONE_PIPE
    return "\t" if line.count("\t") >= 2 else ""


def _mark_aligned(lines: list[str], kinds: list[str]) -> None:
    """Mark runs of lines of at least three chunks each, two of which hold numbers."""
    # how many parts blanks make of each line of running text
    chunks = [0 if kind else len(_chunks(line)) for line, kind in zip(lines, kinds, strict=True)]
    start = 0
    while start < len(lines):
        # a run of such lines, with numbers in two of them
        stop = _end_of_run(lines, chunks, start)
        numeric = 0
        for line in lines[start:stop]:
            numbers = sum(bool(numbers_of(chunk)) for chunk in _chunks(line)[1:])
            numeric += numbers >= 2
        if numeric >= 2:
            kinds[start:stop] = [" " if line.strip() else "" for line in lines[start:stop]]
        start = stop + 1


def _chunks(line: str) -> list[str]:
    """The parts of a line between two blanks or more; none of a blank line."""
    return re.split(r"\s{2,}", line.strip()) if line.strip() else []


def _end_of_run(lines: list[str], chunks: list[int], start: int) -> int:
    """The end of the lines of at least three chunks; one blank line may keep the header apart."""
    stop = start
    while stop < len(lines):
        following = chunks[stop + 1] if stop + 1 < len(lines) else 0
        is_gap = stop > start and not lines[stop].strip() and following >= 3
        if chunks[stop] < 3 and not is_gap:
            break
        stop += 1
    return stop
