"""The report of an experiment file: each of a paper's tables from the records of its rows and tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from bench.files import slug, write_atomically
from bench.record.cell import TEACHER, Cell, record_key
from bench.record.recipe import ADAMW, PAPER
from bench.record.schema import Record
from bench.record.set_aside import sentences
from bench.record.store import Store
from bench.record.task_facts import unaugmented_name
from bench.report import escape
from bench.report.document import environment_section, provenance_section, table_lines
from bench.report.file_names import ENDING, LONGEST, PAGE, TABLES, fitted, paper_place, table_names
from bench.report.frame import Footnotes, Frame
from bench.report.groups import ReportGroup, groups
from bench.report.index import write_index
from bench.report.render import remove_stale_files, write_table
from bench.report.reproduce import experiment_command, set_record_source
from bench.report.resampled import resample
from bench.report.sources import warnings
from bench.report.suspicions import baselines_of, suspicions_of
from bench.report.tables.ablations import differences
from bench.report.tables.accuracy import accuracy
from bench.report.tables.paired_comparisons import differences_to
from bench.report.tables.reappearance import reappearance
from bench.report.write import paper_of


@dataclass(frozen=True)
class TableEntry:
    """A cell, and what its table calls its row."""

    cell: Cell
    label: str
    ablation_of: str | None


@dataclass(frozen=True)
class Section:
    """One table: its name, what it shows, and its cells."""

    name: str
    show: Literal["accuracy", "reappearance", "differences"]
    entries: Sequence[TableEntry]
    order: Sequence[str] = field(default=())
    """what its rows are called, in its order; empty: in the order of the cells"""

    @property
    def rows(self) -> list[str]:
        """What its students' rows are called, in its order."""
        return list(self.order) or list(dict.fromkeys(s.label for s in self.entries if s.cell.method != TEACHER))

    def records(self, records: Iterable[Record]) -> list[Record]:
        """Those of its cells, called as this table calls them."""
        # not by the train key: a student of several tasks has one cell for each, and all have the same one
        own = {record_key(shown.cell): shown for shown in self.entries}
        return [_called(r, shown) for r in records if (shown := own.get(record_key(r.cell))) is not None]


def _called(record: Record, shown: TableEntry) -> Record:
    cell = record.cell.model_copy(update={"label": shown.label, "ablation_of": shown.ablation_of})
    return record.model_copy(update={"cell": cell})


@dataclass(frozen=True)
class AskedExperiment:
    """The file of an experiment, and the tables and tasks that were chosen ("" for all)."""

    file: Path
    tables: str = ""
    tasks: str = ""
    settings: Sequence[str] = ()
    """what the file sets for some rows on some tasks, a line each"""


@dataclass(frozen=True)
class Target:
    """Where records are read and reports written, and whether with LaTeX."""

    store: Store
    folder: Path
    latex: bool


def write_experiment(
    title: str, sections: Sequence[Section], store: Store, folder: Path, latex: bool, asked: AskedExperiment
) -> list[Path]:
    """Markdown and CSV, LaTeX where asked for, one file for each combination of data, teacher and recipe; returns the Markdown files.

    Where the experiment sets something for some tasks, data with and without augmented rows are one report: its settings
    say which task has them.
    """
    records = list(store.records())
    files: dict[tuple[object, ...], dict[int, ReportGroup]] = {}
    for number, section in enumerate(sections):
        for group in _groups(section.records(records), store, bool(asked.settings)):
            if any(r.cell.method != TEACHER for r in group.records):
                group.suspicions, group.baselines = suspicions_of(group, store), baselines_of(group, store)
                set_record_source(group, store, records)
                group.aside = sentences(store.notes, store.root, {slug(r.cell.data.slug) for r in group.records})
                files.setdefault(group.identity, {})[number] = group
    target = Target(store, folder, latex)
    written = [_write(title, sections, files[key], target, asked) for key in sorted(files, key=str)]
    write_index(folder)
    return written


def _groups(records: Sequence[Record], store: Store, merged: bool) -> list[ReportGroup]:
    """The records of one table as groups.

    Args:
        merged: whether those that differ in the augmentation of their data alone are one.
    """
    found = groups(records)
    if not merged:
        return found
    alike: dict[tuple[object, ...], list[ReportGroup]] = {}
    for group in found:
        alike.setdefault((group.facts.plain, *group.identity[1:]), []).append(group)
    return [_merged(identity, those) for identity, those in alike.items()]


