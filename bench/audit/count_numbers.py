"""How many numbers the tables of a file print, by a plain pass over its text that knows nothing of the reader's tables.

The reader is compared with it: what it lost is counted, and shown with ``--unread``. The pass cuts lines at ``|``, tabs, ``&``
or ``<td>``, leaves the first cell of each line out, and counts a cell's numbers if nothing but signs and units is around them.
"""

from __future__ import annotations

import csv
import html
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

from bench.audit.grid import LONGEST_SOURCE, LineNumbers
from bench.audit.latex import inputs
from bench.audit.notebook import notebook_texts
from bench.audit.printed import DECIMAL_COMMA
from bench.audit.table import Sheet

NUMBER = re.compile(r"(?<![\w.])[-+−–]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?(?=\D|$)")
REST = re.compile(
    r"(?:[^\w]|\b(?:%|x|X|k|K|M|G|B|T|ms|us|s|h|d|hr|hrs|hours?|min|GB|MB|KB|GiB|MiB|m|b|bn|vs|to|of|and|out|CI|W|J|GFLOPs|MFLOPs|FLOPs"
    r"|GMACs|MACs|params|tok/s|epochs?|pts?|points?|pp|fps|bits?|million|billion)\b)*"
)
LEAST = 4
"""Numbers from which lines in a row count as a table of numbers."""


class Seen(NamedTuple):
    """One number of a table and the line where it is printed, of the file with the files that it inputs in place."""

    line: int
    text: str
    cell: str


def separator(text: str, kind: str) -> str:
    """What keeps the values of a .csv or .tsv file apart: spreadsheets write semicolons where numbers have decimal commas."""
    first = text.partition("\n")[0]
    return "\t" if kind == ".tsv" else ";" if first.count(";") > first.count(",") else ","


def seen(text: str, path: Path) -> list[list[Seen]]:
    """The numbers of each table of a file that has at least four of them."""
    kind = path.suffix.lower()
    if kind in (".csv", ".tsv"):
        tables = [_of_values(list(csv.reader(text.splitlines(), delimiter=separator(text, kind))))]
    elif kind == ".ipynb":
        tables = [table for part in notebook_texts(text) for table in seen_in_text(part)]
    else:
        tables = seen_in_text(inputs(text, path.parent) if kind == ".tex" else text)
    return [table for table in tables if len(table) >= LEAST]


def _of_values(lines: Sequence[Sequence[str]]) -> list[Seen]:
    """Every cell but the first of a grid; of tidy rows only those that a table would show."""
    header = [name.strip() for name in lines[0]] if lines else []
    is_tidy = {"source", "table", "system", "task", "value"} <= set(header)
    of_row = [place for place, name in enumerate(header) if name in ("source", "table", "system")]
    numbers, sizes = [], set()
    for number, line in enumerate(lines[1:], start=2):
        for place, (name, cell) in enumerate(zip(header, line, strict=False)):
            if is_tidy and name in ("params_m", "flops_b", "speedup"):  # repeated with every value of its row
                size = (*(line[i] for i in of_row if i < len(line)), name, cell)
                shown = size not in sizes
                sizes.add(size)
            else:
                shown = name == "value" if is_tidy else place > 0
            numbers += [Seen(number, text, cell) for text in _numbers(cell)] if shown else []
    return numbers


def seen_in_text(text: str) -> list[list[Seen]]:
    """The numbers of each run of lines that a container of tables cuts into cells."""
    tables: list[list[Seen]] = []
    for pattern, cut in (
        (r"\\begin\{(?P<of>\w*tabular\w*\*?|longtable|tblr)\}|\\end\{(?P<end>\w+\*?)\}", _latex),
        (r"<(?P<of>table)\b|</(?P<end>table)>", _html),
    ):
        line_number = LineNumbers(text)
        rest, done, begin = [], 0, None
        # from the first begin to the first end of that name: what is within belongs to it
        for mark in re.finditer(pattern, text, re.IGNORECASE):
            begin = mark if begin is None and mark["of"] else begin
            if begin is not None and mark["end"] == begin["of"]:
                body, first = text[begin.start() : mark.end()], line_number(begin.start())
                tables.append([Seen(first + n, number, c) for n, cell, c in cut(body) for number in _numbers(cell)])
                rest.append(text[done : begin.start()] + "\n" * body.count("\n"))
                done, begin = mark.end(), None
        text = "".join([*rest, text[done:]])
    return [*tables, *_of_lines(text)]


