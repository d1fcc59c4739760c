"""Tables of HTML: a page, or tables within Markdown, with their spans."""

from __future__ import annotations

import re

from bench.audit.grid import (
    LONGEST_SOURCE,
    Grid,
    GridLine,
    Spanned,
    cells_with,
    laid_out,
    line_numbers,
    span_of,
    without_markup,
)

HEADING = re.compile(
    rf"<h[1-6][^<>]*>(.{{0,{LONGEST_SOURCE}}}?)</h[1-6]>|^#+ +([^\n]*)$",
    re.DOTALL | re.MULTILINE | re.IGNORECASE,
)


def html_grids(text: str) -> tuple[list[Grid], str]:
    """Every table of a text, the innermost of nested ones, and the text with them blanked out."""
    from lxml import html

    line_number = line_numbers(text)
    grids: list[Grid] = []
    rest = []
    end = 0
    cells = 0
    for start, stop in outermost(text):
        above = list(HEADING.finditer(text, end, start))
        title = above[-1][1] or above[-1][2] or "" if above else grids[-1].title if grids else ""
        title = without_markup(title).replace("*", "").strip("¶ #")[:80]
        # the source line of a tag is kept only as long as the parser sees the same lines
        root = html.fragment_fromstring(text[start:stop], create_parent="div")
        # a table that holds others only places them
        for table in root.xpath(".//table[not(.//table)]"):
            grid = _grid(table, title, line_number(start), start)
            cells = cells_with(grid, cells)
            grids.append(grid)
        rest.append(text[end:start] + "\n" * text.count("\n", start, stop))
        end = stop
    return grids, "".join([*rest, text[end:]])


def outermost(text: str) -> list[tuple[int, int]]:
    """Begin and end of every table that is in no other one."""
    tables, depth, start = [], 0, 0
    for tag in re.finditer(r"<(/?)table\b[^<>]*>", text, re.IGNORECASE):
        if not tag[1]:
            start = tag.start() if depth == 0 else start
            depth += 1
        elif depth:
            depth -= 1
            if depth == 0:
                tables.append((start, tag.end()))
    return tables


def _grid(table, title: str, first: int, place: int) -> Grid:  # type: ignore[no-untyped-def]
    from lxml import html

    rows: list[list[Spanned]] = []
    numbers, heads = [], 0
    for row in table.iter("tr"):
        cells = []
        for cell in row.iterchildren("td", "th"):
            inner = (cell.text or "") + "".join(
                html.tostring(child, encoding="unicode") for child in cell
            )
            shown = without_markup(re.sub(r"</(?:p|div|li)>", " ", inner))
            cells.append(Spanned(shown, span_of(cell.get("colspan")), span_of(cell.get("rowspan"))))
        if cells:
            in_head = row.getparent().tag == "thead" or row.find("td") is None
            heads += in_head and heads == len(rows)
            rows.append(cells)
            numbers.append(first + max(0, (row.sourceline or 1) - 1))
    caption = table.find("caption")
    title = " ".join(caption.text_content().split())[:80] if caption is not None else title
    lines = [GridLine(cells, number) for cells, number in zip(laid_out(rows), numbers, strict=True)]
    return Grid(title, lines, heads, place)
