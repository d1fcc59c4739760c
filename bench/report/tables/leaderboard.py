"""Which row is best, by how much, how sure and how fast: one line a row, the highest mean first; and in two sentences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bench.record.cell import TEACHER
from bench.record.task_facts import shown_tasks
from bench.report.comparison import (
    BETTER,
    BORDERLINE,
    NOT_SHOWN,
    NOT_SIGNIFICANT,
    SHOWN,
    TOO_FEW_SEEDS,
    WITHIN,
    WORSE,
    mean_of_rows,
    p_in_words,
)
from bench.report.groups import ReportGroup
from bench.report.table import DASH, INTERVAL, TESTED, Column, Line, Table, TableCell, number
from bench.report.tables.accuracy import further_columns
from bench.report.tables.differences import SYSTEMS, reference_of
from bench.report.tables.parts import (
    counted,
    if_busy,
    left_out_of_means,
    line_of,
    listed,
    sources_of_variance,
)

SYMBOLS = {BETTER: "▲", WORSE: "▼", NOT_SIGNIFICANT: "○", BORDERLINE: "◐", TOO_FEW_SEEDS: "?"}
"""Verdict -> how it is printed."""
LEADERS = 3
"""Rows whose difference is told with and without what the mean leaves out."""


def verdicts_of_means(group: ReportGroup) -> dict[str, TableCell]:
    """Row -> the cell of its mean difference to the baseline, with its verdict where there is one."""
    table = next((table for table in group.tables if table.file == SYSTEMS), None)
    # behind `compared with` and `tests`: the columns, and a mean where it is over several
    place = -1 if len(group.averaged) > 1 else 2 + group.columns.index(group.averaged[0])
    cells = {line.label: line.cells[place] for line in (table.lines if table else ())}
    return {label: cell for label, cell in cells.items() if cell.value is not None}


def best_row(group: ReportGroup) -> str:
    """The student with the highest mean: of all seeds, and without suspect predictions in half of
    the columns; "" where there is none."""
    known = [label for label in group.complete if not group.is_suspect(label)]
    return max(known, key=lambda label: group.mean_intervals[label].value, default="")


def _within(group: ReportGroup, label: str, best: str) -> TableCell:
    """Whether a row is shown to be within the margin of the best one; a dash where the two cannot
    be compared."""
    if label == best:
        return TableCell("best")
    pair = group.pairs.get((best, label))
    is_complete = label == TEACHER or label in group.complete
    if pair is None or pair.is_within is None or not is_complete:
        return TableCell(DASH)
    return TableCell(SHOWN if pair.is_within else NOT_SHOWN)


def leaderboard(group: ReportGroup) -> Table | None:
    """The rows with all results: mean score, whether it is near the best, difference to the baseline with its verdict, speed-up and size."""
    means = group.mean_intervals
    if not any(label in means for label in group.students):
        return None
    reference = reference_of(group)
    tested = verdicts_of_means(group)
    best = best_row(group)
    further = further_columns(group)
    lines = []
    highest = max(group.sound, key=lambda label: means[label].value, default="")
    for label in sorted(means, key=lambda label: -means[label].value):
        cells = [
            replace(means[label], bold=label == highest),
            *([] if group.no_verdict else [_within(group, label, best)]),
            _difference(tested[label])
            if label in tested
            else group.pairs.get((label, reference), number(None)),
            *(cell(group, label) for cell in further.values()),
        ]
        suspect = (
            "In half of the columns or more, the answers of this row are suspect, and score no more than a constant: see the results.",
        )
        lines.append(line_of(group, label, cells, *(suspect if group.is_suspect(label) else ())))
    if group.majority is not None:
        place = sum(mean.value > group.majority for mean in means.values())
        judged = 0 if group.no_verdict else 1
        empty = [TableCell("") for _ in range(1 + judged + len(further))]
        lines.insert(place, Line(group.baseline_name, [number(group.majority), *empty], row=""))
    count = len(group.averaged)
    columns = [
        Column("System"),
        Column(f"mean of {count}" if count > 1 else group.averaged[0].title, csv=INTERVAL),
        *([] if group.no_verdict else [Column(f"{WITHIN} of the best", words=True)]),
        Column(f"difference to {group.called(reference)}", csv=TESTED),
        *(Column(title, csv=INTERVAL) for title in further),
    ]
    notes = (_note(group), *sources_of_variance(group))
    return Table("Leaderboard", columns, lines, notes, file="leaderboard")


def _note(group: ReportGroup) -> str:
    """What bold, nearness and signs mean, where there are some."""
    note = "Rows with all results, in percent, with 95 % intervals."
    # the summary above says why there are no verdicts
    if group.no_verdict:
        return note
    tests = "the mean of a row is one test"
    # where one column alone is no noise, its verdict is that of the differences between systems
    if len(group.averaged) == 1 < len(group.columns):
        tests = f"the verdict is adjusted (Holm) over {len(group.columns)} columns"
    return (
        f"{note} In bold is the highest mean, without suspect predictions; "
        f"it says nothing of the rows near it. {WITHIN.capitalize()}: {SHOWN} if the whole 90 % "
        "interval of the difference to the best row lies within it (two one-sided tests; not "
        "adjusted). A row of one seed is not shown to be near. A dash: fewer seeds than others. "
        f"{SYMBOLS[BETTER]} better, {SYMBOLS[WORSE]} worse, "
        f"{SYMBOLS[NOT_SIGNIFICANT]} not significant, {SYMBOLS[BORDERLINE]} {BORDERLINE}, "
        f"{SYMBOLS[TOO_FEW_SEEDS]} {TOO_FEW_SEEDS}; {tests}. No sign: not tested."
    )


def _difference(tested: TableCell) -> TableCell:
    """A difference, with a sign for its verdict where it has one."""
    if not tested.verdict:
        return tested
    plain = number(tested.value, "+.1f", low=tested.low, high=tested.high)
    return replace(tested, text=f"{plain.text} {SYMBOLS[tested.verdict]}")


def summary(group: ReportGroup) -> list[str]:
    """What was measured; and the best row: by how much, how sure, how fast, and which rows are near
    it. Without verdicts, why there are none."""
    columns = ", ".join(column.name for column in group.columns)
    seeds = sorted(
        {n for s in group.students for c in group.columns if (n := len(group.values(s, c)))}
    )
    rows, sets = (
        counted(len(group.students), "student row"),
        counted(len(group.columns), "evaluation set"),
    )
    often = "."
    if seeds:
        often = (
            f", {seeds[0]} to {seeds[-1]} seeds each."
            if len(seeds) > 1
            else f", {counted(seeds[0], 'seed')} each."
        )
    texts = [f"{rows} on {sets} ({columns}){often}"]
    if group.left_out_of_means:
        texts.append(left_out_of_means(group))
    failed = [
        (label, r)
        for label in group.systems
        for r in group.records_of(label)
        if r.status == "failed"
    ]
    if failed:
        whys = [
            f"{label} on {shown_tasks(r.cell)}, seed {r.cell.seed} ({r.error.message if r.error else 'no message'})"
            for label, r in failed[:5]
        ]
        more = f" and {len(failed) - 5} more" if len(failed) > 5 else ""
        texts.append(f"{counted(len(failed), 'training')} failed: {'; '.join(whys)}{more}.")
    if group.no_verdict:
        return [*texts, group.no_verdict]
    best = best_row(group)
    if not best:
        return texts

    means = group.mean_intervals
    reference = reference_of(group)
    others = {
        group.called(label): means[label].value for label in (TEACHER, reference) if label in means
    }
    others |= {group.baseline_name: group.majority} if group.majority is not None else {}
    named = ", ".join(
        f"{name} {mean:.1f}" for name, mean in others.items() if name != group.called(best)
    )
    text = f"Best: {group.called(best)} with {means[best].value:.1f}" + (
        f" ({named})" if named else ""
    )
    if (tested := verdicts_of_means(group).get(best)) and tested.verdict:
        text += f"; {tested.value:+.1f} ({tested.low:+.1f} to {tested.high:+.1f}) to {group.called(reference)}, {tested.verdict}"
        text += f" (p = {p_in_words(tested.p)})".replace("= <", "<") if tested.p is not None else ""
    if ratio := group.speed_ups.get(best):
        text += f"; {ratio.text()} {if_busy('as fast as its teacher', group)}"
    texts.append(text + ".")
    near, undecided = _near_the_best(group, best)
    if near:
        texts.append(f"Shown to be {WITHIN} of it: {listed(near)}.")
    if undecided:
        names = listed(undecided)
        texts.append(f"Not shown to be worse, and not shown to be {WITHIN} of it: {names}.")
    return texts + _with_noise_in(group)


def _with_noise_in(group: ReportGroup) -> list[str]:
    """One sentence: the leaders' mean differences with the columns that the mean leaves out, and
    without; none where nothing is left out, or no row is shown to be better than the baseline."""
    reference = reference_of(group)
    leaders = [row for row, cell in verdicts_of_means(group).items() if cell.verdict == BETTER]
    leaders.sort(key=lambda row: -group.mean_scores.get(row, 0.0))
    both: list[str] = []
    for label in leaders[:LEADERS] if group.left_out_of_means else ():
        drawn = mean_of_rows(group, group.answers, group.columns, label, reference)
        if drawn is None:
            continue
        gap = np.mean(group.means(label)) - np.mean(group.means(reference))
        low, high = drawn.interval()
        whole = number(float(gap), "+.1f", low=low, high=high)
        plain = verdicts_of_means(group)[label]
        without = number(plain.value, "+.1f", low=plain.low, high=plain.high)
        both.append(f"{group.called(label)} {whole.text}, without {without.text}")
    if not both:
        return []
    names = listed([column.name for column in group.left_out_of_means])
    return [f"Mean difference to {group.called(reference)} with {names} in: {'; '.join(both)}."]


def _near_the_best(group: ReportGroup, best: str) -> tuple[list[str], list[str]]:
    """The names of the rows that are shown to be within the margin of the best one; and of the
    others that are not shown to be worse."""
    near: list[str] = []
    undecided: list[str] = []
    by_mean = sorted(group.complete, key=lambda label: -group.mean_intervals[label].value)
    for label in by_mean:
        pair = group.pairs.get((best, label)) if label != best else None
        if pair is None or group.is_suspect(label):
            continue
        if pair.is_within:
            near.append(group.called(label))
        # where seeds end in results of several kinds, the table says so
        elif (pair.low or 0.0) <= 0 and not group.has_seeds_apart((best, label), group.averaged):
            undecided.append(group.called(label))
    return near, undecided
