"""Read a table's lines: header, names of systems, groups, and numbers below column names."""

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
LETTER = re.compile(r"[^\W\d_]")
NAME = re.compile(rf"{WORDS.pattern}|[@(]|\d+[A-Za-z-]")
"""How the name of a column begins."""
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth")
ROW_NUMBER = re.compile(r"#|no\.?|nr\.?|rank|id|index|idx|", re.IGNORECASE)


class Unread(NamedTuple):
    """A number in a table that no row has, and where it is printed."""

    line: int
    text: str
    cell: str


def unread(grids: Iterable[Grid], sheets: Sequence[Sheet]) -> list[Unread]:
    """The numbers behind the first cells of all lines that no row of the sheets has.

    Equal numbers of one line are counted.
    """
    # the numbers that rows have
    left: Counter[tuple[int, str]] = Counter()
    for sheet in sheets:
        for row in sheet.rows:
            numbers = (*row.cells.values(), *row.sizes.values())
            left.update((row.line, number.text) for number in numbers)

    # those of the tables beyond them
    missing = []
    for grid in grids:
        for line in grid.lines:
            for cell in line.cells[1:]:
                if SO_MANY.fullmatch(cell.unrepeated):
                    continue
                for number, _ in numbers_of(cell.unrepeated):
                    if left[line.number, number.text] == 0:
                        missing.append(Unread(line.number, number.text, cell.text))
                    left[line.number, number.text] -= 1
    return missing


def sheets_of(where: str, grids: Iterable[Grid]) -> list[Sheet]:
    """Every table that has a row of numbers; equal titles are numbered."""
    sheets = []
    for grid in grids:
        header, body = _parted(grid)
        rows = list(_rows(header, body)) if body else []
        if rows:
            sheets.append(Sheet(where, grid.title, rows))

    # equal titles are numbered
    titles = Counter(sheet.name for sheet in sheets)
    for number, sheet in enumerate(sheets, start=1):
        if titles[sheet.name] > 1:  # the heading above is that of several
            sheet.name = f"{sheet.name} (table {number})" if sheet.name else f"table {number}"
    return sheets


def _parted(grid: Grid) -> tuple[list[GridLine], list[GridLine]]:
    """Header lines and body lines."""
    lines = [line for line in grid.lines if _texts(line)]
    # header are the lines that the container says, and lines of words below them where numbers
    # follow
    head = max(1, min(grid.head, len(lines) - 1))
    while head < min(len(lines) - 1, MOST_HEADER_LINES) and _is_words(lines, head):
        head += 1
    return lines[:head], lines[head:]


def _is_words(lines: Sequence[GridLine], index: int) -> bool:
    """Whether a line below a header has column names: two or more, and numbers below most of them.

    Below a cell that spans columns, one name is enough, and no numbers are needed.
    """
    # columns with a text of the line itself, not wider than the header
    line = lines[index]
    header = lines[:index]
    named = [at for at, cell in enumerate(line.cells) if at and cell.unrepeated]
    if not named or len(line.cells) > max(len(above.cells) for above in header):
        return False
    if not all(_is_name(line.cells[at].text) for at in named):
        return False

    # one name only below a cell that spans columns
    spanned: set[int] = set()
    for above in header:
        spanned.update(at for at, cell in enumerate(above.cells) if cell.left)
    if len(named) < 2 and not spanned:
        return False
    if spanned & set(named):
        return True

    # numbers stand below most names
    below = lines[index + 1 : index + 9]
    numeric = sum(_has_number(below, at) for at in named)
    return numeric >= len(named) / 2


def _is_name(text: str) -> bool:
    """Whether a text may name a column: words without a number, or how many columns a mean has."""
    if SO_MANY.fullmatch(text):
        return True
    return bool(NAME.match(text)) and not numbers_of(text)


def _has_number(lines: Sequence[GridLine], column: int) -> bool:
    texts = (line.cells[column].text for line in lines if column < len(line.cells))
    return any(numbers_of(text) for text in texts)