def _merged(identity: tuple[object, ...], those: Sequence[ReportGroup]) -> ReportGroup:
    first = min(those, key=lambda group: len(group.slug))  # the data without augmentation, if they are there
    kept: dict[tuple[object, ...], Record] = {}
    for group in those:
        for r in group.records:  # a teacher is scored once for each set of training rows; it is one all the same
            own = (r.cell.tasks, r.cell.teacher.key) if r.cell.method == TEACHER else r.key
            kept.setdefault((r.cell.method, own), r)
    return replace(
        first,
        slug=first.facts.plain,
        data=unaugmented_name(first.data),
        identity=identity,
        records=list(kept.values()),
        left_out=[one for group in those for one in group.left_out],
    )


def _write(
    title: str,
    sections: Sequence[Section],
    found: Mapping[int, ReportGroup],
    target: Target,
    asked: AskedExperiment,
) -> Path:
    whole = _whole(found)
    place = paper_place(title, whole)
    own = target.folder / place
    lines = [*_head(title, whole), *warnings(whole)]
    if asked.settings:
        lines += ["Settings of some rows or tasks; the others are as the recipe has them:", ""]
        lines += [*(f"- {line}" for line in asked.settings), ""]
    lines = [*map(escape.markdown, lines)]
    notes = Footnotes()
    used: dict[str, Record] = {}
    stems: list[str] = []
    ends = table_names([section.name for section in sections])
    for number, (section, end) in enumerate(zip(sections, ends, strict=True)):
        part = replace(found[number], order=section.rows) if number in found else None
        tables = _tables(section, part, target.store) if part is not None else []
        lines += [f"## {escape.markdown(_heading(section.name))}", ""]
        if part is None or not tables:
            lines += ["Nothing measured.", ""]
            continue
        used |= {record.key: record for record in part.records}  # a row of two tables is one record
        paper = paper_of(part, part.records, place) if target.latex else None
        for number_of_table, table in enumerate(tables):
            lines += table_lines(table, notes, f"### {escape.markdown(table.title)}" if number_of_table else "")
            further = "-intervals" if number_of_table else ""
            title_of_table = table.title if number_of_table else section.name
            stem = fitted(f"{end}{further}", [end, further], LONGEST - ENDING)
            write_table(own / TABLES, stem, table, title_of_table, paper)
            stems.append(stem)
    shown = replace(whole, records=list(used.values()))
    command = experiment_command(shown, asked.file, asked.tables, asked.tasks, bool(asked.settings))
    lines += [*environment_section(whole, []), *provenance_section(shown, [], [command])]
    remove_stale_files(own / TABLES, stems, target.latex)
    write_atomically(own / PAGE, ("\n".join(lines).rstrip() + "\n").encode())
    return own / PAGE


def _heading(name: str) -> str:
    """The name of a table as a heading: its first letter is a capital."""
    return name[:1].upper() + name[1:]


def _head(title: str, group: ReportGroup) -> list[str]:
    """A title that nobody takes for the paper's own results, and what was measured."""
    found = sorted({r.cell.seed for r in group.records if r.cell.method != TEACHER})
    seeds = f"seed{'s' if len(found) > 1 else ''} {', '.join(map(str, found))}"
    length = "" if group.recipe == PAPER else f", {group.epochs:g} epochs"
    length += "" if group.optimizer == ADAMW else f", optimizer {group.optimizer}"
    return [
        f"# {title}; our own runs, not the paper's results",
        "",
        f"{group.title}; recipe {group.recipe}{length}; {group.precision}; {seeds}.",
        "",
    ]


def _tables(section: Section, part: ReportGroup, store: Store) -> list[Frame]:
    """What a table shows; differences also with their intervals, where answers are stored."""
    if section.show == "reappearance":
        made = [reappearance(part)]
    elif section.show == "differences":
        full = section.rows[0]
        made = [
            differences("Differences", part, full, section.rows),
            differences_to(part, full, resample(part, store)),
        ]
    else:
        made = [accuracy(part)]
    return [table for table in made if table is not None]


def _whole(found: Mapping[int, ReportGroup]) -> ReportGroup:
    """All records of a report, each once, as one group."""
    groups_found = list(found.values())
    records = {r.key: r for group in groups_found for r in group.records}
    left_out = {one.record.key: one for group in groups_found for one in group.left_out}
    return replace(groups_found[0], records=list(records.values()), left_out=list(left_out.values()))
