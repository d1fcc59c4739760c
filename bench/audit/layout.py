"""What the lines of a table mean: header, names of systems, groups, and the numbers below each column's name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from bench.audit.grid import WORDS, Grid, GridCell, GridLine
from bench.audit.printed import numbers_of
from bench.audit.table import PrintedRow, Sheet

MOST_HEADER_LINES = 12
SO_MANY = re.compile(r"of \d+")
"""Below the name of a mean: of how many columns."""
NAMED_IN_BRACKETS = re.compile(
    r"\([^)]*(?:drop|gain|diff|delta|Δ|loss|improve|change)[^)]*\)", re.IGNORECASE
)
ROW_NUMBER = re.compile(r"#|no\.?|nr\.?|rank|id|index|idx|", re.IGNORECASE)


class Unread(NamedTuple):
    """A number in a table that no row has, and where it is printed."""

    line: int
    text: str
    cell: str


def unread(grids: Iterable[Grid], sheets: Sequence[Sheet]) -> list[Unread]:
    """The numbers behind the first cells of all lines that no row of the sheets has, equal ones counted."""
    rows = [row for sheet in sheets for row in sheet.rows]
    left = Counter(
        (row.line, number.text)
        for row in rows
        for number in (*row.cells.values(), *row.sizes.values())
    )
    missing = []
    for line in (line for grid in grids for line in grid.lines):
        for cell in line.cells[1:]:
            for number, _ in numbers_of(cell.own) if not SO_MANY.fullmatch(cell.own) else ():
                if left[line.number, number.text] == 0:
                    missing.append(Unread(line.number, number.text, cell.text))
                left[line.number, number.text] -= 1
    return missing


def sheets_of(where: str, grids: Iterable[Grid]) -> list[Sheet]:
    """Every table that has a row of numbers; equal titles are numbered."""
    sheets = []
    for grid in grids:
        header, body = _parted(grid)
        if rows := list(_rows(header, body)) if body else []:
            sheets.append(Sheet(where, grid.title, rows))
    titles = Counter(sheet.name for sheet in sheets)
    for place, sheet in enumerate(sheets, start=1):
        if titles[sheet.name] > 1:  # the heading above is that of several
            sheet.name = f"{sheet.name} (table {place})" if sheet.name else f"table {place}"
    return sheets


def _parted(grid: Grid) -> tuple[list[GridLine], list[GridLine]]:
    """Header lines and body lines."""
    lines = [line for line in grid.lines if any(cell.text for cell in line.cells)]
    # header are the lines that the container says, and lines of words below them where numbers follow
    head = max(1, min(grid.head, len(lines) - 1))
    while head < min(len(lines) - 1, MOST_HEADER_LINES) and _is_words(lines, head):
        head += 1
    return lines[:head], lines[head:]


def _is_words(lines: Sequence[GridLine], place: int) -> bool:
    """A line of column names below a header: words in at least two places, numbers below most of them.

    Below a cell that spans columns, one place is enough, and no numbers are needed.
    """
    line = lines[place]
    named = [at for at, cell in enumerate(line.cells) if at and cell.own]
    if not named or len(line.cells) > max(len(above.cells) for above in lines[:place]):
        return False
    if len(named) < 2 and not any(cell.left for above in lines[:place] for cell in above.cells):
        return False
    if not all(
        SO_MANY.fullmatch(text := line.cells[at].text)
        or (re.match(rf"{WORDS.pattern}|[@(]|\d+[A-Za-z-]", text) and not numbers_of(text))
        for at in named
    ):
        return False
    below = lines[place + 1 : place + 9]
    spanned = {at for above in lines[:place] for at, cell in enumerate(above.cells) if cell.left}
    numeric = sum(
        any(at < len(other.cells) and numbers_of(other.cells[at].text) for other in below)
        for at in named
    )
    return numeric >= len(named) / 2 or bool(spanned & set(named))


def _rows(header: Sequence[GridLine], body: Sequence[GridLine]) -> Iterator[PrintedRow]:
    names = _column_names(header, max(len(line.cells) for line in [*header, *body]))
    lead = _leading(names, body)
    group, label = "", ""
    for line in body:
        cells = line.cells
        # pages of text print a line that lost the empty place below a label of several lines one place to the left
        lost = lead >= 2 and len(cells) == len(names) and not cells[-1].text and cells[0].text
        if (
            lost
            and not re.search(r"[^\W\d_]", cells[lead - 1].text)
            and any(numbers_of(cell.text) for cell in cells)
        ):
            cells = [GridCell(""), *cells[:-1]]
        texts = {cell.text for cell in cells if cell.text}
        if len(texts) == 1 and not any(map(numbers_of, texts)):
            group = _plain(texts.pop())
            continue
        labels = [_plain(cell.text) for cell in cells[:lead]]
        # an empty first cell takes the label above it
        label = labels[0] = labels[0] or label
        # the leading texts together are the name; a number of the row is no part of it
        shown = [
            text
            for name, text in zip(names, labels, strict=False)
            if re.search(r"\w|\+", text)
            and not (ROW_NUMBER.fullmatch(name) and text.isdigit() and len(labels) > 1)
        ]
        row = PrintedRow(
            ", ".join(dict.fromkeys(shown)), {}, line=line.number, group=group, label=label
        )
        _fill(row, names, cells, lead)
        if row.cells or row.sizes:
            row.system = row.system or group or f"row at line {line.number}"
            yield row


def _leading(names: Sequence[str], body: Sequence[GridLine]) -> int:
    """How many columns in front hold words: together they name the row."""
    lead = 1
    while lead < len(names) - 1:
        texts = [line.cells[lead].text for line in body if lead < len(line.cells)]
        numeric = sum(bool(numbers_of(text)) for text in texts)
        words = sum(bool(WORDS.search(text)) and not numbers_of(text) for text in texts)
        if words <= numeric or size_of(names[lead]):
            break
        lead += 1
    further = any(numbers_of(cell.own) for line in body for cell in line.cells[lead:])
    return lead if further else 1


def _column_names(header: Sequence[GridLine], width: int) -> list[str]:
    """One name a column, of all header lines; equal and empty ones are numbered."""
    names: list[str] = []
    if len(header) > 1:  # a line of one text heads all columns and names none
        header = [
            line for line in header if len({cell.text for cell in line.cells if cell.text}) != 1
        ]
    for place in range(width):
        parts: list[str] = []
        for line in header:
            text = _plain(line.cells[place].text) if place < len(line.cells) else ""
            if text and text not in parts:
                parts.append(text)
        name = " ".join(parts) or (f"column {place + 1}" if place else "")
        names.append(name)
    seen: Counter[str] = Counter()
    for place, name in enumerate(names):
        seen[name] += 1
        if seen[name] > 1:
            names[place] = f"{name} ({seen[name]})"
    return names


def _fill(row: PrintedRow, names: Sequence[str], cells: Sequence[GridCell], lead: int) -> None:
    """The numbers of a line below their names."""
    scores = [place for place in range(lead, len(names)) if not size_of(names[place])]
    values = [cell for cell in cells[lead:] if cell.text.strip()]
    short = len(cells) < len(names) and len(values) == len(scores) < len(names) - lead
    # a row without sizes is often printed without empty cells for them
    named = (
        [(names[place], cell) for place, cell in zip(scores, values, strict=True)]
        if short
        else list(zip(names[lead:], cells[lead:], strict=False))
    )
    for name, cell in named:
        parts = list(numbers_of(cell.own))
        deviation = parts[0][0].deviation if len(parts) == 1 else None
        # a small number in brackets is no deviation where the header says what is in the brackets, as "Accuracy (drop)"
        if deviation and NAMED_IN_BRACKETS.search(name):
            parts.append((deviation, "other"))
        # the numbers have names of their own: MNLI-m/mm, MNLI-(m/mm), SQuAD (EM/F1); a change is a difference
        columns = iter(_split_name(name, sum(role != "change" for _, role in parts)))
        for place, (number, role) in enumerate(parts):
            column = f"Δ {name}" if role == "change" else next(columns)
            size = size_of(column)
            if re.fullmatch(r"column \d+", column) and number.unit in ("M", "B"):
                size = "params"
            if size and place == 0 and size not in row.sizes:
                row.sizes[size] = number
            elif column not in row.cells:
                row.cells[column] = number


@lru_cache(4096)
def _split_name(name: str, count: int) -> list[str]:
    """``count`` names from one. Words between slashes are dealt out: ``MNLI-(m/mm)`` gives MNLI-m and MNLI-mm.

    A name without ``count`` such words is numbered: ``F1`` gives F1 (first) and F1 (second).
    """
    if count < 2:
        return [name]
    groups = list(
        re.finditer(rf"\(?((?<![^\s/()])[^\s/()]+(?:\s*/\s*[^\s/()]+){{{count - 1}}})\)?", name)
    )
    groups = [group for group in groups if "w/o" not in group[0].lower()]
    names = []
    for place in range(count):
        text, end = "", 0
        for group in groups:
            text += name[end : group.start()] + group[1].split("/")[place].strip()
            end = group.end()
        names.append((text + name[end:]).strip())
    if len(set(names)) == count:
        return names
    ordinals = ("first", "second", "third", "fourth", "fifth", "sixth")
    return [
        f"{name} ({ordinals[place] if place < len(ordinals) else place + 1})"
        for place in range(count)
    ]


def _plain(text: str) -> str:
    """Without footnote marks and the commands of formulas."""
    text = re.sub(r"\\(?:mathrm|overline|text|rm)\b", "", text)
    return re.sub(r"\s*\[\d+\]|[*`†‡${}]", "", text).strip()


@lru_cache(4096)
def size_of(header: str) -> str:
    """Which size a column holds: params, flops, speed-up, or none."""
    name = header.lower()
    if re.search(
        r"reduc|Δ|delta|ratio|%|compress|sparsity|kept|remain|drop|hyper|\bw/o\b|without|trainable",
        name,
    ):
        return ""
    if "param" in name or re.match(r"(?:model )?size\b|#p", name):
        return "params"
    if "flop" in name:
        return "flops"
    return "speed-up" if re.search(r"speed.?up|faster", name) else ""
