"""How a run ends in the terminal: its main table, what to type next, what failed and why. No torch."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.make.work import FailedCell
from bench.record.cell import TEACHER, Cell
from bench.record.store import KEY_DIGITS
from bench.report.escape import flat
from bench.report.groups import ReportGroup
from bench.report.render import to_markdown
from bench.report.reproduce import own_metrics
from bench.report.sources import warnings
from bench.report.tables.leaderboard import summary

TERMINAL = 100
"""Characters of a line in a terminal."""


def shown(group: ReportGroup, cells: Sequence[Cell], results: Path) -> str:
    """The report's first table with the rows of some cells, and the command that compares the two best of them."""
    named = {cell.label for cell in cells}
    of_rows = {label: {r.cell.label for r in group.records_of(label)} for label in group.systems}
    kept = [label for label in group.systems if label == TEACHER or of_rows[label] & named]
    said = [group.title, *(line.replace("**", "") for line in warnings(group))]
    lines = [*(textwrap.fill(flat(line), TERMINAL) for line in said), ""]
    table = group.tables[0]
    own = [
        replace(line, footnotes=(), cells=[replace(cell, footnotes=()) for cell in line.cells])
        for line in table.lines
        if line.label in (*kept, group.baseline_name)
    ]
    lines += [to_markdown(replace(table, lines=own, width=TERMINAL)), ""]
    lines.append(
        "Percent, development sets. Bold: the best student of a column, and means whose difference to the"
    )
    lines.append("best one may be chance. The report has the footnotes.")
    further = len(group.systems) - len(kept)
    if further:
        lines.append(f"The report has {further} further {'row' if further == 1 else 'rows'}.")
    else:  # the sentences of a larger report would be of rows that nobody asked for
        lines += [
            textwrap.fill(f"- {flat(sentence)}", TERMINAL, subsequent_indent="  ")
            for sentence in summary(group)
        ]
    # the two students of the highest mean over the columns of these tasks; of one student alone, it and the teacher
    columns = [
        column
        for column in group.columns
        if column.task in {task for cell in cells for task in cell.tasks}
    ]
    whole = [
        label
        for label in kept
        if columns and all((label, column) in group.summaries for column in columns)
    ]
    means = {
        label: sum(group.summaries[label, column].mean for column in columns) for label in whole
    }
    students = sorted(
        (label for label in means if label != TEACHER), key=lambda label: -means[label]
    )
    best = [*students[:2], *([TEACHER] if TEACHER in means and len(students) == 1 else [])]
    if len(best) == 2:
        words = ["python", "-m", "bench", "compare", *best, "--results", str(results)]
        words += own_metrics(group)
        lines.append(f"next: {shlex.join(words)}")
    return "\n".join(lines)


def pretrained_line(title: str, body: Mapping[str, Any]) -> str:
    """What the cache has of a pre-training: its cost, and its losses in the first and the last window."""
    trained = body.get("train", {})
    curves = [
        f"{term} {values[0]:.4g} -> {values[-1]:.4g}"
        for terms in trained.get("terms", {}).values()
        for term, values in terms.items()
        if values
    ]
    cost = (
        f"{trained['tokens']:,} tokens, {trained['seconds_own']:,.0f} s"
        if trained
        else "nothing to train"
    )
    return f"{title} ({body['key'][:12]}): {'; '.join([cost, *([', '.join(curves)] if curves else [])])}"


def failure_lines(failures: Sequence[FailedCell], results: Path) -> list[str]:
    """Each error once, with the cells that it stopped; then where the traceback is and how to run them again."""
    by_reason: dict[str, dict[str, list[int]]] = {}  # why -> task and row -> seeds
    for failure in failures:
        by_reason.setdefault(failure.why, {}).setdefault(
            f"{failure.task} {failure.row}", []
        ).append(failure.seed)
    lines = []
    for why, cells in by_reason.items():
        seeds = {
            name: f" (seeds {', '.join(map(str, own))})" if len(own) > 1 else ""
            for name, own in cells.items()
        }
        lines.append(
            flat(f"failed: {', '.join(name + those for name, those in seeds.items())}: {why}")
        )
    recorded = [failure for failure in failures if failure.key]
    if recorded:
        command = [
            "python",
            "-m",
            "bench",
            "show",
            recorded[0].key[:KEY_DIGITS],
            "--results",
            str(results),
        ]
        count = "1 cell" if len(recorded) == 1 else f"{len(recorded)} cells"
        lines.append(
            f"{count} failed; the traceback: {shlex.join(command)}; --retry-failed runs failed cells again"
        )
    return lines
