"""Tables of Markdown and of plain text: pipes, tabs, columns aligned by blanks."""

from __future__ import annotations

import itertools
import re

from bench.audit.grid import WORDS, Grid, GridLine, line_of, without_markup
from bench.audit.latex import unlatex
from bench.audit.printed import numbers_of

SEPARATOR = re.compile(r"[\s|:+=]*+-[\s|:+=-]*+")
TITLE = re.compile(r"#+ |\*\*(?:Table|Tab\.)|Table \d|<h\d", re.IGNORECASE)


def markdown_grids(text: str, aligned: bool = False) -> list[Grid]:
    """Tables of pipes or tabs, also with blank lines between their rows; the nearest heading or caption above names each.

    Args:
        aligned: also read columns that only blanks keep apart, as pages of text have them.
    """
    lines = _joined(
        [re.sub(r"^\s*>\s?", "", line) if "|" in line else line for line in text.split("\n")]
    )
    kinds = _kinds(lines, aligned)
    grids: list[Grid] = []
    title, kind, place = "", "", 0
    block = Grid("")
    for number, line in enumerate([*lines, ""], start=1):
        now = kinds[number - 1] if number <= len(kinds) else "end"
        place += len(line) + 1
        if not now and kind in ("|", " ") and not line.strip():
            continue  # pages put blank lines between the rows of a table
        is_separator = now == "|" and bool(SEPARATOR.fullmatch(line))
        anew = (
            is_separator and block.head > 0 and len(block.lines) > 1 and _is_header(block.lines[-1])
        )
        if block.lines and (now != kind or anew):
            header = [block.lines.pop()] if anew else []
            grids.append(block)
            block = Grid(title, header, len(header), place)
        kind = now
        if not block.lines:
            block.title, block.place = title, place
        if is_separator:
            block.head = block.head or len(block.lines)
        elif now:
            cells = _cells(line, now)
            if any(cells):
                block.lines.append(line_of(cells, number))
        if TITLE.match(line.strip()) and not now:
            title = re.sub(r"[#*]|</?h\d[^>]*>", "", without_markup(line)).strip()[:80]
    return grids


def _joined(lines: list[str]) -> list[str]:
    """Rows that a line break within a cell has torn apart, as one line again; the second line stays, empty."""
    for place in range(len(lines) - 1):
        top, below = lines[place].strip(), lines[place + 1].strip()
        torn = (
            top.startswith("|")
            and not top.endswith("|")
            and below.endswith("|")
            and not below.startswith("|")
        )
        if torn and not SEPARATOR.fullmatch(top):
            lines[place], lines[place + 1] = f"{top} {below}", ""
    return lines


def _is_header(line: GridLine) -> bool:
    """Words behind the first cell and no number: a second header directly below the rows of another table."""
    named = [cell.text for cell in line.cells[1:] if cell.text]
    return bool(named) and all(WORDS.match(text) and not numbers_of(text) for text in named)


def _cells(line: str, kind: str) -> list[str]:
    """The cells of a line as they show; formulas in them by their own reader."""
    if kind == "|":
        bare = line.strip().removeprefix("|")
        bare = bare[:-1] if bare.endswith("|") and not bare.endswith(r"\|") else bare
        parts = re.split(r"(?<!\\)\|", bare)
    else:
        parts = line.split("\t") if kind == "\t" else re.split(r"\s{2,}", line.strip())
    # at most so long that its patterns are quick
    cells = [without_markup(part.strip()) for part in parts]
    return [unlatex(cell) if "\\" in cell or "$" in cell else cell for cell in cells]


def _kinds(lines: list[str], aligned: bool) -> list[str]:
    """For each line how its cells are kept apart; "" for running text."""
    kinds = []
    for line in lines:
        pipes = len(re.findall(r"(?<!\\)\|", line))
        kinds.append(
            "|" if pipes >= 2 else "1" if pipes == 1 else "\t" if line.count("\t") >= 2 else ""
        )
    for piped, run in itertools.groupby(
        range(len(lines)), lambda place: kinds[place] in ("1", "|")
    ):
        # a separator with one pipe makes a table of two columns of the lines around it
        places = list(run)
        if piped:
            two_columns = any(
                kinds[place] == "1" and SEPARATOR.fullmatch(lines[place]) for place in places
            )
            for place in places:
                kinds[place] = "|" if two_columns or kinds[place] == "|" else ""
    if aligned:
        _mark_aligned(lines, kinds)
    return kinds


def _mark_aligned(lines: list[str], kinds: list[str]) -> None:
    """Runs of lines of at least three chunks each, two of which hold numbers."""
    chunks = [
        len(re.split(r"\s{2,}", line.strip())) if line.strip() and not kind else 0
        for line, kind in zip(lines, kinds, strict=True)
    ]
    start = 0
    while start < len(lines):
        stop = start
        # one blank line may keep the header apart
        while stop < len(lines) and (
            chunks[stop] >= 3
            or (
                stop > start
                and not lines[stop].strip()
                and max(chunks[stop + 1 : stop + 2], default=0) >= 3
            )
        ):
            stop += 1
        rows = [line for line in lines[start:stop] if line.strip()]
        numeric = sum(
            sum(bool(numbers_of(c)) for c in re.split(r"\s{2,}", row.strip())[1:]) >= 2
            for row in rows
        )
        if numeric >= 2:
            kinds[start:stop] = [" " if line.strip() else "" for line in lines[start:stop]]
        start = stop + 1
