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
from bench.record.task_facts import SAMPLE
from bench.report.escape import flat
from bench.report.groups import ReportGroup
from bench.report.render import to_markdown
from bench.report.reproduce import own_metrics
from bench.report.sources import warnings
from bench.report.tables.leaderboard import summary
from bench.report.tables.parts import listed
from bench.request import Request
from bench.request.choices import HUB, HUB_TEACHER

TERMINAL = 100
"""Characters of a line in a terminal."""
MOST_NAMED = 4
"""Rows or tasks that a sentence names; of more it says how many there are."""


def shown(group: ReportGroup, cells: Sequence[Cell], request: Request) -> str:
    """The report's first table with the rows of some cells, and what to type next.

    That is the command that compares the two rows of the highest means; on generated data a plan of
    the same rows on real data.
    """
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
    read = "Percent, development sets."
    if any(cell.bold for line in own for cell in line.cells):
        read += (
            " Bold: the best student of a column, and the highest mean; it says nothing of the "
            "rows near it."
        )
    lines.append(textwrap.fill(f"{read} The report has the footnotes.", TERMINAL))
    further = len(group.systems) - len(kept)
    if further:
        lines.append(f"The report has {further} further {'row' if further == 1 else 'rows'}.")
    else:  # the sentences of a larger report would be of rows that nobody asked for
        lines += [
            textwrap.fill(f"- {flat(sentence)}", TERMINAL, subsequent_indent="  ")
            for sentence in summary(group)
        ]
    if group.facts.source == SAMPLE:
        lines += _for_a_real_answer(group, kept, request)
    elif pair := _two_to_compare(group, kept, cells):
        words = ["python", "-m", "bench", "compare", *pair, "--results", str(request.results)]
        words += replace(request, metric=own_metrics(group)).typed(["metric"])
        lines.append(f"next: {shlex.join(words)}")
    return "\n".join(lines)


def _for_a_real_answer(group: ReportGroup, kept: Sequence[str], request: Request) -> list[str]:
    """How a run on generated data ends: that it works, what it trained, and what to type next."""
    rows = [group.called(label) for label in kept if label != TEACHER]
    if len(rows) > MOST_NAMED:
        rows = [f"{len(rows)} rows"]
    tasks = group.shown_tasks
    if len(tasks) > MOST_NAMED:
        tasks = [f"{len(tasks)} tasks"]
    text = f"It works: {listed(rows)} learned {listed(tasks)} from generated sentences."
    # tasks whose answers are texts have no teacher
    if group.writes:
        return [text]
    text += " For a real answer plan the same rows on GLUE with BERT-base; the plan says how long it takes."
    real = replace(request, data=HUB, teacher=HUB_TEACHER, seeds=(0, 1, 2))
    words = real.command("plan", ["methods", "tasks", "data", "teacher", "seeds"])
    return [textwrap.fill(text, TERMINAL), f"next: {shlex.join(words)}"]


def _two_to_compare(
    group: ReportGroup, kept: Sequence[str], cells: Sequence[Cell]
) -> Sequence[str]:
    """The two students of the highest mean over the columns of these cells' tasks; of one student
    alone, it and the teacher. Nothing where there are no two."""
    asked = {task for cell in cells for task in cell.tasks}
    columns = [column for column in group.columns if column.task in asked]
    means: dict[str, float] = {}
    for label in kept:
        if columns and all((label, column) in group.summaries for column in columns):
            means[label] = sum(group.summaries[label, column].mean for column in columns)
    students = sorted(means.keys() - {TEACHER}, key=lambda label: -means[label])
    if len(students) == 1 and TEACHER in means:
        return [*students, TEACHER]
    return students[:2] if len(students) > 1 else ()


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
