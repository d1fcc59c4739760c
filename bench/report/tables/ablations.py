"""Every ``w/o X`` row under its full row, with the difference to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from bench.report import frame
from bench.report.frame import EXACT, Frame, FrameLine, TableCell
from bench.report.groups import ReportGroup, ScoreColumn
from bench.report.tables.parts import line_of, missing
from bench.report.tables.registry import ABLATIONS, ReportData, table
from bench.stats.summary import summarise


@table(ABLATIONS, place=50)
def _frames(data: ReportData) -> Iterable[Frame | None]:
    return [ablation(data.group)]


def ablation(group: ReportGroup) -> Frame | None:
    """Every ``w/o X`` row under its full row, with the difference to it."""
    full_of = {r.row: r.cell.ablation_of for r in group.records if r.cell.ablation_of}
    fulls = [label for label in group.systems if label in full_of.values()]
    fulls += sorted(set(full_of.values()) - set(fulls))  # a full row that is not there
    parts = [
        differences("Ablations", group, full, [full, *(s for s in group.systems if full_of.get(s) == full)])
        for full in fulls
    ]
    if not parts:
        return None
    # a note with the warning is longer than one without
    notes = max((part.notes for part in parts), key=lambda notes: len(notes[0]))
    lines = tuple(line for part in parts for line in part.lines)
    return replace(parts[0], lines=lines, notes=notes, file="ablation")


def differences(title: str, group: ReportGroup, full: str, labels: Sequence[str]) -> Frame:
    """Rows with their difference to the row ``full``, column by column and on average."""
    columns = (
        frame.TableColumn("System"),
        *(frame.TableColumn(c.title, csv=EXACT) for c in group.columns),
        frame.TableColumn("mean difference"),
    )
    lines = tuple(_line(group, label, full) for label in labels)
    return Frame(title, columns, lines, (_note(group, labels),))


def _note(group: ReportGroup, labels: Sequence[str]) -> str:
    """What the brackets hold; and where the table of paired comparisons may disagree with them."""
    said = "In brackets: the difference to the full row, computed before rounding, over the seeds that both rows have."
    seeds = [set(group.values(label, c)) for label in labels for c in group.columns]
    if len({frozenset(own) for own in seeds if own}) == 1:
        return said
    return f"{said} The table of paired comparisons uses all seeds of both rows, so its differences are not the same."


def _line(group: ReportGroup, label: str, full: str) -> FrameLine:
    gaps = {c: gap for c in group.columns if (gap := _gap(group, label, full, c)) is not None}
    cells = [_cell(group, label, c, gaps.get(c)) for c in group.columns]
    mean = summarise(list(gaps.values())).mean if gaps and len(gaps) == len(group.columns) else None
    return line_of(group, label, [*cells, TableCell("" if mean is None else f"{mean:+.1f}", value=mean)])


def _gap(group: ReportGroup, label: str, full: str, column: ScoreColumn) -> float | None:
    """The mean difference to the full row over the seeds that both have; None where there is none, and of that row itself."""
    own, reference = group.values(label, column), group.values(full, column)
    shared = sorted(set(own) & set(reference))
    return summarise([own[seed] - reference[seed] for seed in shared]).mean if shared and label != full else None


def _cell(group: ReportGroup, label: str, column: ScoreColumn, gap: float | None) -> TableCell:
    summary = group.summaries.get((label, column))
    if summary is None:
        return missing(group, label, column)
    text = summary.text() + ("" if gap is None else f" ({gap:+.1f})")
    return TableCell(text, value=summary.mean, deviation=summary.deviation, n=summary.n)
