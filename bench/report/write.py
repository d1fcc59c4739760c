"""Records in, files out: a folder for each group of records, with a page, tables and pictures, and an index of all.

A pure function of the records and of the code that they are compared with: the same give the same bytes, on any day
and machine.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from types import MappingProxyType

from bench.errors import InputError, NothingMeasured, known_row
from bench.files import slug, write_atomically
from bench.record.cell import (
    ONNX_INT8,
    POINTS_IN_8_BITS,
    TEACHER,
    Cell,
    record_key,
    train_key,
)
from bench.record.code import commit_of
from bench.record.named_rows import row_named
from bench.record.rescored import scored_alike
from bench.record.schema import Record
from bench.record.set_aside import sentences
from bench.record.speed_sessions import SpeedRecord, idle_if_any, speed_records
from bench.record.store import Store
from bench.record.task_facts import row_as_typed
from bench.report.document import Picture, Section, to_page, write_index
from bench.report.file_names import (
    ENDING,
    FIGURES,
    HTML,
    LONGEST,
    PAGE,
    TABLES,
    fitted,
    named,
    place_of,
)
from bench.report.frame import nothing_in
from bench.report.groups import KEPT, ReportGroup, groups
from bench.report.html_page import html_page
from bench.report.pictures import FRONT, HOLLOW, PICTURES, left_out_of_pictures
from bench.report.render import remove_stale_files, write_tables
from bench.report.reproduce import set_record_source
from bench.report.resampled import judge_answers, resample
from bench.report.sources import facts, made_on, provenance, warnings
from bench.report.speed import (
    conditions_of,
    described,
    main_conditions,
    shared_speed_up,
    write_speed_report,
)
from bench.report.tables.for_paper import Paper, paper_tables
from bench.report.tables.registry import make_tables, report_sections
from bench.stats.ratios import Ratio, pooled
from bench.user_files import toml_of

LONGEST_NAME = 200
"""Characters of a name."""


def names_in(path: Path) -> dict[str, str]:
    """Row -> its name in a paper, from a TOML file: ``"kd:layers=3" = "KD, three layers"``.

    Raises:
        InputError: no such file, not TOML, or a name that is no short text.
    """
    option = f"--names {path}"
    body = toml_of(path, option)
    for row, name in body.items():
        if not isinstance(name, str) or not name.strip() or len(name) > LONGEST_NAME:
            raise InputError(
                f"{option}: {row}: give a name of 1 to {LONGEST_NAME} characters, like {row!r} = 'Name'"
            )
    return body


def write_reports(
    store: Store,
    folder: Path,
    latex: bool = False,
    kept: float = KEPT,
    names: Mapping[str, str] = MappingProxyType({}),
    reference: str = "",
) -> list[Path]:
    """Write the reports of a store and its sessions of timing; returns the Markdown files.

    A record that cannot be read is set aside, and the reports say so.

    Args:
        latex: tables for a paper as LaTeX too, and each picture as PDF.
        kept: share of the teacher's score that a student has to reach to keep it.
        names: row -> what it is called in a paper.
        reference: the row that others are compared with; "" for plain fine-tuning, or the teacher.

    Raises:
        NothingMeasured: the store has neither a record nor a session of timing.
        InputError: the reference or a row that a name is given for does not exist, or the name is another row's.
    """
    written = [
        path for path, _ in write_groups(store, folder, None, (), latex, kept, names, reference)
    ]
    return written + [
        write_speed_report(session, folder) for session in speed_records(store.root, store.note)
    ]


def write_groups(
    store: Store,
    folder: Path,
    cells: Sequence[Cell] | None = None,
    order: Sequence[str] = (),
    latex: bool = False,
    kept: float = KEPT,
    names: Mapping[str, str] = MappingProxyType({}),
    reference: str = "",
) -> list[tuple[Path, ReportGroup]]:
    """As :func:`write_reports`, of those groups that some cells belong to, without sessions of timing; returns the groups too.

    Args:
        order: labels of rows in the order in which they were typed; without it a store's rows are in the order of names.
    """
    records = scored_alike(store.records(), store)
    sessions = list(speed_records(store.root, store.note))
    if not records and not sessions:
        raise NothingMeasured(nothing_in(store.root))
    touched = None if cells is None else {record_key(cell) for cell in cells}
    # rows are called as they were typed now: what was trained as kd:-hard is the ablation "kd w/o hard" of kd:ablate
    # a row that a search chose may be the training of a plain row, and stays a row of its own
    typed = {
        (train_key(cell), cell.search is None): {
            "label": cell.label,
            "ablation_of": cell.ablation_of,
        }
        for cell in cells or ()
    }
    records = [
        r.model_copy(update={"cell": r.cell.model_copy(update=label)})
        if (label := typed.get((r.train_key, r.cell.search is None)))
        else r
        for r in records
    ]

    # a name for a row that there is not is refused (it is misspelt, and the right row would keep its own name), and another row's too
    called = {record.row: record.called for record in records}
    names = {known_row(row, called, store.root): name for row, name in names.items()}
    if reference:
        reference = row_named(reference, records, store.root)
    for row, name in names.items():
        if any(
            name in (other, names.get(other, called[other])) for other in called if other != row
        ):
            raise InputError(
                f"--names: {row}: another row has {name!r} as its name or label; give each its own"
            )

    written = []
    for group in groups(records):
        is_teacher_alone = all(r.cell.method == TEACHER for r in group.records)
        own = {r.key for r in group.records if r.cell.method != TEACHER or is_teacher_alone}
        if touched is None or touched & own:
            group.order, group.names, group.reference = list(order), names, reference
            prepare(group, store, records)
            add_speed(group, sessions)
            written.append((write_group(group, folder, store, latex, kept), group))
    write_index(folder)
    return written


def prepare(group: ReportGroup, store: Store, records: Sequence[Record]) -> None:
    """Tell a group what its folder of records says of it; ``records`` are all of that folder."""
    judge_answers(group, store)
    set_record_source(group, store, records)
    group.aside = sentences(
        store.notes, store.root, {slug(r.cell.data.slug) for r in group.records}
    )


def add_speed(
    group: ReportGroup, sessions: Sequence[SpeedRecord], backend: str = "", threads: int = 0
) -> None:
    """Give the group's rows the speed-ups of the sessions with its teacher, and the latencies of the last one.

    A session of a busy machine counts only where none of an idle one fits, and is said to be busy. Sessions on the same
    kind of machine as the last, under the same conditions, are pooled.

    Rows of one architecture have one speed-up: in each round the median of their times, which differ by chance alone. Of rows with weights
    of few bits each has its own. Rows in 8 bits were timed after the teacher's rounds, and have latencies alone.

    Args:
        backend, threads: under which they were timed; by default those that the session measured first.
    """
    fitting = [
        session
        for session in sessions
        if session.teacher == group.cell.teacher.name
        and main_conditions(session, backend, threads) is not None
    ]
    if not fitting:
        return
    idle = idle_if_any(fitting)
    session = idle[-1]
    conditions = main_conditions(session, backend, threads)
    if conditions is None:
        return
    alike = [s for s in idle if s.machine == session.machine and conditions in conditions_of(s)]
    group.speed_others = session.others
    group.speed_backend = conditions.backend
    said = _sessions_in_words(alike, fitting[-1])
    machine = session.env.get("accelerator") or session.env.get("processor")
    group.speed_conditions = f"{described(conditions)}, on {machine}; {said}"

    # rows of one architecture, by the names that a session has for them
    in_8_bits = conditions.model_copy(update={"backend": ONNX_INT8})
    architectures: dict[object, dict[str, str]] = {}
    for label in group.systems:
        first = group.records_of(label)[0]
        name = row_as_typed(first.cell)
        is_rounded = first.point in POINTS_IN_8_BITS
        name += f" at {first.point}" if first.point and not is_rounded else ""
        timing = session.timing_of(name, in_8_bits if is_rounded else conditions)
        if timing and timing.seconds:
            group.latencies[label] = 1000 * median(timing.seconds)
        if not is_rounded:
            architectures.setdefault(_architecture(group, label), {})[label] = name

    rows: list[list[str]] = []
    ratios: list[list[Ratio]] = []
    for names in architectures.values():
        own = [shared_speed_up(s, list(names.values()), conditions) for s in alike]
        known = [one for one in own if one is not None]
        if not known:
            continue
        rows.append([label for label in names if label != TEACHER])
        ratios.append(known)
        timings = [session.timing_of(name, conditions) for name in names.values()]
        seconds = [timing.seconds for timing in timings if timing and timing.seconds]
        if seconds:
            rounds = [median(times) for times in zip(*seconds, strict=False)]
            group.latencies |= dict.fromkeys(names, 1000 * median(rounds))
    for labels, together in zip(rows, pooled(ratios), strict=True):
        group.speed_ups |= dict.fromkeys(labels, together)


def _architecture(group: ReportGroup, label: str) -> object:
    """What rows of one architecture have in common: rounding takes time of its own, so each row
    with weights of few bits is its own."""
    whole = [r.sizes for r in group.records_of(label) if r.sizes and r.sizes.file_bytes is None]
    sizes = [(s.parameters, s.macs_closed_form) for s in whole]
    return min(sizes) if sizes else label


def _sessions_in_words(alike: Sequence[SpeedRecord], newest: SpeedRecord) -> str:
    """Which sessions speed-ups are of; and what speaks against the last of them.

    Args:
        alike: those that are pooled, the last of which has the latencies.
        newest: the last session of all that fit, whatever ran beside it.
    """
    session = alike[-1]
    made = [f"{s.key[:8]} of {s.started[:10]}, code {commit_of(s.code)}" for s in alike]
    said = f"one session: {made[0]}"
    if len(alike) > 1:
        said = f"{len(alike)} sessions: {', and '.join(made)}"
    if session.others:
        return (
            f"{said}; busy: other processes used {session.others:.1f} cores, so times mean little"
        )
    if session is not newest:
        return f"{said}; session {newest.key[:8]}, of a busy machine, is left out"
    return said


def write_group(group: ReportGroup, folder: Path, store: Store, latex: bool, kept: float) -> Path:
    """The report of one group: Markdown, HTML, tables and pictures, in a folder of their own."""
    own = folder / place_of(group)
    make_tables(group, resample(group, store), kept)
    tables = named(group.tables)
    by_file = paper_tables(group, paper_of(group))
    papers = {stem: by_file[table.file] for stem, table in tables.items() if table.file in by_file}
    write_tables(own / TABLES, tables, papers if latex else {})
    pictures = write_pictures(group, own, latex)
    remove_stale_files(own / FIGURES, files_of(pictures, latex))
    sections = report_sections(group, pictures)
    write_atomically(own / PAGE, to_page(group.heading, [Section("", [facts(group)]), *sections]))
    write_atomically(own / HTML, html_page(group, sections, papers))
    return own / PAGE


def write_pictures(
    group: ReportGroup,
    own: Path,
    latex: bool,
    prefix: str = "",
    names: Collection[str] = tuple(PICTURES),
) -> list[Picture]:
    """Draw what the records have a picture of, as SVG, and for a paper as PDF; returns those that are drawn.

    Args:
        prefix: of the files' names.
        names: of :data:`PICTURES`.
    """
    shown = []
    for name in names:
        title, caption, draw = PICTURES[name]
        stem = fitted(f"{prefix}{name}", [prefix, name], LONGEST - ENDING)
        for form in ("pdf", "svg") if latex else ("svg",):
            if (drawn := draw(group, form)) is not None:
                write_atomically(own / FIGURES / f"{stem}.{form}", drawn)
                if form == "svg":
                    text = caption.format(conditions=group.speed_conditions)
                    # without verdicts there is no front, and no point is hollow
                    if group.no_verdict:
                        text = text.replace(f"{FRONT} ", "").replace(f"{HOLLOW} ", "")
                    told = [text, left_out_of_pictures(group)]
                    text = " ".join(filter(None, told))
                    shown.append(Picture(stem, title, text, drawn))
    return shown


def files_of(pictures: Iterable[Picture], latex: bool) -> list[str]:
    """The names of the files that :func:`write_pictures` wrote."""
    forms = ("svg", "pdf") if latex else ("svg",)
    return [f"{picture.name}.{form}" for picture in pictures for form in forms]


def paper_of(group: ReportGroup, settings: Sequence[str] = ()) -> Paper:
    """What the tables of a group take along into a paper: with the settings of some rows."""
    lines = [*provenance(group.records), *made_on(group.records)]
    lines += [f"settings: {line}" for line in settings]
    return Paper(warnings(group), lines)
