"""What an audit found in its files: as a table, as a text for an issue, and as counts for each file of a folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.audit.checks import audit
from bench.audit.findings import ARITHMETIC, INFERENCE, Finding, causes
from bench.audit.sheets import KINDS, Pages, pages_of
from bench.audit.text_claims import claims
from bench.errors import InputError, one_line

COUNTS = ("tables", "numbers", "read", "arithmetic", "inference")
"""What is counted of a file: causes of two kinds at the end."""


def findings_of(pages: Pages, basis: str = "") -> list[Finding]:
    """Every finding of tables and of claims in running text, arithmetic first; of one basis where it is named.

    Raises:
        InputError: a basis that there is not.
    """
    if basis not in ("", ARITHMETIC, INFERENCE):
        raise InputError(f"--only {basis}: expected {ARITHMETIC} or {INFERENCE}")
    findings = audit(pages.sheets)
    findings += [f for name, text in pages.texts.items() for f in claims(text, name, pages.sheets)]  # all are guesses
    return [f for f in findings if basis in ("", f.basis)]


def printable(text: str) -> str:
    """Lines for a terminal: the cells of a file may hold control characters, which a terminal obeys."""
    return "\n".join(map(one_line, text.split("\n")))


def shown(pages: Pages, findings: Sequence[Finding]) -> str:
    """The table of findings, one line a cause, how many there are, and how much was read."""
    rows = sum(len(sheet.rows) for sheet in pages.sheets)
    size = f"{pages.reading}, {_counted(rows, 'row')}"
    without = f"no table of numbers in {', '.join(pages.without)}\n\n" if pages.without else ""
    if not findings:
        return printable(f"{without}nothing found; {size}")
    lines = [
        [
            cause[0].where,
            _several([f.row for f in cause]),
            _several([f.column for f in cause]),
            _several([f.printed for f in cause], once=False),
            _several([f.recomputed or "–" for f in cause], once=False),
            cause[0].basis,
            cause[0].why,
            cause[0].changes,
        ]
        for cause in causes(findings)
    ]
    header = ["where", "row", "column", "printed", "recomputed", "basis", "why", "changes"]
    guesses = sum(line[5] != ARITHMETIC for line in lines)
    findings_in = f" ({_counted(len(findings), 'finding')})" if len(lines) < len(findings) else ""
    guessed = f", {guesses} of them {'a guess' if guesses == 1 else 'guesses'}" if guesses else ""
    return printable(
        f"{without}{_table(lines, header)}\n\n{_counted(len(lines), 'line')}{findings_in}{guessed}; {size}"
    )


def _table(lines: Sequence[Sequence[Any]], header: Sequence[str]) -> str:
    from tabulate import tabulate

    counted = [place for place in range(len(header)) if all(isinstance(line[place], int) for line in lines)]
    align = ["right" if place in counted else "left" for place in range(len(header))]
    return tabulate(lines, header, tablefmt="github", disable_numparse=True, colalign=align if lines else None)


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
    lines = [f"{name}, line {number.line}: {number.text} of the cell {number.cell!r}" for name, number in pages.unread]
    return printable("\n".join(lines)) or "every number was read"


def prose(findings: Sequence[Finding], reading: str) -> str:
    """Markdown that one could paste into an issue: plain sentences, guesses below a heading of their own."""
    if not findings:
        return f"I checked the arithmetic of the tables ({reading}). Nothing is wrong that the numbers show.\n"
    parts = [f"I checked the arithmetic of the tables with a script ({reading}). Some numbers do not fit the others."]
    certain = [cause for cause in causes(findings) if cause[0].basis == ARITHMETIC]
    if certain:
        parts.append("## What the printed numbers show")
        parts.append("\n".join(f"{number}. {_sentences(cause)}" for number, cause in enumerate(certain, start=1)))
    guesses = [cause for cause in causes(findings) if cause[0].basis != ARITHMETIC]
    if guesses:
        parts.append("## What may be worth a look")
        parts.append("These need a reading of the tables. They may have a good reason.")
        parts.append("\n".join(f"{number}. {_sentences(cause)}" for number, cause in enumerate(guesses, start=1)))
    return printable("\n\n".join(parts) + "\n")


def _sentences(cause: Sequence[Finding]) -> str:
    first = cause[0]
    place = first.where
    for kind, named in (("row", [f.row for f in cause]), ("column", [f.column for f in cause])):
        names = [f'"{name}"' for name in named if name]
        place += f", {kind} {_several(names)}" if names else ""
    prints = "the text says" if first.check == "claim" else "the table prints"
    follows = _several([f.recomputed for f in cause if f.recomputed], once=False)
    why = f"It should be {follows}: {first.why}" if follows else f"{first.why[:1].upper()}{first.why[1:]}"
    changes = f" This changes {first.changes}." if first.changes else ""
    return f"{place}: {prints} {_several([f.printed for f in cause], once=False)}. {why}.{changes}"


def audit_each(folder: Path) -> tuple[str, dict[str, Any]]:
    """Each file of a folder by itself: a table of what was read and found, and the same as a mapping.

    Raises:
        InputError: no folder, or no file in it that tables are read from.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder")
    files = [path for path in sorted(folder.iterdir()) if path.is_file() and path.suffix.lower() in KINDS]
    if not files:
        raise InputError(f"{folder}: no file that tables are read from ({', '.join(KINDS)})")
    lines: list[dict[str, Any]] = []
    unreadable = []
    for path in files:
        try:
            pages = pages_of([path])
        except InputError as error:
            unreadable.append(str(error))
            continue
        findings = findings_of(pages)
        first = [cause[0] for cause in causes(findings)]
        lines.append(
            {
                "file": path.name,
                "format": path.suffix.lower().lstrip("."),
                "tables": pages.counted,
                "numbers": pages.printed,
                "read": pages.printed - len(pages.unread),
                "arithmetic": sum(f.basis == ARITHMETIC for f in first),
                "inference": sum(f.basis != ARITHMETIC for f in first),
                "findings": len(findings),
                "checks": dict(Counter(f.check for f in first)),
            }
        )
    formats: dict[str, dict[str, int]] = {}
    for kind in [*sorted({line["format"] for line in lines}), "all"]:
        alike = [line for line in lines if kind in ("all", line["format"])]
        formats[kind] = {"files": len(alike)} | {name: sum(line[name] for line in alike) for name in COUNTS}
    checks = dict(sorted(sum((Counter(line["checks"]) for line in lines), Counter[str]()).items()))
    header = ["tables", "numbers", "read", "arithmetic causes", "guesses"]
    by_file = [
        [line["file"], *(line[name] for name in COUNTS)] for line in lines if line["numbers"] or line["findings"]
    ]
    by_format = [
        [kind, *row.values(), f"{100 * row['read'] / row['numbers']:.1f} %" if row["numbers"] else "–"]
        for kind, row in formats.items()
    ]
    parts = [
        _table(by_file, ["file", *header]),
        _table(by_format, ["format", "files", *header, "share read"]),
        _table(list(checks.items()), ["check", "causes"]),
        *(f"cannot be read: {message}" for message in unreadable),
    ]
    return printable("\n\n".join(parts)), {
        "files": lines,
        "formats": formats,
        "checks": checks,
        "unreadable": unreadable,
    }
