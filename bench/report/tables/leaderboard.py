"""Which row is best, by how much, how sure and how fast: one line a row, the highest mean first;
and in two sentences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bench.record.cell import TEACHER
from bench.record.task_facts import shown_tasks
from bench.report.means import mean_of_rows
from bench.report.paired_rows import (
    BETTER,
    BORDERLINE,
    NOT_SHOWN,
    NOT_SIGNIFICANT,
    SHOWN,
    TOO_FEW_SEEDS,
    WITHIN,
    WORSE,
    p_in_words,
)
from bench.report.study import Study
from bench.report.table import DASH, INTERVAL, TESTED, Column, Line, Table, TableCell, number
from bench.report.tables.accuracy import further_columns
from bench.report.tables.differences import difference_cell
from bench.report.tables.parts import (
    counted,
    if_busy,
    left_out_of_means,
    line_of,
    listed,
    sources_of_variance,
)
from bench.report.verdicts import reference_of

SYMBOLS = {BETTER: "▲", WORSE: "▼", NOT_SIGNIFICANT: "○", BORDERLINE: "◐", TOO_FEW_SEEDS: "?"}
"""Verdict -> how it is printed."""
NO_RANKS = "They stand in the order of their means, which is no ranking."
"""What a table without verdicts says of its order."""
LEADERS = 3
"""Rows whose difference is told with and without what the mean leaves out."""
MOST_FAILURES = 5
"""Failed trainings that a summary names."""
SUSPECT = (
    "In half of the columns or more, the answers of this row are suspect, and score no more than a "
    "constant: see the results."
)


def verdicts_of_means(study: Study) -> dict[str, TableCell]:
    """Row -> the cell of its mean difference to the reference, with its verdict where there is
    one."""
    averaged = study.averaged
    cells = {}
    for difference in study.differences:
        mean = difference.over(averaged)
        if mean is not None:
            cells[difference.row] = difference_cell(mean, difference.keys_over(averaged))
    return cells


def best_row(study: Study) -> str:
    """The student with the highest mean: of all seeds, and without suspect predictions in half of
    the columns; "" where there is none."""
    known = [label for label in study.complete if not study.is_suspect(label)]
    return max(known, key=lambda label: _mean(study, label), default="")


def _within(study: Study, label: str, best: str) -> TableCell:
    """Whether a row is shown to be within the margin of the best one; a dash where the two cannot
    be compared."""
    if label == best:
        return TableCell("best")
    pair = study.pairs.get((best, label))
    is_complete = label == TEACHER or label in study.complete
    if pair is None or pair.is_within is None or not is_complete:
        return TableCell(DASH)
    return TableCell(SHOWN if pair.is_within else NOT_SHOWN)


def leaderboard(study: Study) -> Table | None:
    """The rows with all results: mean score, whether it is near the best, difference to the
    reference with its verdict, speed-up and size."""
    means = study.mean_intervals
    if not any(label in means for label in study.students):
        return None
    reference = reference_of(study)
    tested = verdicts_of_means(study)
    best = best_row(study)
    further = further_columns(study)
    has_verdicts = not study.no_verdict
    highest = max(study.sound, key=lambda label: _mean(study, label), default="")

    # a line for each row, the highest mean first
    lines = []
    for label in sorted(means, key=lambda label: -_mean(study, label)):
        cells = [replace(means[label], bold=label == highest)]
        if has_verdicts:
            cells.append(_within(study, label, best))
        if label in tested:
            cells.append(_difference(tested[label]))
        else:
            cells.append(study.pairs.get((label, reference), number(None)))
        cells += [cell_of(study, label) for cell_of in further.values()]
        suspect = [SUSPECT] if study.is_suspect(label) else []
        lines.append(line_of(study, label, cells, *suspect))

    # the best constant prediction stands among them
    if study.majority is not None:
        place = sum(_mean(study, label) > study.majority for label in means)
        empty = [TableCell("")] * (1 + has_verdicts + len(further))
        lines.insert(place, Line(study.baseline_name, [number(study.majority), *empty], row=""))

    count = len(study.averaged)
    title = f"mean of {count}" if count > 1 else study.averaged[0].title
    columns = [Column("System"), Column(title, csv=INTERVAL)]
    if has_verdicts:
        columns.append(Column(f"{WITHIN} of the best", words=True))
    columns.append(Column(f"difference to {study.called(reference)}", csv=TESTED))
    columns += [Column(title, csv=INTERVAL) for title in further]
    notes = (_note(study), *sources_of_variance(study))
    return Table("Leaderboard", columns, lines, notes, file="leaderboard")


def _mean(study: Study, label: str) -> float:
    """The mean of a complete row."""
    return study.mean_intervals[label].value or 0.0


def _note(study: Study) -> str:
    """What bold, nearness and signs mean, where there are some."""
    note = "Rows with all results, in percent, with 95 % intervals."
    # the summary above says why there are no verdicts
    if study.no_verdict:
        return f"{note} {NO_RANKS}"
    tests = "the mean of a row is one test"
    # where one column alone is no noise, its verdict is that of the differences between systems
    if len(study.averaged) == 1 < len(study.columns):
        tests = f"the verdict is adjusted (Holm) over {len(study.columns)} columns"
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


def summary(study: Study) -> list[str]:
    """What was measured; and the best row: by how much, how sure, how fast, and which rows are near
    it. Without verdicts, why there are none."""
    texts = [_measured(study)]
    if study.left_out_of_means:
        texts.append(left_out_of_means(study))
    texts += _failed(study)
    if study.no_verdict:
        return [*texts, study.no_verdict]
    best = best_row(study)
    if not best:
        return texts

    texts.append(_on_the_best(study, best))
    near, undecided = _near_the_best(study, best)
    if near:
        texts.append(f"Shown to be {WITHIN} of it: {listed(near)}.")
    if undecided:
        names = listed(undecided)
        texts.append(f"Not shown to be worse, and not shown to be {WITHIN} of it: {names}.")
    return texts + _with_noise_in(study)


def _measured(study: Study) -> str:
    """How many rows were measured, on what, and how often."""
    numbers: set[int] = set()
    for label in study.students:
        numbers.update(len(study.values(label, column)) for column in study.columns)
    seeds = sorted(numbers - {0})
    often = ""
    if len(seeds) == 1:
        often = f", {counted(seeds[0], 'seed')} each"
    elif seeds:
        often = f", {seeds[0]} to {seeds[-1]} seeds each"
    rows = counted(len(study.students), "student row")
    sets = counted(len(study.columns), "evaluation set")
    columns = ", ".join(column.name for column in study.columns)
    return f"{rows} on {sets} ({columns}){often}."


def _failed(study: Study) -> list[str]:
    """A sentence that names trainings that failed, and why; none where all finished."""
    reasons = []
    for label in study.systems:
        for record in study.records_of(label):
            if record.status == "failed":
                why = record.error.message if record.error else "no message"
                place = f"{shown_tasks(record.cell)}, seed {record.cell.seed}"
                reasons.append(f"{label} on {place} ({why})")
    if not reasons:
        return []
    further = len(reasons) - MOST_FAILURES
    more = f" and {further} more" if further > 0 else ""
    named = "; ".join(reasons[:MOST_FAILURES])
    return [f"{counted(len(reasons), 'training')} failed: {named}{more}."]


def _on_the_best(study: Study, best: str) -> str:
    """A sentence on the best row: its mean beside those of others, its difference, its speed."""
    means = study.mean_intervals
    reference = reference_of(study)

    # its mean, beside the teacher's, the reference's and that of a constant
    others: dict[str, float] = {}
    for label in (TEACHER, reference):
        if label in means:
            others[study.called(label)] = _mean(study, label)
    if study.majority is not None:
        others[study.baseline_name] = study.majority
    others.pop(study.called(best), None)
    text = f"Best: {study.called(best)} with {_mean(study, best):.1f}"
    if others:
        text += f" ({', '.join(f'{name} {mean:.1f}' for name, mean in others.items())})"

    # its difference to the reference
    tested = verdicts_of_means(study).get(best)
    if tested is not None and tested.verdict:
        interval = f"({tested.low:+.1f} to {tested.high:+.1f})"
        compared = f"to {study.called(reference)}, {tested.verdict}"
        text += f"; {tested.value:+.1f} {interval} {compared}"
        if tested.p is not None:
            text += f" (p = {p_in_words(tested.p)})".replace("= <", "<")

    speed_up = study.speed.ratios.get(best)
    if speed_up:
        text += f"; {speed_up.text()} {if_busy('as fast as its teacher', study)}"
    return text + "."


def _with_noise_in(study: Study) -> list[str]:
    """One sentence: the leaders' mean differences with the columns that the mean leaves out, and
    without; none where nothing is left out, or no row is shown to be better than the baseline."""
    reference = reference_of(study)
    leaders = [row for row, cell in verdicts_of_means(study).items() if cell.verdict == BETTER]
    leaders.sort(key=lambda row: -study.mean_scores.get(row, 0.0))
    both: list[str] = []
    # without columns that are left out there is nothing to say
    if not study.left_out_of_means:
        return []
    for label in leaders[:LEADERS]:
        drawn = mean_of_rows(study, study.answers, study.columns, label, reference)
        if drawn is None:
            continue
        gap = np.mean(study.means(label)) - np.mean(study.means(reference))
        low, high = drawn.interval()
        over_all = number(float(gap), "+.1f", low=low, high=high)
        mean = verdicts_of_means(study)[label]
        without = number(mean.value, "+.1f", low=mean.low, high=mean.high)
        both.append(f"{study.called(label)} {over_all.text}, without {without.text}")
    if not both:
        return []
    names = listed([column.name for column in study.left_out_of_means])
    return [f"Mean difference to {study.called(reference)} with {names} in: {'; '.join(both)}."]


def _near_the_best(study: Study, best: str) -> tuple[list[str], list[str]]:
    """The names of the rows that are shown to be within the margin of the best one; and of the
    others that are not shown to be worse."""
    near: list[str] = []
    undecided: list[str] = []
    by_mean = sorted(study.complete, key=lambda label: -_mean(study, label))
    for label in by_mean:
        pair = study.pairs.get((best, label)) if label != best else None
        if pair is None or study.is_suspect(label):
            continue
        if pair.is_within:
            near.append(study.called(label))
        # where seeds end in results of several kinds, the table says so
        elif (pair.low or 0.0) <= 0 and not study.has_seeds_apart((best, label), study.averaged):
            undecided.append(study.called(label))
    return near, undecided
