"""Which row is best, by how much, how sure and how fast: one line a row, the highest mean first; and in two sentences."""

from __future__ import annotations

from dataclasses import replace

from bench.record.cell import TEACHER
from bench.record.task_facts import shown_tasks
from bench.report.comparison import BETTER, BORDERLINE, NOT_SIGNIFICANT, WORSE, p_in_words
from bench.report.groups import ReportGroup
from bench.report.table import INTERVAL, TESTED, Column, Line, Table, TableCell, number
from bench.report.tables.accuracy import as_good_as_best, further_columns
from bench.report.tables.differences import SYSTEMS, reference_of
from bench.report.tables.parts import counted, if_busy, left_out_of_means, line_of, listed

SYMBOLS = {BETTER: "▲", WORSE: "▼", NOT_SIGNIFICANT: "○", BORDERLINE: "◐"}
"""Verdict -> how it is printed."""


def verdicts_of_means(group: ReportGroup) -> dict[str, TableCell]:
    """Row -> the cell of its mean difference to the baseline, with its verdict where there is one."""
    table = next((table for table in group.tables if table.file == SYSTEMS), None)
    # behind `compared with` and `tests`: the columns, and a mean where it is over several
    place = -1 if len(group.averaged) > 1 else 2 + group.columns.index(group.averaged[0])
    cells = {line.label: line.cells[place] for line in (table.lines if table else ())}
    return {label: cell for label, cell in cells.items() if cell.value is not None}


def ranks(group: ReportGroup) -> dict[str, int]:
    """Row -> its rank among the students, from the highest mean down.

    A row shares the rank of the first of those before it unless the 95 % interval of their difference is above 0. Rows of fewer
    seeds have no rank, and one with suspect answers is not first. Without verdicts there are no ranks.
    """
    if group.no_verdict:
        return {}
    first, places = "", dict[str, int]()
    by_mean = sorted(group.complete, key=lambda label: -group.mean_intervals[label].value)
    for place, label in enumerate(by_mean, start=1):
        pair = group.pairs.get((first, label))
        if first and pair is not None and (pair.low or 0.0) <= 0:
            if not (group.is_suspect(label) and places[first] == min(places.values())):
                places[label] = places[first]
        elif first or not group.is_suspect(label):
            first, places[label] = label, place
    return places


def leaderboard(group: ReportGroup) -> Table | None:
    """The rows with all results: rank, mean score, difference to the baseline with its verdict, speed-up and size."""
    means = group.mean_intervals
    if not any(label in means for label in group.students):
        return None
    reference, tested, rank_of = reference_of(group), verdicts_of_means(group), ranks(group)
    further, lines, alike = further_columns(group), [], as_good_as_best(group)
    first = max(group.sound, key=lambda label: means[label].value, default="")
    for label in sorted(means, key=lambda label: -means[label].value):
        rank = rank_of.get(label)
        is_bold = label == first or label in alike
        cells = [
            *([] if group.no_verdict else [number(rank, "d", bold=is_bold)]),
            replace(means[label], bold=is_bold),
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
        before = [] if group.no_verdict else [TableCell("")]
        empty = [TableCell("") for _ in range(1 + len(further))]
        cells = [*before, number(group.majority), *empty]
        lines.insert(place, Line(group.baseline_name, cells, row=""))
    count = len(group.averaged)
    columns = [
        Column("System"),
        *([] if group.no_verdict else [Column("rank")]),
        Column(f"mean of {count}" if count > 1 else group.averaged[0].title, csv=INTERVAL),
        Column(f"difference to {group.called(reference)}", csv=TESTED),
        *(Column(title, csv=INTERVAL) for title in further),
    ]
    return Table("Leaderboard", columns, lines, (_note(group),), file="leaderboard")


def _note(group: ReportGroup) -> str:
    """What ranks and signs mean, where there are some."""
    note = "Rows with all results, in percent, with 95 % intervals."
    # the summary above says why there are no ranks
    if group.no_verdict:
        return note
    tests = "the mean of a row is one test"
    # where one column alone is no noise, its verdict is that of the differences between systems
    if len(group.averaged) == 1 < len(group.columns):
        tests = f"the verdict is adjusted (Holm) over {len(group.columns)} columns"
    return (
        f"{note} Rows of one rank: the interval of their difference to the first of "
        "them contains 0 (not adjusted); a dash: fewer seeds, or suspect answers in a row that would be first. "
        f"{SYMBOLS[BETTER]} better, {SYMBOLS[WORSE]} worse, {SYMBOLS[NOT_SIGNIFICANT]} not significant, "
        f"{SYMBOLS[BORDERLINE]} {BORDERLINE}; {tests}. No sign: not tested."
    )


def _difference(tested: TableCell) -> TableCell:
    """A difference, with a sign for its verdict where it has one."""
    if not tested.verdict:
        return tested
    plain = number(tested.value, "+.1f", low=tested.low, high=tested.high)
    return replace(tested, text=f"{plain.text} {SYMBOLS[tested.verdict]}")


def summary(group: ReportGroup) -> list[str]:
    """What was measured; and the best row: by how much, how sure, how fast, and which rows may be as good. Without verdicts, why
    there are none."""
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
    texts, rank_of = [f"{rows} on {sets} ({columns}){often}"], ranks(group)
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
        texts.append(group.no_verdict)
    if not rank_of:
        return texts

    first = [label for label, rank in rank_of.items() if rank == min(rank_of.values())]
    best, means, reference = first[0], group.mean_intervals, reference_of(group)
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
    if first[1:]:
        texts.append(
            f"The data do not tell it apart from {listed([group.called(label) for label in first[1:]])}."
        )
    return texts
