"""The report of an experiment file: each of a paper's tables from the records of its rows and tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.plan.cell import TEACHER, Cell, record_key, train_key
from bench.plan.recipe import PAPER
from bench.record.schema import Record
from bench.record.store import Store, slug, write_atomically
from bench.report.forms import grid, write_table
from bench.report.groups import Group, groups
from bench.report.names import name_of, table_names
from bench.report.rebuild import AUGMENTED
from bench.report.tables import Footnotes, accuracy, differences, reappearance
from bench.report.verdicts import suspicions_of
from bench.report.write import footnotes, paper_of, provenance, warnings


@dataclass(frozen=True)
class Shown:
    """A cell, and what its table calls its row."""

    cell: Cell
    label: str
    ablation_of: str | None


@dataclass(frozen=True)
class Section:
    """One table: its name, what it shows, and the cells of its rows."""

    name: str
    show: str
    cells: Sequence[Shown]
    order: Sequence[str] = field(default=())
    """what its rows are called, in its order; empty: in the order of the cells"""

    @property
    def rows(self) -> list[str]:
        """What its students' rows are called, in its order."""
        return list(self.order) or list(dict.fromkeys(s.label for s in self.cells if s.cell.method != TEACHER))

    def records(self, records: Iterable[Record]) -> list[Record]:
        """Those of its cells, called as this table calls them."""
        own = {train_key(shown.cell): shown for shown in self.cells}
        return [
            _called(r, shown)
            for r in records
            if (shown := own.get(r.train_key)) is not None and r.key == record_key(shown.cell, r.point)
        ]


def _called(record: Record, shown: Shown) -> Record:
    cell = record.cell.model_copy(update={"label": shown.label, "ablation_of": shown.ablation_of})
    return record.model_copy(update={"cell": cell})


def write_experiment(
    title: str,
    sections: Sequence[Section],
    store: Store,
    folder: Path,
    latex: bool = False,
    settings: Sequence[str] = (),
) -> list[Path]:
    """Markdown and CSV, LaTeX where asked for, one file for each combination of data, teacher and recipe; returns the Markdown files.

    Args:
        settings: what is set for some rows on some tasks, a line each. Data with and without augmented rows are then
            one report, since the lines say which task has them.
    """
    records = list(store.records())
    files: dict[tuple[object, ...], dict[int, Group]] = {}
    for number, section in enumerate(sections):
        for group in _groups(section.records(records), store, bool(settings)):
            if any(r.cell.method != TEACHER for r in group.records):
                group.suspicions = suspicions_of(group, store)
                files.setdefault(group.identity, {})[number] = group
    return [_write(title, sections, files[key], folder, latex, settings) for key in sorted(files, key=str)]


def _groups(records: Sequence[Record], store: Store, merged: bool) -> list[Group]:
    """The records of one table as groups.

    Args:
        merged: whether those that differ in the augmentation of their data alone are one.
    """
    found = groups(records, store.freshness)
    if not merged:
        return found
    alike: dict[tuple[object, ...], list[Group]] = {}
    for group in found:
        alike.setdefault((AUGMENTED.sub("", group.slug), *group.identity[1:]), []).append(group)
    return [_merged(identity, those) for identity, those in alike.items()]


def _merged(identity: tuple[object, ...], those: Sequence[Group]) -> Group:
    first = min(those, key=lambda group: len(group.slug))
    kept: dict[tuple[object, ...], Record] = {}
    for group in those:
        for r in group.records:  # a teacher is scored once for each set of training rows; it is one all the same
            own = (r.cell.tasks, r.cell.teacher.key) if r.cell.method == TEACHER else r.key
            kept.setdefault((r.cell.method, own), r)
    return replace(
        first,
        slug=AUGMENTED.sub("", first.slug),
        data=first.data.partition(", augmented ")[0],
        identity=identity,
        records=list(kept.values()),
        left_out=[one for group in those for one in group.left_out],
    )


def file_name(title: str, group: Group) -> str:
    """By the paper alone: what the title says behind a colon is no part of it."""
    return f"{slug(title.partition(':')[0]).lower()}-{name_of(group)}"


def _write(
    title: str,
    sections: Sequence[Section],
    found: Mapping[int, Group],
    folder: Path,
    latex: bool,
    settings: Sequence[str],
) -> Path:
    whole = _whole(found)
    name = file_name(title, whole)
    length = "" if whole.recipe == PAPER else f", {whole.epochs:g} epochs"
    lines = [f"# {title}", "", f"{whole.title}; recipe {whole.recipe}{length}; {whole.precision}.", ""]
    lines += warnings(whole)
    if settings:
        lines += ["Settings of some rows or tasks; the others are as the recipe has them:", ""]
        lines += [*(f"- {line}" for line in settings), ""]
    notes, used = Footnotes(), []
    ends = table_names([section.name for section in sections])
    for number, (section, end) in enumerate(zip(sections, ends, strict=True)):
        if number not in found:
            lines += [f"## {section.name}", "", "Nothing measured.", ""]
            continue
        part = replace(found[number], order=section.rows)
        if section.show == "reappearance":
            table = reappearance(part, notes)
        elif section.show == "differences":
            table = differences("Differences", part, section.rows[0], section.rows, notes)
        else:
            table = accuracy(part, notes)
        if table is None:
            lines += [f"## {section.name}", "", "Nothing measured.", ""]
            continue
        used += part.records
        lines += [f"## {section.name}", "", grid(table), ""]
        for note in table.notes:
            lines += [note, ""]
        paper = paper_of(part, notes, part.records) if latex else None
        write_table(folder, f"{name}-{end}", table, section.name, paper)
    lines += [*footnotes(notes), "## Where these numbers come from", "", *provenance(used, whole.freshness)]
    write_atomically(folder / f"{name}.md", ("\n".join(lines).rstrip() + "\n").encode())
    return folder / f"{name}.md"


def _whole(found: Mapping[int, Group]) -> Group:
    """All records of a report, each once, as one group."""
    groups_found = list(found.values())
    records = {r.key: r for group in groups_found for r in group.records}
    left_out = {one.record.key: one for group in groups_found for one in group.left_out}
    return replace(groups_found[0], records=list(records.values()), left_out=list(left_out.values()))
