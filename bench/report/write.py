"""Records in, files out: one Markdown report with its CSV tables and picture for each group of records.

A pure function of the records and of the code that they are compared with: the same give the same bytes, on any day
and machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.errors import NothingMeasured
from bench.record.cell import TEACHER, Cell, record_key
from bench.record.schema import Record
from bench.record.set_aside import sentences
from bench.record.speed_sessions import SpeedRecord, speed_records
from bench.record.store import CELLS, Store, slug, write_atomically
from bench.report import escape
from bench.report.document import document
from bench.report.file_names import name_of, table_names
from bench.report.frame import Frame
from bench.report.groups import Group, groups
from bench.report.render import Paper, to_markdown, write_table
from bench.report.reproduce import located
from bench.report.resampled import resample
from bench.report.sources import made_on, provenance, warnings
from bench.report.speed import described, headline, latest, speed_up
from bench.report.suspicions import baselines_of, suspicions_of
from bench.report.tables.registry import KEPT, ReportData, frames
from bench.report.tables.speed import speed_tables
from bench.stats.ratios import percentile


@dataclass(frozen=True)
class Written:
    """One report as it was written."""

    path: Path
    """the Markdown file"""
    group: Group
    tables: Sequence[Frame]
    """in the order of the report; the accuracies first"""


def write_reports(
    store: Store,
    folder: Path,
    cells: Sequence[Cell] | None = None,
    kept: float = KEPT,
    latex: bool = False,
    order: Sequence[str] = (),
) -> list[Path]:
    """Write the reports of a store, or of those groups that some cells belong to; returns the Markdown files.

    Args:
        kept: share of the teacher's score that a student has to reach to keep it.
        latex: each table as LaTeX too, and each picture as PDF.
        order: labels of rows in the order in which they were typed; without it a store's rows are in the order of names.

    Raises:
        NothingMeasured: the store has no record.
        InputError: a record cannot be read.
    """
    written = [one.path for one in write_groups(store, folder, cells, kept, latex, order)]
    if cells is None:
        written += [write_speed_report(session, folder, latex) for session in speed_records(store.root, store.note)]
    return written


def write_groups(
    store: Store,
    folder: Path,
    cells: Sequence[Cell] | None = None,
    kept: float = KEPT,
    latex: bool = False,
    order: Sequence[str] = (),
) -> list[Written]:
    """As :func:`write_reports`, without the reports of speed sessions; returns the tables too."""
    records, sessions = list(store.records()), list(speed_records(store.root, store.note))
    if not records and not sessions:
        raise NothingMeasured(nothing_in(store.root))
    touched = None if cells is None else {record_key(cell) for cell in cells}
    written = []
    for group in groups(records, store.freshness):
        if touched is None or any(
            r.key in touched for r in group.records if r.cell.method != TEACHER or len(group.systems) == 1
        ):
            located(group, store, records)
            group.aside = sentences(store.notes, store.root, {slug(group.slug)})
            group.order = list(order)
            add_speed(group, latest(sessions, group.teacher))
            written.append(write_group(group, folder, store, kept, latex))
    return written


def nothing_in(root: Path) -> str:
    """What is wrong with a folder without records, and what to type."""
    if any(root.glob(CELLS)):
        return f"no record in {root} can be used; `bench store verify --results {root}` says why"
    if root.is_dir():
        return f"no records in {root}; type: python -m bench run --methods all --tasks glue"
    return f"no records in {root}: there is no such folder; name the folder of records with --results"


def add_speed(group: Group, session: SpeedRecord | None) -> None:
    """Give the group's rows the speed-ups of a session with its teacher."""
    conditions = headline(session) if session else None
    if session is None or conditions is None:
        return
    group.speed_conditions = (
        f"{described(conditions)}, on {session.env.get('accelerator') or session.env.get('processor')}"
    )
    for label in group.systems:
        timing, found = session.of(label, conditions), speed_up(session, label, conditions)
        if timing is not None and found is not None:
            group.latencies[label] = 1000 * percentile(timing.seconds, 0.5)
            if label != TEACHER:
                group.speed_ups[label] = found


def write_speed_report(session: SpeedRecord, folder: Path, latex: bool = False) -> Path:
    """Markdown and CSV of one session of timing, LaTeX where asked for; returns the Markdown file."""
    name = slug(f"speed-{session.teacher.split('/')[-1].split(' (')[0]}-{session.key[:8]}").lower()
    env = session.env
    where = ", ".join(str(env[k]) for k in ("accelerator", "processor") if env.get(k))
    commit = str(session.code.get("commit"))[:12] + (" with local changes" if session.code.get("dirty") else "")
    measured_on = f"{where}, {env.get('cores')} cores; torch {env.get('torch')}, transformers {env.get('transformers')}; code {commit}."
    paper = Paper(f"Compared with {session.teacher}", sources=[measured_on]) if latex else None
    lines = [
        f"# Speed compared with {escape.markdown(session.teacher)}",
        "",
        "Teacher and students were timed in turns, so that each speed-up compares times of the same moment. It is the median over "
        "rounds, with an interval by order statistics. The models have random weights, on which speed does not depend.",
        "",
    ]
    for table in speed_tables(session):
        lines += [f"## {escape.markdown(table.title)}", "", to_markdown(table), ""]
        for note in table.notes:
            lines += [escape.markdown(note), ""]
        write_table(folder, f"{name}-{slug(table.title).lower()}", table, paper=paper)
    lines += [escape.markdown(measured_on)]
    write_atomically(folder / f"{name}.md", ("\n".join(lines).rstrip() + "\n").encode())
    return folder / f"{name}.md"


def write_group(group: Group, folder: Path, store: Store, kept: float = KEPT, latex: bool = False) -> Written:
    """The report of one group: Markdown, CSV and pictures."""
    from bench.report.plot import learning_curves, score_against_flops, score_against_latency

    name = name_of(group)
    group.suspicions, group.baselines = suspicions_of(group, store), baselines_of(group, store)
    tables = frames(ReportData(group, resample(group, store), kept))
    paper = paper_of(group, group.records) if latex else None
    for table, end in zip(tables, table_names([table.file or table.title for table in tables]), strict=True):
        write_table(folder, f"{name}-{end}", table, paper=paper)
    shown = {}
    for suffix, caption, draw in (
        ("", "Score kept against FLOPs", score_against_flops),
        ("-latency", "Score kept against measured latency", score_against_latency),
        ("-curves", "Learning curves of each term", learning_curves),
    ):
        for form in ("svg", "pdf") if latex else ("svg",):
            if (picture := draw(group, form)) is not None:
                write_atomically(folder / f"{name}{suffix}.{form}", picture)
                shown[f"{name}{suffix}.svg"] = caption
    write_atomically(folder / f"{name}.md", document(group, tables, shown).encode())
    return Written(folder / f"{name}.md", group, tables)


def paper_of(group: Group, records: Sequence[Record]) -> Paper:
    """What a table of this group takes along into a paper."""
    sources = [line.removeprefix("- ") for line in provenance(records, group.freshness)]
    return Paper(group.title, [line for line in warnings(group) if line], [*sources, *made_on(records)])
