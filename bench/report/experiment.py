"""The report of an experiment file: each of a paper's tables from the records of its rows and tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.plan.cell import TEACHER, Cell, record_key
from bench.record.store import Store, slug, write_atomically
from bench.report.forms import grid, write_table
from bench.report.groups import Group, groups
from bench.report.names import name_of, table_names
from bench.report.rates import rates_line
from bench.report.tables import Footnotes, accuracy, differences, reappearance
from bench.report.verdicts import suspicions_of
from bench.report.write import footnotes, paper_of, paragraph, provenance, warnings


@dataclass(frozen=True)
class Section:
    """One table: its name, what it shows, and the cells of its rows."""

    name: str
    show: str
    cells: Sequence[Cell]


def write_experiment(
    title: str, sections: Sequence[Section], store: Store, folder: Path, latex: bool = False
) -> list[Path]:
    """Markdown and CSV, LaTeX where asked for, one file for each combination of data, teacher and recipe; returns the Markdown files."""
    keys = {record_key(cell) for section in sections for cell in section.cells}
    written = []
    for group in groups((r for r in store.records() if r.key in keys), store.freshness):
        if any(r.cell.method != TEACHER for r in group.records):
            group.suspicions = suspicions_of(group, store)
            written.append(_write(title, sections, group, folder, latex))
    return written


def _write(title: str, sections: Sequence[Section], group: Group, folder: Path, latex: bool) -> Path:
    name = f"{slug(title).lower()}-{name_of(group)}"
    lines = [f"# {title}", "", f"{group.title}; recipe {group.recipe}, {group.epochs:g} epochs; {group.precision}.", ""]
    lines += [*paragraph(rates_line(group)), *warnings(group)]
    notes, used = Footnotes(), []
    for section, end in zip(sections, table_names([section.name for section in sections]), strict=True):
        keys = {record_key(cell) for cell in section.cells}
        records = [r for r in group.records if r.key in keys]
        order = list(dict.fromkeys(cell.label for cell in section.cells if cell.method != TEACHER))
        part = replace(group, records=records, order=order)
        if section.show == "reappearance":
            table = reappearance(part, notes)
        elif section.show == "differences":
            table = differences("Differences", part, order[0], order, notes)
        else:
            table = accuracy(part, notes)
        if table is None or not records:
            lines += [f"## {section.name}", "", "Nothing measured.", ""]
            continue
        used += records
        lines += [f"## {section.name}", "", grid(table), ""]
        for note in table.notes:
            lines += [note, ""]
        write_table(folder, f"{name}-{end}", table, section.name, paper_of(group, notes, records) if latex else None)
    lines += [*footnotes(notes), "## Where these numbers come from", "", *provenance(used, group.freshness)]
    write_atomically(folder / f"{name}.md", ("\n".join(lines).rstrip() + "\n").encode())
    return folder / f"{name}.md"
