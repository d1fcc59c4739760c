"""Records in, files out: one Markdown report with its CSV tables and picture for each group of records.

A pure function of the records and of the code that they are compared with: the same give the same bytes, on any day
and machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.data.checkpoints import EMBEDDED_SHA256
from bench.errors import NothingMeasured
from bench.record.cell import TEACHER, Cell, record_key
from bench.record.freshness import Freshness, stale_lines, unknown_line
from bench.record.newest import left_out_lines
from bench.record.recipe import ADAMW
from bench.record.schema import Record
from bench.record.set_aside import sentences
from bench.record.speed_sessions import SpeedRecord, speed_records
from bench.record.store import CELLS, Store, slug, write_atomically
from bench.report import escape
from bench.report.file_names import name_of, table_names
from bench.report.groups import Group, groups
from bench.report.learning_rates import rates_line
from bench.report.paired_comparisons import KEPT, differences, resample, retentions, suspicions_of
from bench.report.published import beside, published
from bench.report.render import Paper, grid, write_table
from bench.report.reproduce import commands, located, places, starts_without_text
from bench.report.speed_tables import described, headline, latest, speed_tables, speed_up
from bench.report.tables import (
    Footnotes,
    Table,
    ablation,
    accuracy,
    behind,
    reappearance,
    sizes_of,
)
from bench.report.training_tables import cost, gradient_shares
from bench.stats.ratios import percentile


@dataclass(frozen=True)
class Written:
    """One report as it was written."""

    path: Path
    """the Markdown file"""
    group: Group
    tables: Sequence[Table]
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
    made_on = f"{where}, {env.get('cores')} cores; torch {env.get('torch')}, transformers {env.get('transformers')}; code {commit}."
    paper = Paper(f"Beside {session.teacher}", sources=[made_on]) if latex else None
    lines = [
        f"# Speed beside {escape.markdown(session.teacher)}",
        "",
        "Teacher and students in turns, so that each speed-up is a ratio of one moment: the median over rounds, with the interval "
        "of a median by order statistics. Models from configurations with random weights: speed does not depend on them.",
        "",
    ]
    for table in speed_tables(session):
        lines += [f"## {escape.markdown(table.title)}", "", grid(table), ""]
        for note in table.notes:
            lines += [escape.markdown(note), ""]
        write_table(folder, f"{name}-{slug(table.title).lower()}", table, paper=paper)
    lines += [escape.markdown(made_on)]
    write_atomically(folder / f"{name}.md", ("\n".join(lines).rstrip() + "\n").encode())
    return folder / f"{name}.md"


def write_group(group: Group, folder: Path, store: Store, kept: float = KEPT, latex: bool = False) -> Written:
    """The report of one group: Markdown, CSV and pictures."""
    from bench.report.plot import learning_curves, score_against_flops, score_against_latency

    name = name_of(group)
    group.suspicions = suspicions_of(group, store)
    resampled = resample(group, store)
    notes = Footnotes()
    tables = [
        t
        for t in (
            accuracy(group, notes),
            *differences(group, resampled),
            reappearance(group, notes),
            retentions(group, resampled, notes, kept),
            ablation(group, notes),
            cost(group),
            gradient_shares(group),
            sizes_of(group),
            beside(group, published()),
            behind(group),
        )
        if t
    ]
    paper = paper_of(group, notes, group.records) if latex else None
    for table, end in zip(tables, table_names([table.title for table in tables]), strict=True):
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
    write_atomically(folder / f"{name}.md", markdown(group, tables, notes, shown).encode())
    return Written(folder / f"{name}.md", group, tables)


def paper_of(group: Group, notes: Footnotes, records: Sequence[Record]) -> Paper:
    """What a table of this group takes along into a paper."""
    sources = [line.removeprefix("- ") for line in provenance(records, group.freshness)]
    return Paper(group.title, [line for line in warnings(group) if line], notes, sources)


def markdown(group: Group, tables: Sequence[Table], notes: Footnotes, pictures: Mapping[str, str]) -> str:
    """The report's text; ``pictures`` are files and captions. No date, no host: those are in the records."""
    recipe = f"recipe {group.recipe}" + (
        "" if group.recipe == "paper" else f", {group.epochs:g} epochs over all stages"
    )
    recipe += "" if group.optimizer == ADAMW else f", optimizer {group.optimizer}"
    lines = [
        f"# {group.title}",
        "",
        f"{recipe}; {group.precision}, {_where(group)}. {_start_line(group)}",
        "",
        *paragraph(rates_line(group)),
    ]
    lines = [escape.markdown(line) for line in (*lines, *warnings(group))]
    for table in tables:
        lines += [f"## {escape.markdown(table.title)}", "", grid(table), ""]
        for note in table.notes:
            lines += [escape.markdown(note), ""]
        for file, caption in pictures.items():
            if table.title == ("Cost of training" if file.endswith("-curves.svg") else "Accuracy"):
                lines += [f"![{caption}]({file})", ""]
    lines += [
        *map(escape.markdown, footnotes(notes)),
        "## Where these numbers come from",
        "",
        *map(escape.markdown, provenance(group.records, group.freshness)),
        *made_again(commands(group), group),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _where(group: Group) -> str:
    """Threads, and the kind of device where it is not the CPU."""
    return f"{group.threads} threads" + ("" if group.device == "cpu" else f", {group.device}")


def paragraph(text: str) -> list[str]:
    """A line with an empty one behind it, or nothing."""
    return [text, ""] if text else []


def footnotes(notes: Footnotes) -> list[str]:
    """The section of footnotes, or nothing."""
    if not notes.texts:
        return []
    listed = [f"[{number}] {text}" + "  " for number, text in enumerate(notes.texts, start=1)]
    return ["## Footnotes", "", *listed, ""]


def _start_line(group: Group) -> str:
    """Which general start the students share; each row's own start is in the table of costs."""
    own = sorted({r.artefacts["general_start"]["key"][:12] for r in group.records if "general_start" in r.artefacts})
    random = sorted({r.cell.label for r in group.records if r.cell.settings.get("start") == "random"})
    text = f"Students start from general start {', '.join(own)}" if own else "No general start"
    other = sorted(
        {r.row for r in group.records if r.train and r.cell.label != TEACHER and "general_start" not in r.artefacts}
        - set(random)
    )
    text += f"; from random weights: {', '.join(random)}" if random else ""
    return text + (f"; otherwise (see the cost of training): {', '.join(other)}." if other else ".")


def warnings(group: Group) -> list[str]:
    """What a reader has to know before the first number."""
    lines = []
    if group.slug.startswith("sample-"):
        lines += [
            "**Generated sample data, not GLUE.** Task names say which GLUE task the form is taken from; no number here compares with a paper.",
            "",
        ]
    if group.base == EMBEDDED_SHA256 and {"mnli", "qqp"} & set(group.tasks) and not group.slug.startswith("sample-"):
        lines += [
            "The teacher was trained for sentence similarity on data that include MultiNLI, SNLI and QQP: read mnli and qqp with that in mind.",
            "",
        ]
    lines += [line for text in group.aside for line in (f"**{text[0].upper()}{text[1:]}.**", "")]
    lines += [line for text in left_out_lines(group.left_out) for line in (f"**{text[0].upper()}{text[1:]}.**", "")]
    if group.freshness is not None:
        lines += [line for text in stale_lines(group.records, group.freshness) for line in (f"**{text}**", "")]
    return lines


def made_again(made: Sequence[str], group: Group) -> list[str]:
    """The commands that make records again, and what they leave open."""
    lines = [f"- made again by: {escape.code(command)}" for command in made]
    if named := places(made):
        known = escape.markdown(", ".join(named))
        lines.append(f"- only the names of files and folders are known: type where you have {known}")
    if unknown := starts_without_text(group):
        lines.append(f"- no record names the --corpus and --corpus-tokens of the general start {', '.join(unknown)}")
    return lines


def provenance(records: Sequence[Record], freshness: Freshness | None = None) -> list[str]:
    """Keys, code, libraries, machine and examples of these records."""
    done = [r for r in records if r.status == "ok"]
    if not done:
        return ["No finished record."]
    commits = sorted(
        {f"{str(r.code.get('commit'))[:12]}{' with local changes' if r.code.get('dirty') else ''}" for r in done}
    )
    libraries = sorted({f"torch {r.env.get('torch')}, transformers {r.env.get('transformers')}" for r in done})
    machines = sorted(
        {f"{r.env.get('processor')}, {r.env.get('cores')} cores, device {r.env.get('device')}" for r in done}
    )
    rows = sorted(
        {f"{'+'.join(r.cell.tasks)} {', '.join(f'{k} {v:,}' for k, v in r.cell.data.rows.items())}" for r in done}
    )
    bases = sorted({r.cell.teacher.base[:12] for r in done})
    return [
        f"- {len(done)} records; keys {min(r.key for r in done)[:12]} to {max(r.key for r in done)[:12]}",
        f"- commits of the code: {'; '.join(commits)}",
        *([f"- {unknown}"] if freshness is not None and (unknown := unknown_line(done, freshness)) else []),
        f"- {'; '.join(libraries)}",
        f"- {'; '.join(machines)}",
        f"- teacher's base weights: sha256 {', '.join(bases)}",
        f"- examples: {'; '.join(rows)}",
    ]
