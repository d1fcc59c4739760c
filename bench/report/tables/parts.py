"""What tables are made of, and cells and questions that several of them have."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from bench.record.cell import TEACHER, is_one_model
from bench.record.rescored import NO_ANSWERS
from bench.record.schema import Record
from bench.record.varied import VARIED_START, VARIED_TEACHER
from bench.report.score_column import ScoreColumn
from bench.report.study import Study
from bench.report.table import BUSY, DASH, Line, TableCell

SEARCHES = "Settings chosen by search"
"""Title of the table that says what searches chose."""


def if_busy(title: str, study: Study) -> str:
    """The title of a column of times: it says where the machine was busy when they were taken."""
    return title + BUSY if study.speed.busy_cores else title


def counted(number: int, what: str) -> str:
    """``1 column``, ``3 columns``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def listed(names: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def line_of(study: Study, label: str, cells: Sequence[TableCell], *notes: str) -> Line:
    """The line of a row: its printed name (:meth:`Study.called`), and its label in CSV files."""
    return Line(label, cells, study.called(label), notes)


def left_out_of_means(study: Study, columns: Collection[ScoreColumn] = ()) -> str:
    """A sentence that says which columns are in no mean: these of them, or all."""
    names = listed([column.name for column in columns or study.left_out_of_means])
    interval = "the 95 % interval of the teacher's score there"
    return f"Means leave out {names}: {interval} is not above the {study.baseline_name}."


def sources_of_variance(study: Study) -> list[str]:
    """Sentences for tables with intervals: by which chances these are moved, and which they leave
    out."""
    students = [record for record in study.records if record.cell.method != TEACHER]
    trained = [record for record in students if not is_one_model(record.cell)]
    over = ["examples"]
    if len({record.cell.seed for record in trained}) > 1:
        over.append("seeds of the students")
    left_out: list[str] = []
    for source in _drawn_by_chance(trained):
        varies = {study.called(record.row): record.cell.varies(source) for record in trained}
        rows = [row for row, does_vary in varies.items() if does_vary]
        if not rows:
            left_out.append(source)
        elif len(rows) == len(varies):
            over.append(f"{source}s, of which each seed has its own")
        else:
            over.append(f"{source}s in {listed(rows)}")
    texts = [f"The intervals are over {listed(over)}."]
    if left_out:
        ones = listed([f"one {source}" for source in left_out])
        texts.append(f"They leave out what others would do: all seeds have {ones}.")
    return [" ".join(texts), *_one_search(study)]


def _drawn_by_chance(trained: Sequence[Record]) -> list[str]:
    """What besides the students is drawn by chance in some of these trainings: teachers that are
    fine-tuned here, and starts that are trained here."""
    sources = []
    if any(record.cell.teacher.origin == "fine-tuned" for record in trained):
        sources.append(VARIED_TEACHER)
    if any(_has_trained_start(record) for record in trained):
        sources.append(VARIED_START)
    return sources


def _has_trained_start(record: Record) -> bool:
    """Whether something that a student begins with was trained here."""
    made = [record.artefacts.get(name, {}) for name in record.cell.artefacts]
    return any("train" in body for body in made)


def _one_search(study: Study) -> list[str]:
    """A sentence where one search chose the settings of several seeds; none where no search did, or
    each seed has its own."""
    found = [record.cell.search for record in study.records if record.cell.search is not None]
    if all(search.each_seed for search in found):
        return []
    return [
        "Rows (best of …) were tuned by one search for all seeds: the intervals leave out that "
        "another search, with other held-out examples and another seed, may choose other settings."
    ]


def keys_of(records: Sequence[Record]) -> tuple[str, ...]:
    return tuple(record.key for record in records)


def missing(study: Study, label: str, column: ScoreColumn) -> TableCell:
    """An empty cell, with its reason."""
    records = study.records_of(label, column.task)
    failed = [r for r in records if r.status == "failed"]
    if failed:
        message = failed[0].error.message if failed[0].error else "no message"
        reason = f"{label} on {column.shown}, seed {failed[0].cell.seed}: failed: {message}"
    elif any(r.status == "interrupted" for r in records):
        reason = f"{label} on {column.shown}: interrupted; run the same command again"
    elif any(r.status == "ok" and not r.scores for r in records):
        reason = f"{label} on {column.shown}: {NO_ANSWERS}"
    else:
        reason = "not run: there is no record of this row on this task"
    return TableCell(DASH, footnotes=(reason,))
