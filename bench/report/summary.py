"""What a report says in a few sentences, from its tables. No torch."""

from __future__ import annotations

from collections.abc import Sequence

from bench.record.cell import TEACHER
from bench.report.comparison import BETTER, NOT_SIGNIFICANT, UNCLEAR, WORSE
from bench.report.groups import ReportGroup
from bench.report.table import Table
from bench.report.tables.accuracy import MAJORITY
from bench.report.tables.differences import MEAN_OF, SYSTEMS, own_row, reference_of
from bench.report.tables.parts import KEPT, counted, listed
from bench.report.tables.retention import KEEPS, KEPT_OF_THE_TEACHER, LOSES

End = tuple[str, str, str]
"""(row, column, verdict) of something that was tested"""


def summary(group: ReportGroup, tables: Sequence[Table], kept: float = KEPT) -> list[str]:
    """What was measured, the highest mean, what is significant, and what keeps the teacher's score: a sentence or two each.

    Args:
        kept: the share of the teacher's score that counts as kept.
    """
    columns, means = ", ".join(column.name for column in group.columns), group.mean_scores
    seeds = sorted({n for s in group.students for c in group.columns if (n := len(group.values(s, c)))})
    rows, sets = counted(len(group.students), "student row"), counted(len(group.columns), "evaluation set")
    often = "."
    if seeds:
        often = f", {seeds[0]} to {seeds[-1]} seeds each." if len(seeds) > 1 else f", {counted(seeds[0], 'seed')} each."
    texts = [f"{rows} on {sets} ({columns}){often}"]

    if group.complete:  # the students whose mean is printed highest, and the rows that it is read against
        highest = f"{max(means[label] for label in group.complete):.1f}"
        best = [label for label in group.complete if f"{means[label]:.1f}" == highest]
        others = {label: means[label] for label in (TEACHER, reference_of(group)) if label in means}
        if group.majority is not None:
            others[MAJORITY] = group.majority
        named = ", ".join(f"{group.called(label)} {mean:.1f}" for label, mean in others.items() if label not in best)
        who = listed([group.called(label) for label in best]) + (" has" if len(best) == 1 else " have")
        text = f"Of the students with all results, {who} the highest mean score: {highest}"
        texts.append(text + (f" ({named})." if named else "."))

    by_file = {table.file: table for table in tables}
    if compared := by_file.get(
        SYSTEMS
    ):  # the verdicts on single columns, then those on the means: two families of tests
        reference, ends = group.called(reference_of(group)), _ends(compared)
        single, of_means = ([end for end in ends if end[1].startswith(MEAN_OF) == is_mean] for is_mean in (False, True))
        tests = f"{counted(len(single), 'test')}, Holm's adjustment"
        text = f"Single columns compared with {reference} ({tests}): {_verdicts(group, single, True)}."
        if of_means:
            tests = f"{counted(len(of_means), 'test')}, adjusted separately"
            text += f" Means compared with {reference} ({tests}): {_verdicts(group, of_means, False)}."
        texts.append(text)

    # variants of a row are in the table: with them the sentence would be longer than anybody reads
    retentions = by_file.get(KEPT_OF_THE_TEACHER)
    if ends := [end for end in _ends(retentions) if not own_row(group, end[0])] if retentions else []:
        rest = sum(end[2] == UNCLEAR for end in ends)
        sentences = [
            f"Does a student keep its teacher's score? It keeps it if the whole 95 % interval of the ratio is above {100 * kept:g} %. "
            f"It loses it if the whole interval is below {100 * kept:g} %.",
            f"{counted(len(ends), 'test')}, without variants and ablations.",
            *(f"{end.capitalize()}: {named}." for end in (KEEPS, LOSES) if (named := _named(group, ends, end))),
            *([f"{rest} {'is' if rest == 1 else 'are'} {UNCLEAR}."] if rest else []),
        ]
        texts.append(" ".join(sentences))
    return texts


def _ends(table: Table) -> list[End]:
    """Everything that was tested."""
    return [
        (line.label, column.title.partition(" (")[0], cell.verdict)
        for line in table.lines
        for column, cell in zip(table.columns[1:], line.cells, strict=True)
        if cell.verdict
    ]


def _named(group: ReportGroup, ends: Sequence[End], verdict: str, with_columns: bool = True) -> str:
    """``microbert on mrpc and rte, kd on rte``: the rows with a verdict, and their columns where wanted."""
    columns: dict[str, list[str]] = {}
    for label, column, end in ends:
        if end == verdict:
            columns.setdefault(label, []).append(column)
    on = {label: f" on {listed(names)}" if with_columns else "" for label, names in columns.items()}
    return ", ".join(group.called(label) + where for label, where in on.items())


def _verdicts(group: ReportGroup, ends: Sequence[End], with_columns: bool) -> str:
    """``2 better: microbert on mrpc, kd on rte; 5 not significant``"""
    count = {verdict: sum(end[2] == verdict for end in ends) for verdict in (BETTER, WORSE, UNCLEAR)}
    parts = [f"{count[v]} {v}: {_named(group, ends, v, with_columns)}" for v in (BETTER, WORSE) if count[v]]
    return "; ".join([*parts, *([f"{count[UNCLEAR]} {NOT_SIGNIFICANT}"] if count[UNCLEAR] else [])])
