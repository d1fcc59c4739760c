"""The report of an experiment file: each of a paper's tables from the records of its rows and tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from bench.files import write_atomically
from bench.record.cell import TEACHER, record_key
from bench.record.recipe import ADAMW, PAPER
from bench.record.rescored import scored_alike
from bench.record.schema import Record
from bench.record.store import Store
from bench.record.task_facts import SAMPLE
from bench.report.document import Picture, Section, to_page, write_index
from bench.report.file_names import (
    ENDING,
    FIGURES,
    LONGEST,
    PAGE,
    TABLES,
    fitted,
    paper_place,
    table_names,
)
from bench.report.latex import LatexTable, tex
from bench.report.pictures import flops_of
from bench.report.published import PrintedRow, beside_ours
from bench.report.render import remove_stale_files, write_tables
from bench.report.reproduce import experiment_command
from bench.report.sources import environment, warnings
from bench.report.studies import Folder, groups, study_of
from bench.report.study import Group
from bench.report.study import Study as ReportGroup
from bench.report.table import Table
from bench.report.tables.accuracy import accuracy
from bench.report.tables.differences import differences_to_first
from bench.report.tables.for_paper import main_table, retention
from bench.report.tables.provenance import searches
from bench.report.tables.quoted import Quotation, printed_shares, quotations, scores_alone
from bench.report.tables.registry import ENVIRONMENT, provenance_section
from bench.report.tables.retention import retentions
from bench.report.write import files_of, paper_of, write_pictures

DRAWN = ("differences", "score-flops", "settings")
"""Pictures of a table of an experiment, in which rows have the paper's names; over all columns, as its means are."""


class PaperTable(NamedTuple):
    """One table of a paper.

    Attributes:
        show: ``accuracy``, ``reappearance`` or ``differences``.
        names: key of each of its cells -> what it calls the row: ``label`` and ``ablation_of`` of a cell.
        rows: what the rows of its students are called, in its order.
        printed: what a row is called -> the printed row that it is.
        quoted: printed cells that none of its rows makes.
    """

    name: str
    show: str
    names: Mapping[str, Mapping[str, str | None]]
    rows: Sequence[str]
    printed: Mapping[str, PrintedRow] = MappingProxyType({})
    quoted: Sequence[Quotation] = ()

    def records(self, records: Iterable[Record]) -> list[Record]:
        """Those of its cells, called as this table calls them."""
        # not by the train key: a student of several tasks has one cell for each, and all have the same one
        own = [(r, self.names[key]) for r in records if (key := record_key(r.cell)) in self.names]
        named = [
            r.model_copy(update={"cell": r.cell.model_copy(update=dict(name))}) for r, name in own
        ]
        # where settings are a task's own, a row is typed in several ways: the first one
        typed: dict[str, str] = {}
        for record, (before, _) in zip(named, own, strict=True):
            typed[record.row] = min(before.row, typed.get(record.row, before.row))
        for record in named:
            record.drawn_as = typed[record.row]
        return named


def write_experiment(
    title: str,
    sections: Sequence[PaperTable],
    store: Store,
    folder: Path,
    latex: bool,
    typed: tuple[Path, str, str],
    settings: Sequence[str] = (),
    expected: str = "",
) -> list[Path]:
    """Markdown and CSV, LaTeX where asked for, one file for each combination of data, teacher and recipe; returns the Markdown files.

    Where the experiment sets something for some tasks, data with and without augmented rows are one report: its settings
    say which task has them.

    Args:
        typed: the experiment's file, and the tables and tasks that were chosen, "" for all.
        settings: what the file sets for some rows on some tasks, a line each.
        expected: how far from the printed numbers its own are expected.
    """
    whole = Folder(store, scored_alike(store.records(), store))
    reports: dict[tuple[object, ...], dict[int, ReportGroup]] = {}
    for place, section in enumerate(sections):
        parts = groups(section.records(whole.records))
        for group in _merged(parts) if settings else parts:
            if any(record.row != TEACHER for record in group.records):
                reports.setdefault(group.identity, {})[place] = _study(section, group, whole)
    of_groups = (reports[key] for key in sorted(reports, key=str))
    written = [
        _write(title, sections, parts, folder, latex, typed, settings, expected)
        for parts in of_groups
    ]
    write_index(folder)
    return written


def _study(section: PaperTable, group: Group, whole: Folder) -> ReportGroup:
    """The study of one table: over all columns, as the paper's means are. A table of differences
    compares all its rows with the first one."""
    has_differences = section.show == "differences"
    return study_of(
        group,
        whole,
        order=section.rows,
        reference=section.rows[0] if has_differences else "",
        averages_all=True,
        compares_variants=has_differences,
    )


def _merged(parts: Sequence[Group]) -> list[Group]:
    """Groups of which those that differ in the augmentation of their data alone are one."""
    alike: dict[tuple[object, ...], list[Group]] = {}
    for group in parts:
        alike.setdefault((group.facts.plain, *group.identity[1:]), []).append(group)
    merged = []
    for identity, those in alike.items():
        # the data without augmentation, if they are there
        first = min(those, key=lambda group: len(group.cell.data.slug))
        kept: dict[tuple[object, ...], Record] = {}
        for r in (record for group in those for record in group.records):
            # a teacher is scored once for each set of training rows; it is one all the same
            own = (r.cell.tasks, r.cell.teacher.key) if r.cell.method == TEACHER else r.key
            kept.setdefault((r.cell.method, own), r)
        data = first.cell.data
        data = data.model_copy(
            update={"slug": first.facts.plain, "name": data.name.partition(", augmented ")[0]}
        )
        left_out = [entry for group in those for entry in group.left_out]
        cell = first.cell.model_copy(update={"data": data})
        merged.append(Group(cell, identity, list(kept.values()), left_out))
    return merged


