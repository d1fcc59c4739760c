"""Tables of papers read from tidy CSV, Markdown and LaTeX into one form."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.audit.latex import spanned, unlatex
from bench.audit.printed import Printed, printed
from bench.errors import InputError

SIZES = {"params_m": "params", "flops_b": "flops", "speedup": "speed-up"}
TIDY = ("source", "table", "system", "task", "value")
UNKNOWN = ("", "unknown", "mixed")
PIPES = re.compile(r"\s*\|?[^|]*(\|[^|]*){2,}$")
TWO = re.compile(r"\s*[-+−]?\d+(?:\.\d+)?\s*/\s*[-+−]?\d+(?:\.\d+)?\s*")
"""Two numbers in one cell, as 84.6/83.4."""
ASIDE = re.compile(r"\s*(\*{0,2}[-+−]?\d[\d.,]*\*{0,2}%?)\s*\(?\s*([-+−–↑↓]?)\s*(\d+(?:\.\d+)?)\s*%?\s*\)?\s*")
"""A number and a second one behind it, as 84.3 (-0.5), 84.3 ↓0.5, 84.3 (0.2)."""


@dataclass
class Row:
    """One system of a table."""

    system: str
    cells: dict[str, Printed]
    """column -> what is printed there"""
    kinds: dict[str, tuple[str, str]] = field(default_factory=dict)
    """column -> metric and split, where the source says them"""
    sizes: dict[str, Printed] = field(default_factory=dict)
    """params, flops, speed-up"""


@dataclass
class Sheet:
    """One table of one source."""

    source: str
    name: str
    rows: list[Row]

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(column for row in self.rows for column in row.cells))

    @property
    def where(self) -> str:
        return f"{self.source}: {self.name}" if self.name else self.source


class NoTable(InputError):
    """A file that can be read and has no table of numbers."""


@dataclass
class Pages:
    """What several files hold together."""

    sheets: list[Sheet] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    """file name -> running text, of those that have some"""
    without: list[str] = field(default_factory=list)
    """names of files without a table of numbers: a page whose text speaks of others' tables, a list of keys"""


def read_all(files: Sequence[Path]) -> Pages:
    """The tables of several files together, and their running text.

    Raises:
        InputError: a file that cannot be read, or no table in any of them.
    """
    pages = Pages()
    for path in files:
        try:
            pages.sheets += read(path)
        except NoTable:
            if len(files) == 1:
                raise
            pages.without.append(path.name)
        if path.suffix.lower() != ".csv":
            pages.texts[path.name] = path.read_text(encoding="utf-8")
    if not pages.sheets:
        raise NoTable(f"no table of numbers in {', '.join(map(str, files))}")
    return pages


def read(path: Path) -> list[Sheet]:
    """The tables of a file, by its ending.

    Raises:
        NoTable: a file without a table of numbers.
        InputError: a file that is missing or of another kind.
    """
    if not path.is_file():
        raise InputError(f"{path}: {'a folder; name a file in it' if path.is_dir() else 'no such file'}")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start})") from None
    kind = path.suffix.lower()
    if kind == ".csv":
        sheets = from_csv(text, str(path))
    elif kind == ".tex":
        sheets = from_latex(text, path.name)
    elif kind in (".md", ".markdown", ".txt"):
        sheets = from_markdown(text, path.name)
    else:
        raise InputError(f"{path}: tables are read from .csv, .md, .txt and .tex")
    if not sheets:
        raise NoTable(f"{path}: no table of numbers found in it")
    return sheets


