"""What a report has, in its order: a new table is a function and a line here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from bench.report.document import Picture, Section
from bench.report.page_sentences import environment, on_commands, provenance, warnings
from bench.report.reproduce import commands
from bench.report.study import Study
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

SUMMARY = "Summary"
RESULTS = "Results"
RETENTION = "Retention (reappearance percent)"
ABLATION = "Variants and ablations"
PAIRED = "Paired comparisons"
FIDELITY = "Agreement with the teacher"
COST = "Cost and size"
ENVIRONMENT = "Learning rates and environment"
PROVENANCE = "Provenance"
"""The sections of a report, in their order."""
BEHIND_RESULTS = (RETENTION, ABLATION, PAIRED, FIDELITY, COST)
"""Of tables alone. What a paper prints of its methods stands together: accuracy, retention,
ablation."""

TABLES: tuple[tuple[str, Callable[[Study], Table | Iterable[Table] | None]], ...] = (
    (RESULTS, accuracy),
    (RESULTS, f1_by_class),
    (RESULTS, absolute_errors),
    (RESULTS, writing),
    (RETENTION, retentions),
    (ABLATION, variants_compared),
    (PAIRED, systems_compared),
    (PAIRED, compared_with_each_other),
    (FIDELITY, fidelity_table),
    (COST, cost),
    (COST, gradient_shares),
    (COST, sizes_of),
    (ENVIRONMENT, hyper_parameters),
    (ENVIRONMENT, searches),
    (PROVENANCE, record_keys),
    (SUMMARY, leaderboard),
)
"""Section and function of each table, or of several; None, or a table without lines, where the
records have nothing for it."""


def tables_of(study: Study) -> list[Table]:
    """All tables of a report, in its order."""
    tables = []
    for section, make in TABLES:
        made = make(study)
        of_section = [made] if isinstance(made, Table) else made or ()
        for table in of_section:
            if table.lines:
                is_folded = table.folded or section in (COST, ENVIRONMENT)
                tables.append(replace(table, section=section, folded=is_folded))
    return tables


def report_sections(
    study: Study, tables: Sequence[Table], pictures: Sequence[Picture]
) -> list[Section]:
    """What the page of a study shows, in its order.

    Args:
        tables: those of :func:`tables_of`.
    """

    def of_section(section: str) -> list[Table]:
        return [table for table in tables if table.section == section]

    return [
        Section("", warnings(study)),
        Section(SUMMARY, summary(study), tables=of_section(SUMMARY)),
        Section(RESULTS, pictures=pictures, tables=of_section(RESULTS)),
        *(Section(title, tables=of_section(title)) for title in BEHIND_RESULTS),
        Section(ENVIRONMENT, environment(study), tables=of_section(ENVIRONMENT)),
        provenance_section(study, commands(study), of_section(PROVENANCE)),
    ]


def provenance_section(study: Study, typed: Sequence[str], tables: Sequence[Table] = ()) -> Section:
    """Records, code and examples, the commands that make the records again, and the tables that
    say more."""
    return Section(
        PROVENANCE,
        (),
        [*provenance(study.records), *on_commands(study, bool(typed))],
        typed,
        tables=tables,
    )
