"""The report of an experiment file: each of a paper's tables from the records of its rows and tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.plan.cell import TEACHER, Cell, record_key
from bench.record.schema import Record
from bench.record.store import Store, slug, write_atomically
from bench.report.forms import grid, write_table
from bench.report.groups import Group, groups
from bench.report.names import name_of, table_names
from bench.report.rates import rates_line
from bench.report.rebuild import experiment_command, located
from bench.report.tables import Footnotes, Table, accuracy, differences, reappearance
from bench.report.verdicts import differences_to, resample, suspicions_of
from bench.report.write import footnotes, made_again, paper_of, paragraph, provenance, warnings


@dataclass(frozen=True)
class Section:
    """One table: its name, what it shows, and the cells of its rows."""

    name: str
    show: str
    cells: Sequence[Cell]


@dataclass(frozen=True)
class Typed:
    """What was typed for an experiment: its file, and the tables and tasks that were chosen ("" for all)."""

    file: Path
    tables: str = ""
    tasks: str = ""


def write_experiment(
    title: str, sections: Sequence[Section], store: Store, folder: Path, latex: bool, asked: Typed
) -> list[Path]:
    """Markdown and CSV, LaTeX where asked for, one file for each combination of data, teacher and recipe; returns the Markdown files."""
    keys = {record_key(cell) for section in sections for cell in section.cells}
    written = []
    for group in groups((r for r in store.records() if r.key in keys), store.freshness):
        if any(r.cell.method != TEACHER for r in group.records):
            group.suspicions = suspicions_of(group, store)
            located(group, store)
            written.append(_write(title, sections, group, store, folder, latex, asked))
    return written


def _write(
    title: str, sections: Sequence[Section], group: Group, store: Store, folder: Path, latex: bool, asked: Typed
) -> Path:
    name = f"{slug(title).lower()}-{name_of(group)}"
    lines = [*_head(title, group), *paragraph(rates_line(group)), *warnings(group)]
    notes = Footnotes()
    used: dict[str, Record] = {}
    for section, end in zip(sections, table_names([section.name for section in sections]), strict=True):
        part = _part(group, section)
        tables = _tables(section, part, store, notes) if part.records else []
        if not tables:
            lines += [f"## {section.name}", "", "Nothing measured.", ""]
            continue
        used |= {record.key: record for record in part.records}  # a row of two tables is one record
        paper = paper_of(group, notes, part.records) if latex else None
        for number, table in enumerate(tables):
            lines += [f"### {table.title}" if number else f"## {section.name}", "", grid(table), ""]
            lines += [line for note in table.notes for line in (note, "")]
            further = "-intervals" if number else ""
            write_table(folder, f"{name}-{end}{further}", table, table.title if number else section.name, paper)
    shown = replace(group, records=list(used.values()))
    command = experiment_command(shown, asked.file, asked.tables, asked.tasks)
    lines += [*footnotes(notes), "## Where these numbers come from", "", *provenance(shown.records, group.freshness)]
    lines += made_again([command], shown)
    write_atomically(folder / f"{name}.md", ("\n".join(lines).rstrip() + "\n").encode())
    return folder / f"{name}.md"


def _head(title: str, group: Group) -> list[str]:
    """A title that nobody takes for the paper's own results, and what was measured."""
    found = sorted({r.cell.seed for r in group.records if r.cell.method != TEACHER})
    seeds = f"seed{'s' if len(found) > 1 else ''} {', '.join(map(str, found))}"
    return [
        f"# {title}: our own runs of its tables, not the paper's results",
        "",
        f"{group.title}; recipe {group.recipe}, {group.epochs:g} epochs; {group.precision}; {seeds}.",
        "",
    ]


def _part(group: Group, section: Section) -> Group:
    """The records of one table, its rows in their order."""
    keys = {record_key(cell) for cell in section.cells}
    order = list(dict.fromkeys(cell.label for cell in section.cells if cell.method != TEACHER))
    return replace(group, records=[r for r in group.records if r.key in keys], order=order)


def _tables(section: Section, part: Group, store: Store, notes: Footnotes) -> list[Table]:
    """What a table shows; differences also with their intervals, where answers are stored."""
    if section.show == "reappearance":
        made = [reappearance(part, notes)]
    elif section.show == "differences":
        full = part.order[0]
        made = [
            differences("Differences", part, full, part.order, notes),
            differences_to(part, full, resample(part, store)),
        ]
    else:
        made = [accuracy(part, notes)]
    return [table for table in made if table is not None]
