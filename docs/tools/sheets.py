"""The sheets of docs/choose.md, made of what `choose FILE` wrote.

Each task has a folder in results/alternatives/sheets: its `answer.csv`, the command in
`command.txt`, the answer in `answer.txt`, and data and machine in `machine.txt`, each of the texts
one line. `generate.py` puts the tables into the page.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

SHEETS = Path(__file__).resolve().parents[2] / "results" / "alternatives" / "sheets"
ROW = "System"
TIMES = re.compile(r".+, 1 thread: p50 / p95 \(ms\) p50")
"""The title of a column of median times on one thread."""
CLASS = "F1 of "
MOST_CLASSES = 6
"""Of more classes their F1 is left out: a table has to be read."""
BUSY = "busy cores"
BUSY_FROM = 0.25
"""Cores that other processes used, from which on a machine is called busy."""
DASH = "–"

Line = Mapping[str, str]
"""Title of a column -> the text of one row."""


def sheets(folder: Path = SHEETS) -> str:
    """The section of each task: its table, its command and its machine; "" where there is none."""
    parts = []
    for file in sorted(folder.glob("*/answer.csv")):
        parts.append(_section(file))
    return "\n".join(parts)


def _section(file: Path) -> str:
    """One task.

    Raises:
        FileNotFoundError: the command, the answer or the machine is missing.
        KeyError: a column is missing: the file is not one that `choose` wrote.
    """
    command = file.with_name("command.txt").read_text(encoding="utf-8").strip()
    answer = file.with_name("answer.txt").read_text(encoding="utf-8").strip()
    machine = file.with_name("machine.txt").read_text(encoding="utf-8").strip()
    with file.open(newline="", encoding="utf-8") as opened:
        lines: list[Line] = list(csv.DictReader(opened))
    score = _first_metric(lines[0])
    times = _times(lines[0])
    classes = [title for title in lines[0] if title.startswith(CLASS)]
    if len(classes) > MOST_CLASSES:
        classes = []

    # what a reader meets first, in the order of the file: the best first
    head = ["row", f"{score} (95 % interval)", "changed (%)", "MB", "ms"]
    rows = []
    for line in lines:
        cells = [f"`{line[ROW]}`", _with_interval(line, score)]
        cells += [_rounded(line["changed (%)"], 1), _rounded(line["MB"], 1)]
        cells.append(_rounded(_fastest(line, times), 2))
        rows.append(cells)

    # F1 of classes stands below, so that a narrow page shows both
    of_classes = []
    for line in lines if classes else ():
        of_classes.append([f"`{line[ROW]}`", *(_rounded(line[title], 1) for title in classes)])

    busy = max(float(line[BUSY] or 0) for line in lines)
    said = f"{machine}."
    if busy >= BUSY_FROM:
        said += f" Other processes used {busy:.1f} cores meanwhile, so milliseconds mean little."
    text = f"### {file.parent.name}\n\n    {command}\n\n> {answer}\n\n{said}\n\n"
    text += _table(head, rows)
    if of_classes:
        names = [title.removeprefix(CLASS) for title in classes]
        text += "\nF1 of each class, behind it its number of examples:\n\n"
        text += _table(["row", *names], of_classes)
    return text


def _first_metric(line: Line) -> str:
    """The metric that decides: the first column that has an interval."""
    return next(title for title in line if f"{title} low" in line)


def _times(line: Line) -> list[str]:
    """The titles of the median times on one thread, one for each runtime."""
    return [title for title in line if TIMES.fullmatch(title)]


def _fastest(line: Line, times: Sequence[str]) -> str:
    """The least of a row's times; "" where it has none."""
    known = [line[title] for title in times if line[title]]
    return min(known, key=float, default="")


def _with_interval(line: Line, title: str) -> str:
    """A number with its interval in brackets, where it has one."""
    value = _rounded(line[title], 1)
    low = line[f"{title} low"]
    if not low:
        return value
    return f"{value} ({_rounded(low, 1)} to {_rounded(line[f'{title} high'], 1)})"


def _rounded(text: str, digits: int) -> str:
    """A number of the file with so many digits, of one below 0.1 with two that count; a dash where
    it is empty."""
    if not text:
        return DASH
    value = float(text)
    return f"{value:.2g}" if 0 < abs(value) < 0.1 else f"{value:.{digits}f}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with words to the left and numbers to the right; cells may hold any text."""
    sides = ["---"] + ["--:"] * (len(head) - 1)
    lines = []
    for cells in (head, sides, *rows):
        escaped = [cell.replace("|", "\\|").replace("<", "&lt;") for cell in cells]
        lines.append(f"| {' | '.join(escaped)} |\n")
    return "".join(lines)
