"""How a run ends in the terminal: its main table, what to type next, what failed and why. No
torch."""

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
from bench.report.page_sentences import warnings
from bench.report.render import to_markdown
from bench.report.reproduce import own_metrics
from bench.report.study import Study
from bench.report.tables.accuracy import accuracy
from bench.report.tables.leaderboard import summary
from bench.report.tables.parts import listed
from bench.request import Request
from bench.request.choices import HUB, HUB_TEACHER

TERMINAL = 100
"""Characters of a line in a terminal."""
MOST_NAMED = 4
"""Rows or tasks that a sentence names; of more it says how many there are."""


def shown(study: Study, cells: Sequence[Cell], request: Request) -> str:
    """The report's first table with the rows of some cells, and what to type next.

    That is the command that compares the two rows of the highest means; on generated data a plan of
    the same rows on real data.
    """
    kept = _rows_of(study, cells)
    lines = [_filled(study.title)]
    lines += [_filled(line.replace("**", "")) for line in warnings(study)]

    # the table, without its footnotes
    table = accuracy(study)
    rows = []
    for line in table.lines:
        if line.label in kept or line.label == study.baseline_name:
            plain = [replace(cell, footnotes=()) for cell in line.cells]
            rows.append(replace(line, footnotes=(), cells=plain))
    lines += ["", to_markdown(replace(table, lines=rows, width=TERMINAL)), ""]

    # how to read it
    read = "Percent, development sets."
    if any(cell.bold for line in rows for cell in line.cells):
        read += (
            " Bold: the best student of a column, and the highest mean; it says nothing of the "
            "rows near it."
        )
    lines.append(_filled(f"{read} The report has the footnotes."))
    further = len(study.systems) - len(kept)
    if further:
        lines.append(f"The report has {further} further {'row' if further == 1 else 'rows'}.")
    else:  # the sentences of a larger report would be of rows that nobody asked for
        lines += [_filled(f"- {sentence}", indent="  ") for sentence in summary(study)]

    # what to type next
    if study.facts.source == SAMPLE:
        return "\n".join([*lines, *_for_a_real_answer(study, kept, request)])
    pair = _two_to_compare(study, kept, cells)
    if pair:
        words = ["python", "-m", "bench", "compare", *pair, "--results", str(request.results)]
        words += replace(request, metric=own_metrics(study)).typed(["metric"])
        lines.append(f"next: {shlex.join(words)}")
    return "\n".join(lines)


def _rows_of(study: Study, cells: Sequence[Cell]) -> list[str]:
    """The rows of a report that have one of these cells, and the teacher."""
    named = {cell.label for cell in cells}
    kept = []
    for row in study.systems:
        labels = {record.cell.label for record in study.records_of(row)}
        if row == TEACHER or labels & named:
            kept.append(row)
    return kept


def _filled(text: str, indent: str = "") -> str:
    """A text in lines that fit a terminal.

    Args:
        indent: before each line but the first.
    """
    return textwrap.fill(flat(text), TERMINAL, subsequent_indent=indent)


def _for_a_real_answer(study: Study, kept: Sequence[str], request: Request) -> list[str]:
    """How a run on generated data ends: that it works, what it trained, and what to type next."""
    rows = [study.called(label) for label in kept if label != TEACHER]
    if len(rows) > MOST_NAMED:
        rows = [f"{len(rows)} rows"]
    tasks = study.shown_tasks
    if len(tasks) > MOST_NAMED:
        tasks = [f"{len(tasks)} tasks"]
    text = f"It works: {listed(rows)} learned {listed(tasks)} from generated sentences."
    # tasks whose answers are texts have no teacher
    if study.writes:
        return [text]
    text += (
        " For a real answer plan the same rows on GLUE with BERT-base; the plan says how long it "
        "takes."
    )
    real = replace(request, data=HUB, teacher=HUB_TEACHER, seeds=(0, 1, 2))
    words = real.command("plan", ["methods", "tasks", "data", "teacher", "seeds"])
    return [textwrap.fill(text, TERMINAL), f"next: {shlex.join(words)}"]


def _two_to_compare(study: Study, kept: Sequence[str], cells: Sequence[Cell]) -> Sequence[str]:
    """The two students of the highest mean over the columns of these cells' tasks; of one student
    alone, it and the teacher. Nothing where there are no two."""
    asked = {task for cell in cells for task in cell.tasks}
    columns = [column for column in study.columns if column.task in asked]
    means: dict[str, float] = {}
    for label in kept:
        if columns and all((label, column) in study.summaries for column in columns):
            means[label] = sum(study.summaries[label, column].mean for column in columns)
    students = sorted(means.keys() - {TEACHER}, key=lambda label: -means[label])
    if len(students) == 1 and TEACHER in means:
        return [*students, TEACHER]
    return students[:2] if len(students) > 1 else ()


def pretrained_line(title: str, body: Mapping[str, Any]) -> str:
    """What the cache has of a pre-training: its cost, and its losses in the first and the last
    window."""
    trained = body.get("train", {})
    parts = ["nothing to train"]
    if trained:
        parts = [f"{trained['tokens']:,} tokens, {trained['seconds_own']:,.0f} s"]
    curves = []
    for terms in trained.get("terms", {}).values():
        for term, values in terms.items():
            if values:
                curves.append(f"{term} {values[0]:.4g} -> {values[-1]:.4g}")
    if curves:
        parts.append(", ".join(curves))
    return f"{title} ({body['key'][:12]}): {'; '.join(parts)}"


def failure_lines(failures: Sequence[FailedCell], results: Path) -> list[str]:
    """Each error once, with the cells that it stopped; then where the traceback is and how to run
    them again."""
    # why -> task and row -> seeds
    by_reason: dict[str, dict[str, list[int]]] = {}
    for failure in failures:
        cells = by_reason.setdefault(failure.why, {})
        cells.setdefault(f"{failure.task} {failure.row}", []).append(failure.seed)
    lines = []
    for why, cells in by_reason.items():
        names = []
        for name, seeds in cells.items():
            if len(seeds) > 1:
                name += f" (seeds {', '.join(map(str, seeds))})"
            names.append(name)
        lines.append(flat(f"failed: {', '.join(names)}: {why}"))

    # those that left a record
    recorded = [failure for failure in failures if failure.key]
    if recorded:
        key = recorded[0].key[:KEY_DIGITS]
        words = ["python", "-m", "bench", "show", key, "--results", str(results)]
        count = "1 cell" if len(recorded) == 1 else f"{len(recorded)} cells"
        lines.append(
            f"{count} failed; the traceback: {shlex.join(words)}; --retry-failed runs failed "
            "cells again"
        )
    return lines