def from_csv(text: str, where: str) -> list[Sheet]:
    """Tidy rows (source, table, system, task, value ...), or a plain grid with a header."""
    lines = list(csv.reader(text.splitlines()))
    if not lines:
        return []
    header = [name.strip() for name in lines[0]]
    if not set(TIDY) <= set(header):
        return _grids(Path(where).name, [("", lines)])
    bodies = []
    for number, values in enumerate(lines[1:], start=2):
        if len(values) != len(header):
            raise InputError(f"{where}, line {number}: {len(values)} fields, expected {len(header)}")
        bodies.append(dict(zip(header, values, strict=True)))
    several = _tasks_of_several_columns(bodies)
    sheets: dict[tuple[str, str], Sheet] = {}
    for body in bodies:
        key = body["source"], body["table"]
        sheet = sheets.setdefault(key, Sheet(*key, []))
        row = next((r for r in sheet.rows if r.system == body["system"]), None)
        if row is None:
            row = Row(body["system"], {})
            sheet.rows.append(row)
        for name, ours in SIZES.items():
            if found := printed(body.get(name, "")):
                row.sizes[ours] = found
        if value := printed(body["value"]):
            column = body["task"]
            if (*key, column) in several:
                column = f"{column} ({body.get('metric') or body.get('split')})"
            row.cells[column] = value
            row.kinds[column] = (body.get("metric", ""), body.get("split", ""))
    return [sheet for sheet in sheets.values() if any(row.cells for row in sheet.rows)]


def _tasks_of_several_columns(bodies: Sequence[dict[str, str]]) -> set[tuple[str, str, str]]:
    """(source, table, task) where some system has more than one value: EM beside F1 are two columns, also for the others."""
    seen, several = set(), set()
    for body in bodies:
        cell = body["source"], body["table"], body["task"]
        if (*cell, body["system"]) in seen:
            several.add(cell)
        seen.add((*cell, body["system"]))
    return several


def from_markdown(text: str, where: str) -> list[Sheet]:
    """Tables of pipes or tabs, also with blank lines between their rows; the nearest heading or caption above names each."""
    tables: list[tuple[str, list[list[str]]]] = []
    title, kind = "", ""
    block: list[list[str]] = []
    for line in [*text.splitlines(), "end"]:
        now = "|" if PIPES.match(line) else "\t" if line.count("\t") >= 2 else ""
        if not now and kind == "|" and not line.strip():
            continue  # pages put blank lines between the rows of a table
        separator = now == "|" and re.fullmatch(r"[\s|:-]+", line)
        starts_anew = separator and len(block) > 1  # a second header stands directly below the rows of another table
        if block and (now != kind or starts_anew):
            header = [block.pop()] if starts_anew else []
            tables.append((title, block))
            block = header
        kind = now
        if now and not separator:
            cells = line.strip().strip("|").split("|") if now == "|" else line.split("\t")
            block.append([cell.strip() for cell in cells])
        if re.match(r"#+ |\*\*Table|Table \d", line):
            title = re.sub(r"[#*]", "", line).strip()[:80]
    return _grids(where, tables)


def from_latex(text: str, where: str) -> list[Sheet]:
    """Every tabular; a caption in the same table environment names it."""
    text = re.sub(r"(?<!\\)%.*", "", text)
    tables = []
    pattern = re.compile(r"\\begin\{(tabular[*xy]?)\}.*?\\end\{\1\}", re.DOTALL)
    for found in pattern.finditer(text):
        begin = text.rfind(r"\begin{table", 0, found.start())
        end = text.find(r"\end{table", found.end())
        around = text[begin if begin >= 0 else found.start() : end if end >= 0 else found.end()]
        caption = re.search(r"\\caption\{((?:[^{}]|\{[^{}]*\})*)\}", around)
        body = re.sub(r"^\\begin\{tabular[*xy]?\}(?:\{[^{}]*\})*(?:\[[^\]]*\])?", "", found.group(0))
        body = re.sub(r"\\end\{tabular[*xy]?\}$", "", body)
        body = re.sub(
            r"\\(?:toprule|midrule|bottomrule|hline|cmidrule(?:\([^)]*\))?\{[^}]*\}|cline\{[^}]*\})", "", body
        )
        lines = []
        for line in re.split(r"\\\\(?:\[[^\]]*\])?", body):
            cells = [text for cell in re.split(r"(?<!\\)&", line) for text in spanned(cell)]
            if any(cells):
                lines.append(cells)
        tables.append((unlatex(caption.group(1)) if caption else "", lines))
    return _grids(where, tables)


