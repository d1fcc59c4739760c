"""The comparisons of two rows as text: a table, and the lines that say what was left out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.record.schema import Record
from bench.record.task_facts import shown_tasks
from bench.report.paired_rows import Comparison, p_in_words
from bench.report.render import github
from bench.report.table import DASH

LONGEST_HEAD = 60
"""Characters of a row's name above a column."""


def table(first: str, second: str, lines: Sequence[Comparison]) -> str:
    """The comparisons of one table in Markdown; names too long for the head of a column stand below
    it.

    Without verdicts there are no columns of tests.
    """
    is_tested = any(not line.no_verdict for line in lines)
    names = lines[0].names if lines else (first, second)
    has_short_names = max(map(len, names)) <= LONGEST_HEAD
    heads = names if has_short_names else ("first", "second")
    header = ["task", "metric", "examples", "seeds", *heads, "difference", "95 % interval"]
    header.append("min. detectable")
    if is_tested:
        header += ["p", "p, Holm", "tests", "verdict"]
    rows: list[list[str]] = []
    for line in lines:
        row = _measured(line)
        if is_tested:
            row += _tested(line)
        rows.append(row)
    text = github(rows, header, "right")
    if not has_short_names:
        text += f"\n\nfirst: {names[0]}\nsecond: {names[1]}"
    return text


def _measured(line: Comparison) -> list[str]:
    """The cells of a comparison without its test."""
    # the first side's seeds, and after a stroke the second's where they are others
    both = [", ".join(map(str, seeds)) for seeds in (line.seeds, line.second_seeds)]
    seeds = " / ".join(dict.fromkeys(both))
    return [
        line.task,
        line.metric,
        f"{line.examples:,}",
        seeds or "each its own",
        f"{line.first:.1f}",
        f"{line.second:.1f}",
        # adding 0 makes -0.0 a plain zero
        f"{line.difference + 0.0:+.1f}",
        f"{line.low + 0.0:+.1f} to {line.high + 0.0:+.1f}",
        DASH if line.least is None else f"{line.least:.1f}",
    ]


def _tested(line: Comparison) -> list[str]:
    """The cells of a comparison's test."""
    if line.no_verdict:
        return [DASH] * 4
    return [
        f"{p_in_words(line.p)} ({line.test})",
        p_in_words(line.adjusted),
        str(line.family),
        line.verdict,
    ]


def without_answers(record: Record) -> str:
    """That a record is left out because its answers are not stored."""
    name = f"{record.row} on {shown_tasks(record.cell)}, seed {record.cell.seed}"
    return (
        f"left out: {name} ({record.key[:12]}): its answers are not stored; "
        "run it again with --rerun"
    )


def no_record(row: str, stored: Sequence[Record], results: Path) -> str:
    """That a row has no finished record on the tasks and seeds named, and which it has.

    Args:
        stored: the finished records of all rows.
    """
    seeds: dict[str, set[int]] = {}
    for record in stored:
        if record.row == row:
            seeds.setdefault(shown_tasks(record.cell), set()).add(record.cell.seed)
    has = [f"{task}, seed {' '.join(map(str, sorted(seeds[task])))}" for task in sorted(seeds)]
    return (
        f"no finished record of the row {row!r} in {results} on these tasks and seeds; "
        f"it has: {'; '.join(has) or 'none'}"
    )
