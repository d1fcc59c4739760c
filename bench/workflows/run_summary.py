"""How a run ends in the terminal: its main table, what to type next, what failed and why. No torch."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Collection, Sequence
from pathlib import Path

from bench.make.work import FailedCell
from bench.record.cell import TEACHER, Cell
from bench.record.store import KEY_DIGITS
from bench.report.escape import flat
from bench.report.groups import ReportGroup
from bench.report.render import TERMINAL, to_terminal
from bench.report.sources import warnings
from bench.report.tables.leaderboard import summary
from bench.stats.summary import summarise


def shown(group: ReportGroup, cells: Sequence[Cell], results: Path) -> str:
    """The report's first table with the rows of some cells, and the command that compares the two best of them."""
    named = {cell.label for cell in cells}
    of_rows = {label: {r.cell.label for r in group.of(label)} for label in group.systems}
    kept = [label for label in group.systems if label == TEACHER or of_rows[label] & named]
    said = [group.title, *(line.replace("**", "") for line in warnings(group))]
    lines = [*(textwrap.fill(flat(line), TERMINAL) for line in said), ""]
    lines += [to_terminal(group.tables[0].of_rows([*kept, group.baseline_name])), ""]
    lines.append("Percent, development sets. * marks the best student of a column, and means whose difference to the")
    lines.append("best one may be chance. The report has the footnotes.")
    further = len(group.systems) - len(kept)
    if further:
        lines.append(f"The report has {further} further {'row' if further == 1 else 'rows'}.")
    else:  # the sentences of a larger report would be of rows that nobody asked for
        lines += [textwrap.fill(f"- {flat(one)}", TERMINAL, subsequent_indent="  ") for one in summary(group)]
    tasks = {task for cell in cells for task in cell.tasks}
    best = _best(group, kept, tasks)
    if len(best) == 2:
        words = ["python", "-m", "bench", "compare", *best, "--results", str(results)]
        lines.append(f"next: {shlex.join(words)}")
    return "\n".join(lines)


def _best(group: ReportGroup, labels: Sequence[str], tasks: Collection[str]) -> list[str]:
    """The two students of the highest mean over the columns of these tasks; of one student alone, it and the teacher."""
    columns = [column for column in group.columns if column.task in tasks]
    means = {}
    for label in labels:
        values = [list(group.values(label, column).values()) for column in columns]
        if values and all(values):
            means[label] = summarise([summarise(of_column).mean for of_column in values]).mean
    students = sorted((label for label in means if label != TEACHER), key=lambda label: -means[label])
    return [*students[:2], *([TEACHER] if TEACHER in means and len(students) == 1 else [])]


def failure_lines(failures: Sequence[FailedCell], results: Path) -> list[str]:
    """Each error once, with the cells that it stopped; then where the traceback is and how to run them again."""
    by_reason: dict[str, list[FailedCell]] = {}
    for one in failures:
        by_reason.setdefault(one.why, []).append(one)
    lines = [flat(f"failed: {', '.join(_cells(same))}: {why}") for why, same in by_reason.items()]
    recorded = [one for one in failures if one.key]
    if recorded:
        command = ["python", "-m", "bench", "show", recorded[0].key[:KEY_DIGITS], "--results", str(results)]
        cells = "1 cell" if len(recorded) == 1 else f"{len(recorded)} cells"
        lines.append(f"{cells} failed; the traceback: {shlex.join(command)}; --retry-failed runs failed cells again")
    return lines


def _cells(failures: Sequence[FailedCell]) -> list[str]:
    """``rte kd``, with the seeds where there are several of one row and task."""
    seeds: dict[str, list[int]] = {}
    for one in failures:
        seeds.setdefault(f"{one.task} {one.row}", []).append(one.seed)
    return [
        name if len(of_row) == 1 else f"{name} (seeds {', '.join(map(str, of_row))})" for name, of_row in seeds.items()
    ]
