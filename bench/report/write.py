"""Records in, files out: a folder for each group of records, with a page, tables and pictures, and
an index of all.

A pure function of the records and of the code that they are compared with: the same give the same
bytes, on any day and machine.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from bench.errors import InputError, NothingMeasured, known_row
from bench.files import write_atomically
from bench.record.cell import TEACHER, Cell, record_key, train_key
from bench.record.named_rows import row_named
from bench.record.rescored import scored_alike
from bench.record.schema import Record
from bench.record.speed_sessions import speed_records
from bench.record.store import Store, nothing_in
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
from bench.report.html_page import html_page
from bench.report.page_sentences import facts, made_on, provenance, warnings
from bench.report.pictures import FRONT, HOLLOW, PICTURES, left_out_of_pictures
from bench.report.render import remove_stale_files, write_tables
from bench.report.speed_page import write_speed_report
from bench.report.studies import Folder, groups, study_of
from bench.report.study import EMPTY, KEPT, Group, Study
from bench.report.tables.for_paper import Paper, paper_tables
from bench.report.tables.registry import report_sections, tables_of
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
                f"{option}: {row}: give a name of 1 to {LONGEST_NAME} characters, "
                f"like {row!r} = 'Name'"
            )
    return body


def write_reports(
    store: Store,
    folder: Path,
    latex: bool = False,
    kept: float = KEPT,
    names: Mapping[str, str] = EMPTY,
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
        InputError: the reference or a row that a name is given for does not exist, or the name is
            another row's.
    """
    written = write_groups(store, folder, None, (), latex, kept, names, reference)
    pages = [page for page, _ in written]
    for session in speed_records(store.root, store.note):
        pages.append(write_speed_report(session, folder))
    return pages


def write_groups(
    store: Store,
    folder: Path,
    cells: Sequence[Cell] | None = None,
    order: Sequence[str] = (),
    latex: bool = False,
    kept: float = KEPT,
    names: Mapping[str, str] = EMPTY,
    reference: str = "",
) -> list[tuple[Path, Study]]:
    """As :func:`write_reports`, of those groups that some cells belong to, without sessions of
    timing; returns the studies too.

    Args:
        order: labels of rows in the order in which they were typed; without it a store's rows are
            in the order of names.
    """
    records = scored_alike(store.records(), store)
    sessions = list(speed_records(store.root, store.note))
    if not records and not sessions:
        raise NothingMeasured(nothing_in(store.root))
    records = _as_typed(records, cells or ())
    names = _checked_names(names, records, store.root)
    if reference:
        reference = row_named(reference, records, store.root)

    whole = Folder(store, records, sessions)
    wanted = None if cells is None else {record_key(cell) for cell in cells}
    written = []
    for group in groups(records):
        if wanted is None or not wanted.isdisjoint(_own_keys(group)):
            study = study_of(group, whole, order=order, names=names, reference=reference, kept=kept)
            written.append((write_study(study, folder, latex), study))
    write_index(folder)
    return written


def _as_typed(records: Sequence[Record], cells: Sequence[Cell]) -> list[Record]:
    """The records, those of these cells with the labels that the cells have now.

    What was trained as ``kd:-hard`` is the ablation "kd w/o hard" of ``kd:ablate``.
    """
    # a row that a search chose may be the training of a plain row, and stays a row of its own
    typed: dict[tuple[str, bool], dict[str, str | None]] = {}
    for cell in cells:
        label = {"label": cell.label, "ablation_of": cell.ablation_of}
        typed[train_key(cell), cell.search is None] = label
    renamed = []
    for record in records:
        label = typed.get((record.train_key, record.cell.search is None), {})
        if label:
            cell = record.cell.model_copy(update=label)
            record = record.model_copy(update={"cell": cell})
        renamed.append(record)
    return renamed


def _checked_names(
    names: Mapping[str, str], records: Sequence[Record], root: Path
) -> dict[str, str]:
    """Row -> its name in a paper.

    A name for a row that is not there is refused: it is misspelt, and the right row would keep its
    own name. So is a name that another row has.

    Raises:
        InputError: one of these.
    """
    called = {record.row: record.called for record in records}
    names = {known_row(row, called, root): name for row, name in names.items()}
    for row, name in names.items():
        for other in called:
            if other != row and name in (other, names.get(other, called[other])):
                raise InputError(
                    f"--names: {row}: another row has {name!r} as its name or label; "
                    "give each its own"
                )
    return names


def _own_keys(group: Group) -> set[str]:
    """The keys of a group's students; of a group of teachers alone, those of the teachers."""
    students = {record.key for record in group.records if record.cell.method != TEACHER}
    return students or {record.key for record in group.records}


def write_study(study: Study, folder: Path, latex: bool) -> Path:
    """The report of one study: Markdown, HTML, tables and pictures, in a folder of their own."""
    own = folder / place_of(study)
    made = tables_of(study)
    tables = named(made)
    by_file = paper_tables(study, paper_of(study))
    papers = {stem: by_file[table.file] for stem, table in tables.items() if table.file in by_file}
    write_tables(own / TABLES, tables, papers if latex else {})
    pictures = write_pictures(study, own, latex)
    remove_stale_files(own / FIGURES, files_of(pictures, latex))
    sections = report_sections(study, made, pictures)
    page = to_page(study.heading, [Section("", [facts(study)]), *sections])
    write_atomically(own / PAGE, page)
    write_atomically(own / HTML, html_page(study, tables, sections, papers))
    return own / PAGE


def write_pictures(
    study: Study,
    own: Path,
    latex: bool,
    prefix: str = "",
    names: Collection[str] = tuple(PICTURES),
) -> list[Picture]:
    """Draw what the records have a picture of, as SVG, and for a paper as PDF; returns those that
    are drawn.

    Args:
        own: the folder of the report.
        prefix: of the files' names.
        names: of :data:`PICTURES`.
    """
    pictures = []
    for name in names:
        title, caption, draw = PICTURES[name]
        stem = fitted(f"{prefix}{name}", [prefix, name], LONGEST - ENDING)
        svg = draw(study, "svg")
        if svg is None:
            continue
        write_atomically(own / FIGURES / f"{stem}.svg", svg)
        pdf = draw(study, "pdf") if latex else None
        if pdf is not None:
            write_atomically(own / FIGURES / f"{stem}.pdf", pdf)
        pictures.append(Picture(stem, title, _caption(study, caption), svg))
    return pictures


def _caption(study: Study, caption: str) -> str:
    """The caption of a picture, of what the picture has."""
    text = caption.format(conditions=study.speed.conditions)
    # without verdicts there is no front, and no point is hollow
    if study.no_verdict:
        text = text.replace(f"{FRONT} ", "").replace(f"{HOLLOW} ", "")
    return f"{text} {left_out_of_pictures(study)}".strip()


def files_of(pictures: Iterable[Picture], latex: bool) -> list[str]:
    """The names of the files that :func:`write_pictures` wrote."""
    forms = ("svg", "pdf") if latex else ("svg",)
    return [f"{picture.name}.{form}" for picture in pictures for form in forms]


def paper_of(study: Study, settings: Sequence[str] = ()) -> Paper:
    """What the tables of a group take along into a paper: with the settings of some rows."""
    lines = [*provenance(study.records), *made_on(study.records)]
    lines += [f"settings: {line}" for line in settings]
    return Paper(warnings(study), lines)