def _grids(where: str, tables: Iterable[tuple[str, Sequence[Sequence[str]]]]) -> list[Sheet]:
    """Grids with systems in the first column; columns of sizes are known by their headers."""
    sheets = []
    for title, lines in tables:
        if len(lines) < 2:
            continue
        header, body = _header(lines)
        scores = [i for i, name in enumerate(header) if i and not size_of(name)]
        rows = []
        for line in body:
            system, cells, sizes = _plain(line[0]) if line else "", {}, {}
            values = [text for text in line[1:] if text.strip()]
            short = len(line) < len(header) and len(values) == len(scores) < len(header) - 1
            # a row without sizes is often printed without empty cells for them
            named = zip(
                [header[i] for i in scores] if short else header[1:], values if short else line[1:], strict=False
            )
            for name, text in ((n, t) for pair in named for n, t in _halves(*pair)):
                number = printed(text)
                size = size_of(name)
                if number is None or not name or (name.startswith("#") and not size):
                    continue  # a count of something else, or a size whose header was read badly
                if size:
                    sizes[size] = number
                else:
                    cells[name] = number
            if system and (cells or sizes):
                rows.append(Row(system, cells, sizes=sizes))
        if rows:
            sheets.append(Sheet(where, title, rows))
    titles = [sheet.name for sheet in sheets]
    for place, sheet in enumerate(sheets, start=1):
        if titles.count(sheet.name) > 1:  # the heading above stands for several
            sheet.name = f"table {place}"
    return sheets


def _header(lines: Sequence[Sequence[str]]) -> tuple[list[str], Sequence[Sequence[str]]]:
    """Names of the columns and the lines below; a second line of names goes before the first where it says more."""
    header = [_plain(cell) for cell in lines[0]]
    below = [_plain(cell) for cell in lines[1]] if len(lines) > 2 else []
    named = [cell for cell in below[1:] if cell]
    if len(named) < 2 or len(below) > len(header) or not all(re.match(r"\W*[A-Za-z]", cell) for cell in named):
        return header, lines[1:]
    joined = []
    for place, top in enumerate(header):
        name = below[place] if place < len(below) else ""
        repeated = name and below.count(name) > 1
        joined.append(f"{top} {name}" if repeated and top else name or top)
    return joined, lines[2:]


def _halves(name: str, text: str) -> list[tuple[str, str]]:
    """A cell of two numbers as two columns: MNLI-m/mm, MNLI-(m/mm), SQuAD (EM/F1); a signed one in brackets as a difference."""
    if (aside := ASIDE.fullmatch(text)) and re.search(r"[(↑↓]", text):
        sign = {"↑": "+", "↓": "-", "−": "-", "–": "-"}.get(aside.group(2), aside.group(2))
        # without a sign it is a deviation over seeds
        return [(name, aside.group(1)), *([(f"Δ {name}", sign + aside.group(3))] if sign else [])]
    if not TWO.fullmatch(text):
        return [(name, text)]
    left, right = text.split("/")
    parts = re.fullmatch(r"(.*?)\(?([\w.]+)/([\w.]+)\)?", name)
    if parts is None:
        return [(f"{name} (first)", left), (f"{name} (second)", right)]
    base = parts.group(1)
    return [(f"{base}{parts.group(2)}", left), (f"{base}{parts.group(3)}", right)]


def _plain(text: str) -> str:
    """Without footnote marks, tags, and the commands of formulas."""
    text = re.sub(r"</?\w+>|\\(?:mathrm|overline|text|rm)\b", "", text)
    return re.sub(r"\s*\[\d+\]|[*`†‡${}]", "", text).strip()


def size_of(header: str) -> str:
    """Which size a column holds: params, flops, speed-up, or none."""
    name = header.lower()
    if "param" in name or name.startswith(("size", "#p")):
        return "params"
    if "flop" in name:
        return "flops"
    return "speed-up" if re.search(r"speed.?up|faster", name) else ""
