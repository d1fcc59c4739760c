"""Tables of HTML: a page, or tables within Markdown, with their spans."""

from __future__ import annotations

import re

from bench.audit.grid import Grid, GridLine, Spanned, laid_out, span_of, without_markup


def html_grids(text: str) -> tuple[list[Grid], str]:
    """Every table of a text, the innermost of nested ones, and the text with them blanked out."""
    grids, rest, end = [], [], 0
    for start, stop in _outermost(text):
        first = text.count("\n", 0, start) + 1
        before = text[:start]
        grids += _tables(text[start:stop], _title_before(before), first, start)
        rest.append(text[end:start] + "\n" * text.count("\n", start, stop))
        end = stop
    return grids, "".join([*rest, text[end:]])


def _outermost(text: str) -> list[tuple[int, int]]:
    found, depth, start = [], 0, 0
    for tag in re.finditer(r"<(/?)table\b[^>]*>", text, re.IGNORECASE):
        if not tag[1]:
            start = tag.start() if depth == 0 else start
            depth += 1
        elif depth:
            depth -= 1
            if depth == 0:
                found.append((start, tag.end()))
    return found


def _tables(text: str, title: str, first: int, place: int) -> list[Grid]:
    from lxml import html

    # the source line of a tag is kept only as long as the parser sees the same lines
    root = html.fragment_fromstring(text, create_parent="div")
    grids = []
    for table in root.iter("table"):
        if any(inner is not table for inner in table.iter("table")):
            continue  # a table that holds others only places them
        rows, numbers, heads = [], [], 0
        only_heads = True
        for row in table.iter("tr"):
            cells = [cell for cell in row if cell.tag in ("td", "th")]
            if not cells:
                continue
            in_head = row.getparent().tag == "thead" or all(cell.tag == "th" for cell in cells)
            only_heads = only_heads and in_head
            heads += only_heads
            rows.append([_spanned(cell) for cell in cells])
            numbers.append(first + max(0, (row.sourceline or 1) - 1))
        caption = table.find("caption")
        named = " ".join(caption.text_content().split()) if caption is not None else title
        lines = [GridLine(cells, number) for cells, number in zip(laid_out(rows), numbers, strict=True)]
        grids.append(Grid(named[:80], lines, heads, place))
    return grids


def _spanned(cell) -> Spanned:  # type: ignore[no-untyped-def]
    from lxml import html

    inner = (cell.text or "") + "".join(html.tostring(child, encoding="unicode") for child in cell)
    inner = re.sub(r"</(?:p|div|li)>", " ", inner)
    return Spanned(without_markup(inner), span_of(cell.get("colspan")), span_of(cell.get("rowspan")))


def _title_before(text: str) -> str:
    """The nearest heading above, of HTML or Markdown."""
    found = list(re.finditer(r"<h[1-6][^>]*>(.*?)</h[1-6]>|^#+ +(.*)$", text, re.DOTALL | re.MULTILINE | re.IGNORECASE))
    return without_markup(found[-1][1] or found[-1][2] or "").replace("*", "").strip("¶ #")[:80] if found else ""