def _rows(header: Sequence[GridLine], body: Sequence[GridLine]) -> Iterator[PrintedRow]:
    """The rows of a table that have numbers, each with the group and the label above it."""
    names = _column_names(header, max(len(line.cells) for line in [*header, *body]))
    lead = _leading(names, body)

    # what rows take from lines above them
    group = ""
    label = ""
    for line in body:
        cells = _put_right(line.cells, names, lead)

        # a line of one text heads the rows below it
        texts = {cell.text for cell in cells if cell.text}
        if len(texts) == 1 and not any(map(numbers_of, texts)):
            group = _plain(texts.pop())
            continue

        # an empty first cell takes the label above it
        labels = [_plain(cell.text) for cell in cells[:lead]]
        label = labels[0] or label
        labels[0] = label

        # the row, where it has numbers
        system = _system_name(names, labels)
        row = PrintedRow(system, {}, line=line.number, group=group, label=label)
        _fill(row, names, cells, lead)
        if row.cells or row.sizes:
            row.system = row.system or group or f"row at line {line.number}"
            yield row


def _put_right(cells: list[GridCell], names: Sequence[str], lead: int) -> list[GridCell]:
    """The cells of a line, each below its column name.

    Pages of text print a line that lost the empty cell below a label of several lines one column
    to the left.
    """
    may_be_shifted = lead >= 2 and len(cells) == len(names) and cells[0].text
    if not may_be_shifted or cells[-1].text or LETTER.search(cells[lead - 1].text):
        return cells

    # without numbers it is a line of words, of one place less
    has_numbers = any(numbers_of(cell.text) for cell in cells)
    return [GridCell(""), *cells[:-1]] if has_numbers else cells


def _system_name(names: Sequence[str], labels: Sequence[str]) -> str:
    """The leading texts of a row together; a number of the row is no part of the name."""
    # of equal texts one is enough
    shown = []
    for name, text in zip(names, labels, strict=False):
        is_row_number = ROW_NUMBER.fullmatch(name) and text.isdigit() and len(labels) > 1
        if re.search(r"\w|\+", text) and not is_row_number:
            shown.append(text)
    return ", ".join(dict.fromkeys(shown))


def _leading(names: Sequence[str], body: Sequence[GridLine]) -> int:
    """How many columns in front hold words: together they name the row."""
    lead = 1
    while lead < len(names) - 1:
        # more words than numbers, and not the size of a model
        texts = [line.cells[lead].text for line in body if lead < len(line.cells)]
        numeric = sum(bool(numbers_of(text)) for text in texts)
        words = sum(bool(WORDS.search(text)) and not numbers_of(text) for text in texts)
        if words <= numeric or size_of(names[lead]):
            break
        lead += 1

    # without a number behind them, only the first is a name
    for line in body:
        if any(numbers_of(cell.unrepeated) for cell in line.cells[lead:]):
            return lead
    return 1


def _column_names(header: Sequence[GridLine], width: int) -> list[str]:
    """One name a column, of all header lines; equal and empty ones are numbered."""
    # a line of one text heads all columns and names none
    naming = [line for line in header if len(_texts(line)) != 1] if len(header) > 1 else header

    # the texts of a column from the top down, equal ones once
    names: list[str] = []
    for column in range(width):
        parts: list[str] = []
        for line in naming:
            text = _plain(line.cells[column].text) if column < len(line.cells) else ""
            if text and text not in parts:
                parts.append(text)
        unnamed = f"column {column + 1}" if column else ""
        names.append(" ".join(parts) or unnamed)

    # equal names are numbered
    seen: Counter[str] = Counter()
    for column, name in enumerate(names):
        seen[name] += 1
        if seen[name] > 1:
            names[column] = f"{name} ({seen[name]})"
    return names


def _texts(line: GridLine) -> set[str]:
    return {cell.text for cell in line.cells if cell.text}