def _write(
    title: str,
    sections: Sequence[PaperTable],
    parts: Mapping[int, ReportGroup],
    folder: Path,
    latex: bool,
    typed: tuple[Path, str, str],
    settings: Sequence[str],
    expected: str,
) -> Path:
    """One report: a head, each table under the name that the paper's file has for it, and where its numbers come from."""
    # all records of the report, each once, as one group
    all_records = {r.key: r for group in parts.values() for r in group.records}
    left_out = {entry[0].key: entry for group in parts.values() for entry in group.left_out}
    whole = replace(
        next(iter(parts.values())),
        records=list(all_records.values()),
        left_out=list(left_out.values()),
        order=[],
    )
    place = paper_place(title, whole)
    own = folder / place

    # a title that nobody takes for the paper's own results, and what was measured
    seeds = sorted({r.cell.seed for r in whole.records if r.cell.method != TEACHER})
    length = "" if whole.recipe == PAPER else f", {whole.epochs:g} epochs"
    length += "" if whole.optimizer == ADAMW else f", optimizer {whole.optimizer}"
    measured = f"{whole.title}; recipe {whole.recipe}{length}; {whole.cell.numeric.precision}; "
    measured += f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}."
    texts = [
        measured,
        *warnings(whole),
        *([f"Expected beside the printed numbers: {expected}"] if expected else []),
    ]
    if noise := {column.name: None for part in parts.values() for column in part.noise}:
        said = "the teacher is not shown to be better than the majority class: what a student loses there is noise"
        texts.append(f"On {', '.join(noise)} {said}. Means are over all columns, as the paper's.")
    if whole.facts.source == SAMPLE and any(section.printed for section in sections):
        texts.append(
            "Printed numbers do not stand beside ours here: nothing generated compares with them."
        )
    if whole.no_verdict:
        texts.append(whole.no_verdict)
    if settings:
        texts.append("Settings of some rows or tasks; the others are as the recipe has them:")
    page = [Section("", texts, settings)]
    used: dict[str, Record] = {}
    files: dict[str, Table] = {}
    papers: dict[str, LatexTable] = {}
    drawn: list[str] = []
    for number, (section, stem) in enumerate(
        zip(sections, table_names([s.name for s in sections]), strict=True)
    ):
        heading, part = section.name[:1].upper() + section.name[1:], parts.get(number)
        tables, pictures = dict[str, Table](), list[Picture]()
        if part:
            tables = _tables(section, part, heading)
        if part and tables:
            pictures = _pictures(part, own, latex, stem)
            drawn += files_of(pictures, latex)
            # a row of two tables is one record
            used |= {record.key: record for record in part.records}
            for ending, table in tables.items():
                name = fitted(f"{stem}{ending}", [stem, ending], LONGEST - ENDING)
                files[name] = table
                if latex and ending == "":
                    paper = _for_paper(section, part, tables, settings)
                    caption = f"{tex(heading)}. {paper.caption}"
                    papers[name] = replace(paper, caption=caption, label=name)
        page.append(
            Section(
                heading,
                [] if tables else ["Nothing measured."],
                (),
                (),
                pictures,
                list(tables.values()),
            )
        )
    write_tables(own / TABLES, files, papers)
    remove_stale_files(own / FIGURES, drawn)
    shown = replace(whole, records=list(used.values()))
    command = experiment_command(shown, *typed, of_the_file=bool(settings))
    page += [
        Section(ENVIRONMENT, environment(whole, settings)),
        provenance_section(shown, [command]),
    ]
    write_atomically(own / PAGE, to_page(f"{title}; our own runs", page))
    return own / PAGE


def _tables(section: PaperTable, part: ReportGroup, title: str) -> dict[str, Table]:
    """What a table shows, by the ends of the files' names; differences behind the scores."""
    retained = retentions(part) if section.show == "reappearance" else None
    main = retained if section.show == "reappearance" else accuracy(part)
    # without a record of the first row there is nothing to compare with it
    has_first = section.show == "differences" and section.rows[0] in part.systems
    intervals = differences_to_first(part) if has_first else None
    tables = {
        "": main and replace(main, title=title),
        "-intervals": intervals,
        "-searches": searches(part),
        "-printed": beside_ours(part, scores_alone(section.printed)),
        "-printed-shares": printed_shares(part, section.printed) if retained else None,
        "-quoted": quotations(part, section.quoted),
    }
    return {ending: table for ending, table in tables.items() if table is not None and table.lines}


def _for_paper(
    section: PaperTable,
    part: ReportGroup,
    tables: Mapping[str, Table],
    settings: Sequence[str],
) -> LatexTable:
    """A table of an experiment as LaTeX: its rows in the order in which the experiment has them."""
    paper = paper_of(part, settings)
    if section.show == "reappearance":
        return retention(part, tables[""], paper)
    return main_table(part, tables[""], tables.get("-intervals"), part.students, paper)


def _pictures(part: ReportGroup, own: Path, latex: bool, stem: str) -> list[Picture]:
    """Those of a table, in the folder of its report."""
    costs = flops_of(part)
    has_sizes = len({f"{costs[row]:.2g}" for row in part.students if row in costs}) > 1
    names = [name for name in DRAWN if has_sizes or name != "score-flops"]
    return write_pictures(part, own, latex, f"{stem}-", names)
