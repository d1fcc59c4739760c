"""What a report has, in its order: a new table is a function and a line here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import groupby

from bench.report.document import Picture, Section
from bench.report.groups import ReportGroup
from bench.report.reproduce import commands
from bench.report.resampled import Answers
from bench.report.sources import environment, on_commands, provenance, warnings
from bench.report.summary import summary
from bench.report.table import Table
from bench.report.tables.accuracy import accuracy, as_good_as_best, incomplete
from bench.report.tables.cost import cost, gradient_shares, sizes_of
from bench.report.tables.differences import ablation, paired_comparisons
from bench.report.tables.leaderboard import leaderboard
from bench.report.tables.parts import KEPT, ReportData
from bench.report.tables.provenance import hyper_parameters, record_keys
from bench.report.tables.retention import reappearance, retentions
from bench.report.tables.writing import writing

SUMMARY, RESULTS, PAIRED, RETENTION = "Summary", "Results", "Paired comparisons", "Reappearance (retention)"
ABLATIONS, COST = "Ablations", "Cost and size"
ENVIRONMENT, PROVENANCE = "Learning rates and environment", "Provenance"
"""The sections of a report, in their order."""

TABLES: tuple[tuple[str, Callable[[ReportData], Table | Iterable[Table] | None]], ...] = (
    (RESULTS, lambda data: accuracy(data.group, only_complete=True, alike=as_good_as_best(data))),
    (RESULTS, lambda data: incomplete(data.group)),
    (RESULTS, lambda data: writing(data.group)),
    (PAIRED, lambda data: paired_comparisons(data.group, data.answers)),
    (RETENTION, lambda data: reappearance(data.group)),
    (RETENTION, lambda data: retentions(data.group, data.answers, data.kept)),
    (ABLATIONS, lambda data: ablation(data.group)),
    (COST, lambda data: cost(data.group)),
    (COST, lambda data: gradient_shares(data.group)),
    (COST, lambda data: sizes_of(data.group)),
    (ENVIRONMENT, lambda data: hyper_parameters(data.group)),
    (PROVENANCE, lambda data: record_keys(data.group)),
    (SUMMARY, leaderboard),  # made last: it reads the others
)
"""Section and function of each table, or of several; None, or a table without lines, where the records have nothing for it."""

FOLDED = ("rows with some of the results", "reappearance")
"""The files of tables that a reader opens, besides those of costs and conditions."""


def report_data(group: ReportGroup, answers: Answers, kept: float = KEPT) -> ReportData:
    """A group with all tables of its report, in its order."""
    data = ReportData(group, answers, kept)
    data.tables = tables = []
    for section, make in TABLES:
        answer = make(data)
        for table in [answer] if isinstance(answer, Table) else answer or ():
            if table.lines:
                is_folded = table.folded or section in (COST, ENVIRONMENT) or table.file in FOLDED
                tables.append(replace(table, section=section, folded=is_folded))
    return data


def report_sections(data: ReportData, pictures: Sequence[Picture]) -> list[Section]:
    """What the page of a group shows, in its order."""
    group, tables = (
        data.group,
        {section: list(own) for section, own in groupby(data.tables, lambda table: table.section)},
    )
    return [
        Section("", warnings(group)),
        Section(SUMMARY, summary(data), tables=tables.get(SUMMARY, ())),
        Section(RESULTS, pictures=pictures, tables=tables.get(RESULTS, ())),
        *(Section(title, tables=tables.get(title, ())) for title in (PAIRED, RETENTION, ABLATIONS, COST)),
        Section(ENVIRONMENT, environment(group), tables=tables.get(ENVIRONMENT, ())),
        provenance_section(group, commands(group), tables.get(PROVENANCE, ())),
    ]


def provenance_section(group: ReportGroup, typed: Sequence[str], tables: Sequence[Table] = ()) -> Section:
    """Records, code and examples, the commands that make the records again, and the tables that say more."""
    return Section(PROVENANCE, (), [*provenance(group.records), *on_commands(group, bool(typed))], typed, tables=tables)
