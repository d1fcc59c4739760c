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
        # the last heading between the tables, else that of the table before
        above = list(HEADING.finditer(text, end, start))
        title = grids[-1].title if grids else ""
        if above:
            title = above[-1][1] or above[-1][2] or ""
        title = without_markup(title).replace("*", "").strip("¶ #")[:80]
        # the source line of a tag is kept only as long as the parser sees the same lines
        root = html.fragment_fromstring(text[start:stop], create_parent="div")
        # a table that holds others only places them
        for table in root.xpath(".//table[not(.//table)]"):
            grid = _grid(table, title, line_number(start), start)
            cells = cells_with(grid, cells)
            grids.append(grid)
        # the text goes on behind it, with as many lines
        rest.append(text[end:start] + "\n" * text.count("\n", start, stop))
        end = stop
    return grids, "".join([*rest, text[end:]])


def outermost(text: str) -> list[tuple[int, int]]:
    """Begin and end of every table that is in no other one."""
    # depth of tables within each other
    tables = []
    depth = 0
    start = 0
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
    """The table of an element.

    Args:
        title: of a table without a caption.
        first: the line of the file in which it begins.
        place: where it begins in its text, in characters.
    """
    rows: list[list[Spanned]] = []
    numbers = []
    heads = 0
    for row in table.iter("tr"):
        cells = [_spanned(cell) for cell in row.iterchildren("td", "th")]
        if not cells:
            continue
        # header are the rows of <thead>, and those of <th> alone, above all others
        is_head = row.getparent().tag == "thead" or row.find("td") is None
        if is_head and heads == len(rows):
            heads += 1
        rows.append(cells)
        numbers.append(first + max(0, (row.sourceline or 1) - 1))

    # its caption, else the heading above
    caption = table.find("caption")
    if caption is not None:
        title = " ".join(caption.text_content().split())[:80]
    lines = [GridLine(cells, number) for cells, number in zip(laid_out(rows), numbers, strict=True)]
    return Grid(title, lines, heads, place)


def _spanned(cell) -> Spanned:  # type: ignore[no-untyped-def]
    """A cell by its element: the text that it shows, and how far it spans."""
    from lxml import html

    # the text with its tags, which markup is taken out of
    children = [html.tostring(child, encoding="unicode") for child in cell]
    inner = (cell.text or "") + "".join(children)
    shown = without_markup(re.sub(r"</(?:p|div|li)>", " ", inner))
    return Spanned(shown, span_of(cell.get("colspan")), span_of(cell.get("rowspan")))
