"""Show the findings of an audit as a table."""

from __future__ import annotations

from collections.abc import Sequence

from bench.audit.findings import ARITHMETIC, Finding, causes
from bench.audit.sheets import Pages
from bench.errors import one_line


def printable(text: str) -> str:
    """Lines for a terminal without control characters of cells, which a terminal would obey."""
    return "\n".join(map(one_line, text.split("\n")))


def shown(pages: Pages, findings: Sequence[Finding]) -> str:
    """The table of findings, one line a cause, how many there are, and how much was read."""
    from tabulate import tabulate

    rows = sum(len(sheet.rows) for sheet in pages.sheets)
    size = f"{pages.reading}, {_counted(rows, 'row')}"
    without = f"no table of numbers in {', '.join(pages.without)}\n\n" if pages.without else ""
    if not findings:
        return printable(f"{without}nothing found; {size}")

    # one line a cause
    found = causes(findings)
    header = ["where", "row", "column", "printed", "recomputed", "basis", "why", "changes"]
    table = tabulate(
        [_line(cause) for cause in found],
        header,
        tablefmt="github",
        disable_numparse=True,
        colalign=["left"] * len(header),
    )

    # how many lines, of how many findings, and how many of the lines are guesses
    counted = _counted(len(found), "line")
    if len(found) < len(findings):
        counted += f" ({_counted(len(findings), 'finding')})"
    guesses = sum(cause[0].basis != ARITHMETIC for cause in found)
    if guesses:
        counted += f", {guesses} of them {'a guess' if guesses == 1 else 'guesses'}"
    return printable(f"{without}{table}\n\n{counted}; {size}")


def _line(cause: Sequence[Finding]) -> list[str]:
    """One cause in the columns of the table."""
    first = cause[0]
    return [
        first.where,
        _several([finding.row for finding in cause]),
        _several([finding.column for finding in cause]),
        _several([finding.printed for finding in cause], once=False),
        _several([finding.recomputed or "–" for finding in cause], once=False),
        first.basis,
        first.why,
        first.changes,
    ]


def _counted(number: int, what: str) -> str:
    """``1 line``, ``3 lines``"""
    return f"{number} {what}{'' if number == 1 else 's'}"


def _several(texts: Sequence[str], once: bool = True) -> str:
    """The first three and how many more; ``once``: equal texts are shown once."""
    texts = list(dict.fromkeys(texts)) if once else texts
    more = f" and {len(texts) - 3} more" if len(texts) > 3 else ""
    return ", ".join(texts[:3]) + more


def unread_lines(pages: Pages) -> str:
    """File, line and cell of each number that was not read."""
    lines = [
        f"{name}, line {number.line}: {number.text} of the cell {number.cell!r}"
        for name, number in pages.unread
    ]
    return printable("\n".join(lines)) or "every number was read"
