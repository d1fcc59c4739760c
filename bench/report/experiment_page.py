"""The report of an experiment file: each table of a paper, from the records of its cells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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
from bench.report.page_sentences import environment, warnings
from bench.report.pictures import flops_of
from bench.report.published import PrintedRow, beside_ours
from bench.report.render import remove_stale_files, write_tables
from bench.report.reproduce import experiment_command
from bench.report.studies import Folder, groups, study_of
from bench.report.study import Group, Study
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
"""The pictures of a table of an experiment: those over all columns, as its means are.

Rows have the paper's names in them.
"""


class PaperTable(NamedTuple):
    """One table of a paper.

    Attributes:
        show: ``accuracy``, ``reappearance`` or ``differences``.
        names: key of each of its cells -> what it calls the row: ``label`` and ``ablation_of`` of
            a cell.
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

    @property
    def heading(self) -> str:
        """The name, as a heading begins."""
        return self.name[:1].upper() + self.name[1:]

    def records(self, records: Iterable[Record]) -> list[Record]:
        """The records of its cells, called as this table calls them."""
        named = []
        # where settings are a task's own, a row is typed in several ways: the first one
        typed: dict[str, str] = {}
        for record in records:
            # not by the train key: a student of several tasks has one cell for each, and all have
            # the same one
            key = record_key(record.cell)
            if key not in self.names:
                continue
            cell = record.cell.model_copy(update=dict(self.names[key]))
            renamed = record.model_copy(update={"cell": cell})
            typed[renamed.row] = min(record.row, typed.get(renamed.row, record.row))
            named.append(renamed)
        for record in named:
            record.drawn_as = typed[record.row]
        return named


@dataclass(frozen=True)
class _Experiment:
    """What the reports of one experiment share.

    Attributes:
        typed: the experiment's file, and the tables and tasks that were chosen, "" for all.
        settings: what the file sets for some rows on some tasks, a line each.
        expected: how far from the printed numbers its own are expected.
    """

    title: str
    tables: Sequence[PaperTable]
    folder: Path
    latex: bool
    typed: tuple[Path, str, str]
    settings: Sequence[str]
    expected: str


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
    """Write a report for each combination of data, teacher and recipe: Markdown and CSV.

    Where the experiment sets something for some tasks, data with and without augmented rows are one
    report: its settings say which task has them.

    Args:
        latex: whether tables and pictures are also written for a paper.
        typed: the experiment's file, and the tables and tasks that were chosen, "" for all.
        settings: what the file sets for some rows on some tasks, a line each.
        expected: how far from the printed numbers its own are expected.

    Returns:
        The Markdown files.
    """
    experiment = _Experiment(title, sections, folder, latex, typed, settings, expected)
    whole = Folder(store, scored_alike(store.records(), store))
    # which report -> number of a table -> its study
    reports: dict[tuple[object, ...], dict[int, Study]] = {}
    for number, table in enumerate(sections):
        parts = groups(table.records(whole.records))
        if settings:
            parts = _merged(parts)
        for group in parts:
            if any(record.row != TEACHER for record in group.records):
                reports.setdefault(group.identity, {})[number] = _study(table, group, whole)
    written = [_write(experiment, reports[identity]) for identity in sorted(reports, key=str)]
    write_index(folder)
    return written


def _study(table: PaperTable, group: Group, folder: Folder) -> Study:
    """The study of one of the paper's tables, over all columns, as the paper's means are.

    A table of differences compares all its rows with the first one.
    """
    has_differences = table.show == "differences"
    return study_of(
        group,
        folder,
        order=table.rows,
        reference=table.rows[0] if has_differences else "",
        averages_all=True,
        compares_variants=has_differences,
    )


def _merged(parts: Sequence[Group]) -> list[Group]:
    """The groups, of which those that differ in the augmentation of their data alone are one."""
    alike: dict[tuple[object, ...], list[Group]] = {}
    for group in parts:
        alike.setdefault((group.facts.plain, *group.identity[1:]), []).append(group)
    merged = []
    for identity, those in alike.items():
        # the data without augmentation, if they are there
        first = min(those, key=lambda group: len(group.cell.data.slug))
        plain_name = first.cell.data.name.partition(", augmented ")[0]
        data = first.cell.data.model_copy(update={"slug": first.facts.plain, "name": plain_name})
        cell = first.cell.model_copy(update={"data": data})

        kept: dict[tuple[object, ...], Record] = {}
        for record in (record for group in those for record in group.records):
            # a teacher is scored once for each set of training rows; it is one all the same
            is_teacher = record.cell.method == TEACHER
            scored = (record.cell.tasks, record.cell.teacher.key) if is_teacher else record.key
            kept.setdefault((record.cell.method, scored), record)
        left_out = [entry for group in those for entry in group.left_out]
        merged.append(Group(cell, identity, list(kept.values()), left_out))
    return merged


