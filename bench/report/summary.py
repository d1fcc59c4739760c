"""What a report says in a few sentences, from its tables. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.record.cell import TEACHER
from bench.report.comparison import BETTER, NOT_SIGNIFICANT, UNCLEAR, WORSE
from bench.report.frame import Frame
from bench.report.groups import ReportGroup
from bench.report.tables.accuracy import MAJORITY, Scores
from bench.report.tables.paired_comparisons import MEAN_OF, SYSTEMS, own_row, reference_of
from bench.report.tables.parts import counted, listed
from bench.report.tables.registry import KEPT
from bench.report.tables.retention import KEEPS, KEPT_OF_THE_TEACHER, LOSES

End = tuple[str, str, str]
"""(row, column, verdict) of something that was tested"""


def summary(group: ReportGroup, tables: Sequence[Frame], kept: float = KEPT) -> list[str]:
    """What was measured, the highest mean, what is significant, and what keeps the teacher's score: a sentence or two each.

    Args:
        kept: the share of the teacher's score that counts as kept.
    """
    by_file = {table.file: table for table in tables}
    said = [_measured(group), *_highest(group)]
    if compared := by_file.get(SYSTEMS):
        said.append(_significant(group, compared))
    if retentions := by_file.get(KEPT_OF_THE_TEACHER):
        said += _retention(group, retentions, kept)
    return said


def _measured(group: ReportGroup) -> str:
    students = [label for label in group.systems if label != TEACHER]
    columns = ", ".join(column.name for column in group.columns)
    seeds = sorted({n for s in students for c in group.columns if (n := len(group.values(s, c)))})
    often = ""
    if seeds:
        often = f"{seeds[0]} to {seeds[-1]} seeds" if len(seeds) > 1 else counted(seeds[0], "seed")
    rows, sets = counted(len(students), "student row"), counted(len(group.columns), "evaluation set")
    return f"{rows} on {sets} ({columns})" + (f", {often} each." if often else ".")


def _highest(group: ReportGroup) -> list[str]:
    """The students whose mean is printed highest, and the rows that it is read against."""
    scores = Scores(group)
    if not scores.complete:
        return []
    shown = {label: f"{scores.means[label]:.1f}" for label in scores.complete}
    highest = shown[max(scores.complete, key=lambda label: scores.means[label])]
    best = [label for label, mean in shown.items() if mean == highest]
    others = {label: scores.means[label] for label in (TEACHER, reference_of(group)) if label in scores.means}
    if group.majority is not None:
        others[MAJORITY] = group.majority
    named = ", ".join(f"{group.called(label)} {mean:.1f}" for label, mean in others.items() if label not in best)
    who = listed([group.called(label) for label in best]) + (" has" if len(best) == 1 else " have")
    text = f"Of the students with all results, {who} the highest mean score: {highest}"
    return [text + (f" ({named})." if named else ".")]


def _ends(table: Frame) -> list[End]:
    """Everything that was tested."""
    return [
        (line.label, column.title.partition(" (")[0], cell.verdict)
        for line in table.lines
        for column, cell in zip(table.columns[1:], line.cells, strict=True)
        if cell.verdict
    ]


def _named(group: ReportGroup, ends: Iterable[End], verdict: str, with_columns: bool = True) -> str:
    """``microbert on mrpc and rte, kd on rte``: the rows with a verdict, and their columns where wanted."""
    columns: dict[str, list[str]] = {}
    for label, column, end in ends:
        if end == verdict:
            columns.setdefault(label, []).append(column)
    if not with_columns:
        return ", ".join(map(group.called, columns))
    return ", ".join(f"{group.called(label)} on {listed(named)}" for label, named in columns.items())


def _significant(group: ReportGroup, table: Frame) -> str:
    """The verdicts on single columns, then those on the means: two families of tests."""
    reference = group.called(reference_of(group))
    means = {column.title for column in table.columns if column.title.startswith(MEAN_OF)}
    single = [end for end in _ends(table) if end[1] not in means]
    of_means = [end for end in _ends(table) if end[1] in means]
    tests = f"{counted(len(single), 'test')}, Holm's adjustment"
    said = f"Single columns compared with {reference} ({tests}): {_verdicts(group, single, True)}."
    if of_means:
        tests = f"{counted(len(of_means), 'test')}, adjusted separately"
        said += f" Means compared with {reference} ({tests}): {_verdicts(group, of_means, False)}."
    return said


def _verdicts(group: ReportGroup, ends: Sequence[End], with_columns: bool) -> str:
    """``2 better: microbert on mrpc, kd on rte; 5 not significant``"""
    parts = [
        f"{_count(ends, verdict)} {verdict}: {named}"
        for verdict in (BETTER, WORSE)
        if (named := _named(group, ends, verdict, with_columns))
    ]
    rest = _count(ends, UNCLEAR)
    return "; ".join([*parts, *([f"{rest} {NOT_SIGNIFICANT}"] if rest else [])])


def _count(ends: Sequence[End], verdict: str) -> int:
    return sum(end == verdict for _, _, end in ends)


def _retention(group: ReportGroup, table: Frame, kept: float) -> list[str]:
    # variants of a row are in the table: with them the sentence would be longer than anybody reads
    ends = [end for end in _ends(table) if not own_row(group, end[0])]
    if not ends:
        return []
    said = [
        f"Does a student keep its teacher's score? It keeps it if the whole 95 % interval of the ratio is above {100 * kept:g} %. "
        f"It loses it if the whole interval is below {100 * kept:g} %.",
        f"{counted(len(ends), 'test')}, without variants and ablations.",
        *(f"{end.capitalize()}: {named}." for end in (KEEPS, LOSES) if (named := _named(group, ends, end))),
    ]
    rest = _count(ends, UNCLEAR)
    return [" ".join([*said, *([f"{rest} {'is' if rest == 1 else 'are'} {UNCLEAR}."] if rest else [])])]
