"""The answer of ``choose`` as a table and as sentences."""

from __future__ import annotations

import shlex
from pathlib import Path

from bench.analysis.candidates import Candidate
from bench.analysis.choose import BoundLimit, Choice
from bench.analysis.limits import LATENCY, LIMITS, RETAINED, stated
from bench.record.cell import ONNX_INT8, PLUS_INT8
from bench.record.code import made_by
from bench.report.page_sentences import warnings
from bench.report.paired_rows import NOT_SHOWN, SHOWN, WITHIN, WORSE, p_in_words
from bench.report.table import Column, Line, Table, TableCell, number
from bench.report.tables.parts import counted, if_busy, left_out_of_means, line_of
from bench.request import Request
from bench.request.recorded import Recorded


def table(choice: Choice) -> Table:
    """The candidates, best first, with their costs and their differences to the best."""
    # the score: of one column that, of several their mean
    group = choice.group
    mean = choice.columns[0].title
    if len(choice.columns) > 1:
        mean = f"mean of {counted(len(choice.columns), 'column')}"

    # the titles, and a line for each candidate
    titles = [
        "System",
        "Params (M)",
        "file (MB)",
        "FLOPs (G)",
        if_busy("latency (ms)", group),
        "retention (%)",
        "changed answers (%)",
        mean,
    ]
    if choice.no_verdict:
        titles.append("difference to the highest mean")
    else:
        titles += ["best with probability", "difference to the best", "p", "verdict", WITHIN]
    lines = [_line(choice, row) for row in choice.candidates]
    return Table("Choice", [Column(title) for title in titles], lines)


def _line(choice: Choice, row: Candidate) -> Line:
    """A candidate as a line of the table."""
    # what it costs, what it keeps, and its score
    costs = [number(getattr(row, name), ".2f") for name in LIMITS if name != RETAINED]
    kept = number(row.retained, ".1f", low=row.retained_low, high=row.retained_high)
    cells = [*costs, kept, number(row.changed), number(row.score)]

    # its difference to the best one, which has none to itself
    best = choice.candidates[0]
    gap = TableCell("")
    if row is not best:
        gap = number(row.score - best.score, "+.1f", low=row.low, high=row.high)

    # without verdicts there is neither a probability nor a test
    if row.probability is None or row.p is None:
        return line_of(choice.group, row.label, [*cells, gap])

    # how surely it is the best, or the test of its difference
    chance = number(100 * row.probability, ".0f", " %")
    test = [TableCell(""), TableCell("best"), TableCell("")]
    if row is not best:
        near = SHOWN if row.is_within else NOT_SHOWN
        test = [TableCell(p_in_words(row.p), row.p), TableCell(row.verdict), TableCell(near)]
    cells += [chance, gap, *test]
    return line_of(choice.group, row.label, cells)


def in_words(choice: Choice) -> list[str]:
    """The answer in sentences."""
    # what a reader should know of the table
    group = choice.group
    lines = [line.replace("*", "") for line in warnings(group)]
    if group.left_out_of_means:
        lines.append(left_out_of_means(group))

    # the answer, what the limits leave out, and how the model is had
    lines += _chosen(choice)
    lines += bound_lines(choice)
    lines += [f"To take it away: {command}" for command in choice.export]
    said = made_by(group.records)
    if said:
        lines.append(f"{said[0].upper()}{said[1:]}.")
    return lines


def _chosen(choice: Choice) -> list[str]:
    """The chosen row, what is shown to be near it, and what is suspect of the candidates."""
    best = choice.chosen
    if best is None:
        return ["No row fits."]
    called = choice.group.called
    is_judged = len(choice.candidates) > 1 and not choice.no_verdict

    # the row, and how surely it is the best
    chance = ""
    if is_judged and best.probability is not None:
        chance = f", the best with a probability of {100 * best.probability:.0f} %"
    lines = [f"Highest mean of what fits: {called(best.label)} ({best.score:.1f}){chance}."]
    if choice.no_verdict:
        lines.append(choice.no_verdict)
    # the first reason is what this sentence says already
    lines += [f"{reason[0].upper()}{reason[1:]}." for reason in choice.reasons[1:]]

    # the others
    lines += _near(choice, best)
    if is_judged:
        lines.append(
            "The best row was chosen on the examples that it is scored on, "
            "so its score is a little too high."
        )
    for row in choice.candidates:
        lines += [f"Suspect: {called(row.label)}, {what}." for what in row.suspect]
    return lines


def _near(choice: Choice, best: Candidate) -> list[str]:
    """Which rows are shown to be near the best one, the cheapest of them, and of which it is not
    known."""
    called = choice.group.called
    lines = []
    cheapest = choice.cheapest
    too = ""
    if cheapest is not None and cheapest is not best:
        row = f"{called(cheapest.label)} ({cheapest.score:.1f})"
        lines.append(f"The cheapest row that is shown to be {WITHIN} of it: {row}.")
        too = ", too"
    others = [called(row.label) for row in choice.near if row not in (best, cheapest)]
    if others:
        lines.append(f"Shown to be {WITHIN} of it{too}: {', '.join(others)}.")
    if choice.no_verdict:
        return lines
    undecided = [row for row in choice.candidates if not row.is_within and row.verdict != WORSE]
    if undecided:
        names = ", ".join(called(row.label) for row in undecided)
        lines.append(f"Not shown to be worse, and not shown to be {WITHIN} of it: {names}.")
    return lines


def bound_lines(choice: Choice) -> list[str]:
    """A sentence for each row that one limit alone leaves out."""
    lines = []
    named: set[str] = set()
    for bound in choice.bound:
        begins = f"The limit that binds: {bound.option} alone leaves out"
        if bound.name in named:
            begins = f"{bound.option} alone also leaves out"
        named.add(bound.name)
        row = choice.group.called(bound.row)
        lines.append(f"{begins} {row}, which {stated(bound.name, bound.needs)}{_gain(bound)}.")
    return lines


def _gain(bound: BoundLimit) -> str:
    """What the row would gain, with its interval."""
    if bound.gain is None:
        return ""
    ends = "" if bound.low is None else f" ({bound.low:+.1f} to {bound.high:+.1f})"
    return f" and gains {bound.gain:+.1f} points{ends}"


def latency_lines(choice: Choice, results: Path, is_typed: bool) -> list[str]:
    """Under which conditions latencies were measured, or how to measure them.

    Args:
        is_typed: whether a backend or a number of threads was typed.
    """
    group = choice.group
    teacher = group.cell.teacher
    has_8_bits = any(row.endswith(PLUS_INT8) for row in group.systems)
    if not group.speed.conditions and is_typed:
        return [f"No `speed` session measured {teacher.name} under these conditions."]
    if not group.speed.conditions and LATENCY not in choice.limits:
        return []
    if not group.speed.conditions:
        words = ["speed", "--methods", "all"]
        words += Request.of(Recorded(group.cell)).typed(["teacher"])
        words += ["--backends", f"sdpa,{ONNX_INT8}"] if has_8_bits else []
        typed = shlex.join([*words, "--results", str(results)])
        return [f"No `speed` session measured latencies with this teacher: python -m bench {typed}"]
    rest = f"; of rows in 8 bits: {ONNX_INT8}" if has_8_bits else ""
    lines = [f"Latency: {group.speed.conditions}{rest}."]
    if choice.busy_cores and LATENCY in choice.limits:
        lines.append(
            f"{LIMITS[LATENCY].option} was compared with times of a busy machine: other processes "
            f"used {choice.busy_cores:.1f} cores. Measure again on an idle one, without --busy."
        )
    return lines
