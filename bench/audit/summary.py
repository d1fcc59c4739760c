"""What an audit found in its files, and counts for each file of a folder: numbers read, causes found by kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.audit.checks import audit
from bench.audit.findings import ARITHMETIC, INFERENCE, Finding, causes, printable, table
from bench.audit.sheets import KINDS, Pages, pages_of
from bench.audit.text_claims import claims
from bench.errors import InputError


def findings_of(pages: Pages, basis: str = "") -> list[Finding]:
    """Every finding of tables and of claims in running text, arithmetic first; of one basis where it is named.

    Raises:
        InputError: a basis that there is not.
    """
    if basis not in ("", ARITHMETIC, INFERENCE):
        raise InputError(f"--only {basis}: expected {ARITHMETIC} or {INFERENCE}")
    found = audit(pages.sheets)
    found += [f for name, text in pages.texts.items() for f in claims(text, name, pages.sheets)]
    return [f for f in sorted(found, key=lambda f: f.basis != ARITHMETIC) if basis in ("", f.basis)]


def shown(pages: Pages, findings: Sequence[Finding]) -> str:
    """The table of findings, how many there are, and how much was read."""
    rows = sum(len(sheet.rows) for sheet in pages.sheets)
    size = f"{pages.reading}, {_counted(rows, 'row')}"
    without = f"no table of numbers in {', '.join(pages.without)}\n\n" if pages.without else ""
    if not findings:
        return printable(f"{without}nothing found; {size}")
    lines = causes(findings)
    guesses = sum(cause[0].basis != ARITHMETIC for cause in lines)
    findings_in = f" ({_counted(len(findings), 'finding')})" if len(lines) < len(findings) else ""
    guessed = f", {guesses} of them {'a guess' if guesses == 1 else 'guesses'}" if guesses else ""
    return printable(f"{without}{table(findings)}\n\n{_counted(len(lines), 'line')}{findings_in}{guessed}; {size}")


def _counted(number: int, what: str) -> str:
    """``1 line``, ``3 lines``"""
    return f"{number} {what}{'' if number == 1 else 's'}"


def unread_lines(pages: Pages) -> str:
    """File, line and cell of each number that was not read."""
    lines = [f"{name}, line {one.line}: {one.text} of the cell {one.cell!r}" for name, one in pages.unread]
    return printable("\n".join(lines)) or "every number was read"


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
    lines, unreadable = [], []
    for path in files:
        try:
            lines.append(_audited(path))
        except InputError as error:
            unreadable.append(str(error))
    text = printable("\n\n".join([_text(lines), *(f"cannot be read: {message}" for message in unreadable)]))
    body = {"files": lines, "formats": _by_format(lines), "checks": _by_check(lines), "unreadable": unreadable}
    return text, body


def _audited(path: Path) -> dict[str, Any]:
    pages = pages_of([path])
    found = findings_of(pages)
    certain = [f for f in found if f.basis == ARITHMETIC]
    checks = Counter(cause[0].check for cause in causes(found))
    return {
        "file": path.name,
        "format": path.suffix.lower().lstrip("."),
        "tables": pages.counted,
        "numbers": pages.printed,
        "read": pages.printed - len(pages.unread),
        "arithmetic": len(causes(certain)),
        "inference": len(causes([f for f in found if f.basis != ARITHMETIC])),
        "findings": len(found),
        "checks": dict(checks),
    }


SUMMED = ("tables", "numbers", "read", "arithmetic", "inference")


def _by_format(lines: Sequence[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Format -> the sums of its files, and of all."""
    kinds = [*sorted({line["format"] for line in lines}), "all"]
    return {
        kind: {"files": sum(kind in ("all", line["format"]) for line in lines)}
        | {name: sum(line[name] for line in lines if kind in ("all", line["format"])) for name in SUMMED}
        for kind in kinds
    }


def _by_check(lines: Sequence[dict[str, Any]]) -> dict[str, int]:
    return dict(sorted(sum((Counter(line["checks"]) for line in lines), Counter[str]()).items()))


def _text(lines: Sequence[dict[str, Any]]) -> str:
    from tabulate import tabulate

    header = ["file", "tables", "numbers", "read", "arithmetic causes", "guesses"]
    body = [[line[k] for k in ("file", *SUMMED)] for line in lines if line["numbers"] or line["findings"]]
    formats = [
        [kind, *row.values(), f"{100 * row['read'] / row['numbers']:.1f} %" if row["numbers"] else "–"]
        for kind, row in _by_format(lines).items()
    ]
    per = tabulate(
        formats,
        ["format", "files", "tables", "numbers", "read", "arithmetic causes", "guesses", "share read"],
        tablefmt="github",
    )
    checks = tabulate(list(_by_check(lines).items()), ["check", "causes"], tablefmt="github")
    return "\n\n".join([tabulate(body, header, tablefmt="github"), per, checks])
