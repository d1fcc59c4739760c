"""What a report has, in its order: a new table is a function and a line here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import groupby

from bench.report.comparison import MeanDifferences, mean_scores, not_shown_better
from bench.report.document import Picture, Section
from bench.report.groups import KEPT, ReportGroup
from bench.report.reproduce import commands
from bench.report.resampled import Answers
from bench.report.sources import environment, on_commands, provenance, warnings
from bench.report.table import Table
from bench.report.tables.absolute_errors import absolute_errors
from bench.report.tables.accuracy import accuracy
from bench.report.tables.by_class import f1_by_class
from bench.report.tables.cost import cost, gradient_shares, sizes_of, writing
from bench.report.tables.differences import (
    compared_with_each_other,
    systems_compared,
    variants_compared,
)
from bench.report.tables.fidelity import fidelity_table
from bench.report.tables.leaderboard import leaderboard, summary
from bench.report.tables.provenance import hyper_parameters, record_keys, searches
from bench.report.tables.retention import retentions

SUMMARY, RESULTS, RETENTION = "Summary", "Results", "Retention (reappearance percent)"
ABLATION, PAIRED = "Variants and ablations", "Paired comparisons"
COST, FIDELITY = "Cost and size", "Agreement with the teacher"
ENVIRONMENT, PROVENANCE = "Learning rates and environment", "Provenance"
"""The sections of a report, in their order."""
BEHIND_RESULTS = (RETENTION, ABLATION, PAIRED, FIDELITY, COST)
"""Of tables alone. What a paper prints of its methods stands together: accuracy, retention, ablation."""

TABLES: tuple[tuple[str, Callable[[ReportGroup], Table | Iterable[Table] | None]], ...] = (
    (RESULTS, accuracy),
    (RESULTS, f1_by_class),
    (RESULTS, absolute_errors),
    (RESULTS, writing),
    (RETENTION, lambda group: retentions(group, group.answers, group.kept)),
    (ABLATION, lambda group: variants_compared(group, group.answers)),
    (PAIRED, lambda group: systems_compared(group, group.answers)),
    (PAIRED, lambda group: compared_with_each_other(group, group.answers)),
    (FIDELITY, fidelity_table),
    (COST, cost),
    (COST, gradient_shares),
    (COST, sizes_of),
    (ENVIRONMENT, hyper_parameters),
    (ENVIRONMENT, searches),
    (PROVENANCE, record_keys),
    (SUMMARY, leaderboard),  # made last: it reads the others
)
"""Section and function of each table, or of several; None, or a table without lines, where the records have nothing for it."""


def draw_means(group: ReportGroup, answers: Answers) -> None:
    """Give a group its rows' means and the differences of any two, with their intervals."""
    group.answers = answers
    group.mean_intervals = mean_scores(group, answers)
    group.pairs = MeanDifferences(group, answers, list(group.mean_intervals))


def make_tables(group: ReportGroup, answers: Answers, kept: float = KEPT) -> ReportGroup:
    """Give a group all tables of its report, in its order; returns it."""
    group.kept = kept
    if answers:
        group.left_out_of_means = not_shown_better(group, answers)
    draw_means(group, answers)
    group.tables = tables = []
    for section, make in TABLES:
        answer = make(group)
        for table in [answer] if isinstance(answer, Table) else answer or ():
            if table.lines:
                is_folded = table.folded or section in (COST, ENVIRONMENT)
                tables.append(replace(table, section=section, folded=is_folded))
    return group


def report_sections(group: ReportGroup, pictures: Sequence[Picture]) -> list[Section]:
    """What the page of a group shows, in its order."""
    tables = {
        section: list(own) for section, own in groupby(group.tables, lambda table: table.section)
    }
    return [
        Section("", warnings(group)),
        Section(SUMMARY, summary(group), tables=tables.get(SUMMARY, ())),
        Section(RESULTS, pictures=pictures, tables=tables.get(RESULTS, ())),
        *(Section(title, tables=tables.get(title, ())) for title in BEHIND_RESULTS),
        Section(ENVIRONMENT, environment(group), tables=tables.get(ENVIRONMENT, ())),
        provenance_section(group, commands(group), tables.get(PROVENANCE, ())),
    ]


def provenance_section(
    group: ReportGroup, typed: Sequence[str], tables: Sequence[Table] = ()
) -> Section:
    """Records, code and examples, the commands that make the records again, and the tables that say more."""
    return Section(
        PROVENANCE,
        (),
        [*provenance(group.records), *on_commands(group, bool(typed))],
        typed,
        tables=tables,
    )