def _write(experiment: _Experiment, parts: Mapping[int, Study]) -> Path:
    """Write one report: a head, each table under its own name, and where the numbers come from.

    Args:
        parts: number of a table -> its group.
    """
    whole = _whole(parts.values())
    report = experiment.folder / paper_place(experiment.title, whole)
    page = [_head(experiment, parts.values(), whole)]

    # each table of the paper, with its files
    used: dict[str, Record] = {}
    files: dict[str, Table] = {}
    papers: dict[str, LatexTable] = {}
    drawn: list[str] = []
    stems = table_names([table.name for table in experiment.tables])
    for number, (table, stem) in enumerate(zip(experiment.tables, stems, strict=True)):
        group = parts.get(number)
        shown = _tables(table, group) if group else {}
        if group is None or not shown:
            page.append(Section(table.heading, ["Nothing measured."]))
            continue
        # a row of two tables is one record
        used |= {record.key: record for record in group.records}
        pictures = _pictures(group, report, experiment.latex, stem)
        drawn += files_of(pictures, experiment.latex)
        for ending, made in shown.items():
            files[_file_name(stem, ending)] = made
        if experiment.latex and "" in shown:
            name = _file_name(stem, "")
            paper = _for_paper(table, group, shown, experiment.settings)
            caption = f"{tex(table.heading)}. {paper.caption}"
            papers[name] = replace(paper, caption=caption, label=name)
        page.append(Section(table.heading, pictures=pictures, tables=list(shown.values())))
    write_tables(report / TABLES, files, papers)
    remove_stale_files(report / FIGURES, drawn)

    # where the numbers come from
    measured = replace(whole, records=list(used.values()))
    has_settings = bool(experiment.settings)
    command = experiment_command(measured, *experiment.typed, of_the_file=has_settings)
    page.append(Section(ENVIRONMENT, environment(whole, experiment.settings)))
    page.append(provenance_section(measured, [command]))
    write_atomically(report / PAGE, to_page(f"{experiment.title}; our own runs", page))
    return report / PAGE


def _whole(parts: Iterable[Study]) -> Study:
    """All records of a report, each once, as one group."""
    several = list(parts)
    records = {record.key: record for group in several for record in group.records}
    left_out = {entry[0].key: entry for group in several for entry in group.left_out}
    return replace(
        several[0], records=list(records.values()), left_out=list(left_out.values()), order=[]
    )


def _head(experiment: _Experiment, parts: Iterable[Study], whole: Study) -> Section:
    """What was measured, and what a reader has to know of all numbers, above the tables."""
    texts = [_measured(whole), *warnings(whole)]
    if experiment.expected:
        texts.append(f"Expected beside the printed numbers: {experiment.expected}")
    noise: dict[str, None] = {}
    for group in parts:
        noise |= {column.name: None for column in group.noise}
    if noise:
        texts.append(
            f"On {', '.join(noise)} the teacher is not shown to be better than the majority class: "
            "what a student loses there is noise. Means are over all columns, as the paper's."
        )
    has_printed = any(table.printed for table in experiment.tables)
    if whole.facts.source == SAMPLE and has_printed:
        texts.append(
            "Printed numbers do not stand beside ours here: nothing generated compares with them."
        )
    if whole.no_verdict:
        texts.append(whole.no_verdict)
    if experiment.settings:
        texts.append("Settings of some rows or tasks; the others are as the recipe has them:")
    return Section("", texts, experiment.settings)


def _measured(whole: Study) -> str:
    """A title that nobody takes for the paper's own results, the recipe and the seeds."""
    recipe = f"recipe {whole.recipe}"
    if whole.recipe != PAPER:
        recipe += f", {whole.epochs:g} epochs"
    if whole.optimizer != ADAMW:
        recipe += f", optimizer {whole.optimizer}"
    seeds = sorted({record.cell.seed for record in whole.records if record.cell.method != TEACHER})
    seeds_in_words = f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
    return f"{whole.title}; {recipe}; {whole.cell.numeric.precision}; {seeds_in_words}."


def _file_name(stem: str, ending: str) -> str:
    """The name of a file of a table, without the ending that says its format."""
    return fitted(f"{stem}{ending}", [stem, ending], LONGEST - ENDING)


def _tables(table: PaperTable, group: Study) -> dict[str, Table]:
    """The tables that show one of the paper's, by the ends of the files' names.

    The scores are the first one, and differences stand behind them. It is none at all where nothing
    was measured.
    """
    retained = None
    intervals = None
    if table.show == "reappearance":
        main = retained = retentions(group)
    else:
        main = accuracy(group)
    # without a record of the first row there is nothing to compare with it
    if table.show == "differences" and table.rows[0] in group.systems:
        intervals = differences_to_first(group)
    tables = {
        "": main and replace(main, title=table.heading),
        "-intervals": intervals,
        "-searches": searches(group),
        "-printed": beside_ours(group, scores_alone(table.printed)),
        "-printed-shares": printed_shares(group, table.printed) if retained else None,
        "-quoted": quotations(group, table.quoted),
    }
    return {ending: made for ending, made in tables.items() if made is not None and made.lines}


def _for_paper(
    table: PaperTable,
    group: Study,
    tables: Mapping[str, Table],
    settings: Sequence[str],
) -> LatexTable:
    """A table of an experiment as LaTeX: its rows in the order in which the experiment has them."""
    paper = paper_of(group, settings)
    if table.show == "reappearance":
        return retention(group, paper)
    has_verdicts = "-intervals" in tables
    return main_table(group, group.students, paper, has_verdicts)


def _pictures(group: Study, report: Path, latex: bool, stem: str) -> list[Picture]:
    """The pictures of a table, written into the folder of its report."""
    # of students that are all as large, cost says nothing
    costs = flops_of(group)
    sizes = {f"{costs[row]:.2g}" for row in group.students if row in costs}
    names = [name for name in DRAWN if len(sizes) > 1 or name != "score-flops"]
    return write_pictures(group, report, latex, f"{stem}-", names)