def _fill(row: PrintedRow, names: Sequence[str], cells: Sequence[GridCell], lead: int) -> None:
    """Put the numbers of a line into its row, below their names."""
    for name, cell in _named_cells(names, cells, lead):
        parts = list(numbers_of(cell.unrepeated))
        # a small number in brackets is no deviation where the header says what is in the brackets,
        # as "Accuracy (drop)"
        deviation = parts[0][0].deviation if len(parts) == 1 else None
        if deviation and NAMED_IN_BRACKETS.search(name):
            parts.append((deviation, "other"))

        # several numbers have names of their own, as MNLI-m/mm, MNLI-(m/mm), SQuAD (EM/F1);
        # a change is a difference
        columns = iter(_split_name(name, sum(role != "change" for _, role in parts)))
        for at, (number, role) in enumerate(parts):
            column = f"Δ {name}" if role == "change" else next(columns)
            is_unnamed = re.fullmatch(r"column \d+", column)
            # a number like 110M below no name is a size
            size = "params" if is_unnamed and number.unit in ("M", "B") else size_of(column)

            # the first number below a name counts
            if size and at == 0 and size not in row.sizes:
                row.sizes[size] = number
            elif column not in row.cells:
                row.cells[column] = number


def _named_cells(
    names: Sequence[str], cells: Sequence[GridCell], lead: int
) -> list[tuple[str, GridCell]]:
    """The cells behind the name of a row, each with the name of its column.

    A row without sizes is often printed without empty cells for them.
    """
    # the columns without sizes, and the cells that are filled
    scores = [name for name in names[lead:] if not size_of(name)]
    values = [cell for cell in cells[lead:] if cell.text.strip()]
    lacks_sizes = len(cells) < len(names) and len(scores) < len(names) - lead
    if lacks_sizes and len(values) == len(scores):
        return list(zip(scores, values, strict=True))
    return list(zip(names[lead:], cells[lead:], strict=False))


@lru_cache(4096)
def _split_name(name: str, count: int) -> list[str]:
    """``count`` names from one.

    Words between slashes are dealt out: ``MNLI-(m/mm)`` gives MNLI-m and MNLI-mm.

    A name without ``count`` such words is numbered: ``F1`` gives F1 (first) and F1 (second).
    """
    if count < 2:
        return [name]
    words = rf"(?<![^\s/()])[^\s/()]+(?:\s*/\s*[^\s/()]+){{{count - 1}}}"
    groups = [
        group for group in re.finditer(rf"\(?({words})\)?", name) if "w/o" not in group[0].lower()
    ]

    # the words of each group dealt out
    names = []
    for number in range(count):
        text = ""
        end = 0
        for group in groups:
            text += name[end : group.start()] + group[1].split("/")[number].strip()
            end = group.end()
        names.append((text + name[end:]).strip())
    if len(set(names)) == count:
        return names

    # not so many words: numbered
    numbered = [*ORDINALS[:count], *range(len(ORDINALS) + 1, count + 1)]
    return [f"{name} ({ordinal})" for ordinal in numbered]


def _plain(text: str) -> str:
    """Without footnote marks and the commands of formulas."""
    text = re.sub(r"\\(?:mathrm|overline|text|rm)\b", "", text)
    return re.sub(r"\s*\[\d+\]|[*`†‡${}]", "", text).strip()


@lru_cache(4096)
def size_of(header: str) -> str:
    """Which size a column holds: params, flops, speed-up, or none."""
    # a change or a share of a size is none
    name = header.lower()
    if re.search(
        r"reduc|Δ|delta|ratio|%|compress|sparsity|kept|remain|drop|hyper|\bw/o\b|without|trainable",
        name,
    ):
        return ""

    # the words that name each
    if "param" in name or re.match(r"(?:model )?size\b|#p", name):
        return "params"
    if "flop" in name:
        return "flops"
    return "speed-up" if re.search(r"speed.?up|faster", name) else ""
