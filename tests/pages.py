"""The README and docs/: their commands and their tables. `python tests/pages.py` copies the reports' rows into them anew.

A marker before a table says where its rows are from: `<!-- from REPORT.md -->`, the report's first table,
`<!-- printed by the command above -->`, what that command prints, `<!-- summary of REPORT.md -->`, size,
speed-up, mean and share of the teacher's score with the mean difference of its paired comparisons, or
`<!-- differences in REPORT.md -->`, these differences alone. `<!-- means of REPORT.md -->`: only the last
column is the report's, the mean of a method's row.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
MARKED = re.compile(
    r"<!-- (from (?P<report>\S+)|printed by the command above) -->\n(?P<table>(?:\|.*\n)+)"
)
SUMMARY = re.compile(
    r"<!-- summary of (?P<report>\S+) -->\n(?P<head>(?:\|.*\n){2})(?P<rows>(?:\|.*\n)+)"
)
MEANS = re.compile(SUMMARY.pattern.replace("summary of", "means of"))
DIFFERENCES = re.compile(SUMMARY.pattern.replace("summary of", "differences in"))
COMMAND = re.compile(r"(?:^|`)(?:    )?(python -m bench [^`\n]+)", re.MULTILINE)
"""A command line of its own, or one within a sentence."""


def commands(text: str) -> list[list[str]]:
    """The words of every `python -m bench ...` of a page, without the first three."""
    return [shlex.split(found)[3:] for found in COMMAND.findall(text)]


def python_of(page: str, word: str) -> str:
    """The one block of Python of a page of docs/ that has this word."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    (code,) = (code for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if word in code)
    return code


def name_of(row: str) -> str:
    """A table row's first cell, without the numbers of its footnotes; one dash for the rule below the header."""
    return re.sub(r"( \[\d+\])+$|(?<=^-)-+", "", row.split("|")[1].strip(" :"))


def rows_of(printed: str) -> dict[str, str]:
    """The first table in a text, of a report that of its accuracy: name of a row -> the row."""
    section = re.split(r"^## (?:Accuracy|Results)\n", printed, flags=re.MULTILINE)
    tables = re.search(
        r"(?:(?:^\|.*\n)+\n?)+" if len(section) > 1 else r"(?:^\|.*\n)+",
        section[-1] + "\n",
        re.MULTILINE,
    )
    assert tables, "no table"
    rows: dict[str, str] = {}
    for row in filter(None, tables.group(0).splitlines()):
        name = name_of(row)  # a wide table goes on in further ones below it
        rows[name] = rows[name] + row.split("|", 2)[2] if name in rows else row
    return rows


def cells(row: str) -> list[str]:
    """The cells of a table's line."""
    return [cell.strip() for cell in row.strip().strip("|").split("|")]


def table_with(report: str, heading: str, row: str = "") -> tuple[int, dict[str, list[str]]]:
    """The first table of a report with a column whose heading matches: the place of the column, and
    name -> cells.

    Args:
        row: one that the table has to have.
    """
    for table in re.findall(r"(?:^\|.*\n)+", report, re.MULTILINE):
        head, _, *rows = table.splitlines()
        if row and row not in map(name_of, rows):
            continue
        for place, title in enumerate(cells(head)):
            if re.fullmatch(heading, title):
                return place, {name_of(row): cells(row) for row in rows}
    raise AssertionError(f"no table has a column {heading}")


def summary_of(report: str, names: list[str]) -> list[str]:
    """The lines of a summary: name, millions of parameters, speed-up, mean, reappearance percent,
    mean difference to the baseline.

    The baseline itself and the teacher are not compared with anything.
    """
    # a wide table goes on in further ones below it
    sizes = table_with(report, r"Params \(M\)")
    speeds = table_with(report, r"speed-up")
    means = table_with(report, r"mean of \d+( columns)?")
    shares = table_with(report, r"mean (retention|of ratios)")
    differences = table_with(report, r"mean (of \d+ )?differences?")
    lines = []
    for name in names:
        own = [
            cell_of(sizes, name),
            # the intervals of speed-ups and shares stand in the report
            cell_of(speeds, name).partition(" (")[0],
            cell_of(means, name),
            cell_of(shares, name).partition(" %")[0],
            cell_of(differences, name),
        ]
        lines.append(f"| {' | '.join([name, *own])} |")
    return lines


def cell_of(found: tuple[int, dict[str, list[str]]], name: str) -> str:
    """A row's cell of a column; a dash where the table has no such row.

    A page says once that all rows are tuned: its names are without the number of trials.
    """
    place, rows = found
    as_typed = {re.sub(r" \(best of \d+\)", "", row): cells for row, cells in rows.items()}
    return as_typed[name][place] if name in as_typed else "–"


def differences_of(report: str, names: list[str]) -> list[str]:
    """The lines of a table of mean differences, without verdicts: name and difference."""
    found = table_with(report, r"mean (of \d+ )?differences?", names[0])
    return [f"| {name} | {cell_of(found, name).partition(')')[0]}) |" for name in names]


def as_laid_out(table: list[str], there: dict[str, str]) -> list[str]:
    """The rows of a page's table as they are now; a page may leave columns out."""
    titles = cells(table[0])
    printed = [there[name_of(row)] for row in table]
    if len(titles) == len(cells(printed[0])):
        return printed
    places = [cells(printed[0]).index(title) for title in titles]
    kept = [[cells(row)[place] for place in places] for row in printed]
    return [f"| {' | '.join(row)} |" for row in kept]


def printed_by(text: str) -> str:
    """What the last command of a text prints; it is run."""
    words = [sys.executable, "-m", "bench", *commands(text)[-1]]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def refreshed(text: str) -> str:
    """A page with the rows of its marked tables as they are now; which rows and columns, and their order, is the page's."""

    def anew(found: re.Match[str]) -> str:
        report = found["report"]
        there = rows_of(
            (ROOT / report).read_text() if report else printed_by(text[: found.start()])
        )
        rows = as_laid_out(found["table"].splitlines(), there)
        return found.group(0).removesuffix(found["table"]) + "\n".join(rows) + "\n"

    def summary_anew(found: re.Match[str]) -> str:
        names = [name_of(row) for row in found["rows"].splitlines()]
        lines = summary_of((ROOT / found["report"]).read_text(), names)
        return found.group(0).removesuffix(found["rows"]) + "\n".join(lines) + "\n"

    def differences_anew(found: re.Match[str]) -> str:
        names = [name_of(row) for row in found["rows"].splitlines()]
        lines = differences_of((ROOT / found["report"]).read_text(), names)
        return found.group(0).removesuffix(found["rows"]) + "\n".join(lines) + "\n"

    def means_anew(found: re.Match[str]) -> str:
        place, there = table_with((ROOT / found["report"]).read_text(), r"mean of \d+( columns)?")
        means = {
            re.sub(r" \(.*", "", name): row[place].strip("*").partition(" (")[0].strip("*")
            for name, row in there.items()
        }
        rows = [cells(row) for row in found["rows"].splitlines()]
        lines = [" | ".join([*row[:-1], means.get(row[0].strip("`"), "–")]) for row in rows]
        return found.group(0).removesuffix(found["rows"]) + "".join(
            f"| {line} |\n" for line in lines
        )

    text = MARKED.sub(anew, text)
    text = SUMMARY.sub(summary_anew, text)
    text = DIFFERENCES.sub(differences_anew, text)
    return MEANS.sub(means_anew, text)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(refreshed(page.read_text()))