def _of_lines(text: str) -> Iterator[list[Seen]]:
    table: list[Seen] = []
    blank = 0
    for number, line in enumerate([*text.splitlines(), "", "", ""], start=1):
        mark = "|" if len(re.findall(r"(?<!\\)\|", line)) >= 2 else "\t" if line.count("\t") >= 2 else ""
        if re.match(r"\s*\+[-=+]+\+\s*$", line):
            continue  # a border within a drawn table
        if not mark:
            blank += 1
            if (line.strip() or blank > 2) and table:
                yield table
                table = []
            continue
        blank = 0
        cells = re.split(r"(?<!\\)\|", re.sub(r"^[\s>]*\|", "", line)) if mark == "|" else line.split("\t")
        table += [Seen(number, text, cell.strip()) for cell in cells[1:] for text in _numbers(cell)]


def _latex(body: str) -> Iterator[tuple[int, str, str]]:
    """Cells but the first of each row: line within the body, the cell without commands, the cell."""
    body = re.sub(r"(?<!\\)%.*", "", body)
    body = re.sub(r"\\begin\{[^}]*\}(?:\[[^\]]*\])?(?:\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})*", "", body)
    offset = 0
    for row in body.split(r"\\"):
        line = body.count("\n", 0, offset + len(row) - len(row.lstrip()))
        offset += len(row) + 2
        for cell in re.split(r"(?<!\\)&", row)[1:]:
            plain = re.sub(
                r"\\(?:cellcolor|color|textcolor|rowcolor|cite\w*|hspace|cmidrule|cline|vspace)(?:\([^)]*\))?\*?(?:\[[^\]]*\])?\{[^{}]*\}",
                "",
                cell,
            )
            plain = re.sub(r"\\multi(?:row|column)(?:\[[^\]]*\])?\s*\{[^{}]*\}(?:\[[^\]]*\])?\s*\{[^{}]*\}", "", plain)
            plain = re.sub(r"(\d\s*\})\{[a-z]+!?\d*\}", r"\1", plain)
            plain = re.sub(r"\\pm\b", "±", plain)
            plain = re.sub(r"\^\{?[\w*\\]+\}?|\\[A-Za-z]+|[{}$]", " ", plain)
            yield line, plain, cell.strip()


def _html(body: str) -> Iterator[tuple[int, str, str]]:
    for row in re.finditer(r"<tr\b.*?(?=<tr\b|</table|</tr)", body, re.DOTALL | re.IGNORECASE):
        line = body.count("\n", 0, row.start())
        cells = re.findall(r"<t[dh]\b[^>]*>(.*?)(?=</t[dh]>|<t[dh]\b|$)", row[0], re.DOTALL | re.IGNORECASE)
        for cell in cells[1:]:
            yield line, cell, " ".join(cell.split())


def _numbers(cell: str) -> list[str]:
    """The numbers of a cell that shows nothing else; a deviation or an interval behind a number is none of its own."""
    plain = re.sub(r"\\pm|\+/?-|&plusmn;", "±", html.unescape(cell[:LONGEST_SOURCE]))
    plain = re.sub(r"!\[[^\]]*\]\([^)]*\)|\[\^?\d+\](?:\([^)]*\))?", "", plain)
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", plain)
    plain = re.sub(r"<sup>.*?</sup>|</?\w[^<>]*>|\*+|`|\^\{?[\w*†]+\}?", " ", plain)
    plain = DECIMAL_COMMA.sub(r"\1.\2", plain)
    plain = re.sub(r"(±|_\{?)\s*[\d.]+\s*%?|(?<=[\d%])\s*\[[^][]*\]", "", plain)
    plain = plain.replace("\\", " ").replace("$", " ").strip()
    if re.search(r"\d:\d\d|\d{4}-\d\d", plain):
        return []
    numbers = NUMBER.findall(plain)
    return numbers if numbers and REST.fullmatch(NUMBER.sub(" ", plain)) else []


def unread(tables: Iterable[Sequence[Seen]], sheets: Sequence[Sheet]) -> list[Seen]:
    """What the plain pass saw and no table of the reader holds, equal numbers counted."""
    have: Counter[Decimal] = Counter()
    lines: Counter[tuple[int, Decimal]] = Counter()
    for row in (row for sheet in sheets for row in sheet.rows):
        for cell in [*row.cells.values(), *row.sizes.values()]:
            have[abs(cell.value)] += 1
            lines[row.line, abs(cell.value)] += 1
    left = []
    for number, value in ((number, _value(number.text)) for table in tables for number in table):
        if lines[number.line, value] > 0:
            lines[number.line, value] -= 1
            have[value] -= 1
        else:
            left.append((number, value))
    missing = []
    for number, value in left:  # a row of LaTeX or HTML begins above the line of its number
        have[value] -= 1
        if have[value] < 0:
            missing.append(number)
    return missing


def _value(text: str) -> Decimal:
    try:
        return abs(Decimal(re.sub("[−–]", "-", text.replace(",", ""))))
    except ArithmeticError:  # an exponent of any size
        return Decimal(0)
