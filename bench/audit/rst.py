"""Tables of reStructuredText: drawn grids, simple tables, and the directives list-table and csv-table."""

from __future__ import annotations

import csv
import itertools
import re

from bench.audit.grid import Grid, GridLine, Spanned, laid_out, line_of, without_markup

BORDER = re.compile(r"\s*\+(?:[-=]+\+)+\s*$")
SIMPLE = re.compile(r"\s*=+(?:\s+=+)+\s*$")
DIRECTIVE = re.compile(r"(\s*)\.\.\s+(list-table|csv-table)::\s*(.*)$")


def rst_grids(text: str) -> tuple[list[Grid], str]:
    """Every table of a text, and the text with them blanked out."""
    lines = text.splitlines()
    starts = [0, *itertools.accumulate(len(line) + 1 for line in lines)]
    grids: list[Grid] = []
    title, at = "", 0
    while at < len(lines):
        end, grid = at, None
        if at and re.fullmatch(r"([=\-~^\"'#*+])\1{2,}\s*", lines[at]) and lines[at - 1].strip():
            title = lines[at - 1].strip()[:80]  # an underlined heading
        if BORDER.match(lines[at]):
            end, grid = _drawn(lines, at)
        elif SIMPLE.match(lines[at]):
            end, grid = _simple(lines, at)
        elif directive := DIRECTIVE.match(lines[at]):
            end, grid = _directive(lines, at, directive)
        if grid is None or not grid.lines:
            at = max(at + 1, end if BORDER.match(lines[at]) else 0)
            continue
        grid.title, grid.place = grid.title or title, starts[at]
        grids.append(grid)
        lines[at:end] = [""] * (end - at)
        at = end
    return grids, "\n".join(lines)


def _drawn(lines: list[str], at: int) -> tuple[int, Grid]:
    """A grid of + - |: a line of cells is what is between two borders; a cell may span several columns."""
    end = at
    while end < len(lines) and re.match(r"\s*[+|]", lines[end]):
        end += 1
    drawn = [m.start() for line in lines[at:end] if re.match(r"\s*\+", line) for m in re.finditer(r"\+", line)]
    edges = {place: column for column, place in enumerate(sorted(set(drawn)))}
    grid = Grid("")
    rows: list[tuple[int, list[Spanned]]] = []
    texts: dict[int, list[str]] = {}
    spans: dict[int, int] = {}
    first = at
    for place in range(at, end):
        line = lines[place]
        if re.match(r"\s*\+[-=+ |]*$", line):
            if texts:
                rows.append((first + 1, [Spanned(" ".join(texts[c]).strip(), spans[c]) for c in sorted(texts)]))
            if "=" in line:
                grid.head = len(rows)
            texts, spans, first = {}, {}, place + 1
            continue
        bars = [m.start() for m in re.finditer(r"\|", line) if m.start() in edges]
        for left, right in itertools.pairwise(bars):
            column = edges[left]
            texts.setdefault(column, []).append(without_markup(line[left + 1 : right]))
            spans[column] = edges[right] - column
    grid.lines = [
        GridLine(cells, number) for (number, _), cells in zip(rows, laid_out([r for _, r in rows]), strict=True)
    ]
    return end, grid


def _simple(lines: list[str], at: int) -> tuple[int, Grid]:
    """Columns below runs of equal signs; the second such line ends the header, the third the table."""
    slots = [(m.start(), m.end()) for m in re.finditer(r"=+", lines[at])]
    grid, end, borders = Grid(""), at + 1, 1
    while end < len(lines):
        line = lines[end]
        end += 1
        if SIMPLE.match(line):
            borders += 1
            if borders == 2:
                grid.head = len(grid.lines)
            following = lines[end].strip() if end < len(lines) else ""
            if borders >= 3 or not following:
                break
        elif line.strip() and not re.fullmatch(r"[\s-]+", line):
            starts = [start for start, _ in slots]
            cells = [line[a:b].strip() for a, b in zip(starts, [*starts[1:], len(line) + 1], strict=True)]
            if (
                not cells[0]
                and grid.lines
                and len(grid.lines) != grid.head
                and not any(map(str.isdigit, "".join(cells)))
            ):
                above = grid.lines[-1]
                joined = (f"{old.text} {new}".strip() for old, new in zip(above.cells, cells, strict=True))
                grid.lines[-1] = line_of(joined, above.number)
            else:
                grid.lines.append(line_of(map(without_markup, cells), end))
    return end, grid


def _directive(lines: list[str], at: int, directive: re.Match[str]) -> tuple[int, Grid]:
    indent = len(directive[1])
    end, options = at + 1, {}
    while end < len(lines) and (not lines[end].strip() or len(lines[end]) - len(lines[end].lstrip()) > indent):
        if option := re.match(r"\s*:([\w-]+):\s*(.*)$", lines[end]):
            options[option[1]] = option[2]
        end += 1
    body = [(n, line) for n, line in enumerate(lines[at + 1 : end], start=at + 2) if not re.match(r"\s*:[\w-]+:", line)]
    rows = _listed(body) if directive[2] == "list-table" else _comma_separated(body, options.get("header", ""))
    stated = options.get("header-rows", "").strip()
    head = min(int(stated), len(rows)) if re.fullmatch(r"[0-9]{1,6}", stated) else int(bool(options.get("header")))
    return end, Grid(directive[3].strip()[:80], [line_of(cells, number) for number, cells in rows], head)


def _listed(body: list[tuple[int, str]]) -> list[tuple[int, list[str]]]:
    rows: list[tuple[int, list[str]]] = []
    for number, line in body:
        if item := re.match(r"\s*\*\s+-\s*(.*)$", line):
            rows.append((number, [without_markup(item[1])]))
        elif (item := re.match(r"\s*-\s*(.*)$", line)) and rows:
            rows[-1][1].append(without_markup(item[1]))
    return rows


def _comma_separated(body: list[tuple[int, str]], header: str) -> list[tuple[int, list[str]]]:
    kept = [(number, line.strip()) for number, line in body if line.strip()]
    rows = [
        (n, [without_markup(c.strip()) for c in next(csv.reader([line], skipinitialspace=True))]) for n, line in kept
    ]
    return [*([(0, next(csv.reader([header], skipinitialspace=True)))] if header else []), *rows]
