"""The main table: each row's score in each column, their mean, and its size; with what the best
constant prediction scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from bench.record.cell import LINEAR_IN_8_BITS, LINEAR_ONLY, TEACHER
from bench.record.schema import Record, Sizes
from bench.record.stated import stated
from bench.report.score_column import ScoreColumn
from bench.report.study import Place, Study
from bench.report.table import DASH, INTERVAL, SPREAD, Column, Line, Table, TableCell, number
from bench.report.tables.cost import FILE, models_differ, need_own_lines
from bench.report.tables.parts import (
    SEARCHES,
    if_busy,
    keys_of,
    left_out_of_means,
    line_of,
    listed,
    missing,
)

ACCURACY = "accuracy"
"""The name of the table's files."""
WIDTH = 180
"""Characters of a line of the main table."""


def accuracy(study: Study) -> Table:
    """One column an evaluation set, their mean, and the size of each system; the best student of a
    column in bold."""
    scores = score_cells(study)
    means = mean_cells(study)
    further = further_columns(study)

    # a line for each row
    lines = []
    for label in study.rows:
        cells = [scores[label, column] for column in study.printed_columns]
        if means:
            cells.append(means[label])
        cells += [cell_of(study, label) for cell_of in further.values()]
        lines.append(line_of(study, label, cells, *_notes_on_row(study, label)))

    # the best constant prediction, behind the teacher where there is one
    if study.baselines:
        cells = [number(study.baselines.get(column)) for column in study.printed_columns]
        if means:
            cells.append(number(study.majority))
        cells += [TableCell("")] * len(further)
        has_teacher = study.systems[:1] == [TEACHER]
        lines.insert(int(has_teacher), Line(study.baseline_name, cells, row=""))

    columns = [Column("System")]
    for column in study.printed_columns:
        columns.append(Column(column.title, csv=SPREAD, beside=column not in study.columns))
    if means:
        columns.append(Column(f"mean of {len(study.averaged)}"))
    columns += [Column(title, csv=INTERVAL) for title in further]
    return Table("Results", columns, lines, _notes(study), file=ACCURACY, width=WIDTH)


def score_cells(study: Study) -> dict[Place, TableCell]:
    """(row, printed column) -> its score; the best students of a column in bold."""
    cells = {}
    for column in study.printed_columns:
        best = _best_of(study, column)
        for label in study.systems:
            cells[label, column] = _score(study, label, column, best)
    return cells


def mean_cells(study: Study) -> dict[str, TableCell]:
    """Row -> its mean, the best one in bold; none where one column is its own mean."""
    if len(study.columns) < 2:
        return {}
    sound = set(study.sound)
    best = max((round(study.mean_scores[label], 1) for label in sound), default=math.nan)
    cells = {}
    for label in study.systems:
        is_best = label in sound and round(study.mean_scores[label], 1) == best
        cells[label] = number(study.mean_scores.get(label), bold=is_best)
    return cells


def _notes_on_row(study: Study, label: str) -> list[str]:
    """What a reader has to know of a row, besides its scores."""
    records = study.records_of(label)
    remark = stated(records[0].cell.method, "remark")
    notes = [remark] if remark else []
    # one footnote of all such rows
    if any(record.point == LINEAR_IN_8_BITS for record in records):
        notes.append(f"{LINEAR_ONLY}; embeddings are in fp32. `run` makes the row anew")
    # searches have a table of their own
    searches = {record.cell.search.describe() for record in records if record.cell.search}
    of_records: dict[str, None] = {}
    for record in records:
        of_records |= dict.fromkeys(note for note in record.notes if note not in searches)
    for note in of_records:
        notes += [f"{label}: {line}" for line in note.splitlines()]
    return notes


@dataclass(frozen=True)
class _Best:
    """The highest score of a column as it is printed, and the students that it is the highest of.

    Attributes:
        judged: the column by whose metric the answers were judged: the first one of the same
            examples.
        students: those that have all seeds and sound answers.
        score: in percent, with one decimal; NaN where there is none.
    """

    judged: ScoreColumn
    students: Collection[str]
    score: float


def _best_of(study: Study, column: ScoreColumn) -> _Best:
    """The best score of a column; none where there is no verdict."""
    place = (column.task, column.evaluation)
    judged = next(c for c in study.columns if (c.task, c.evaluation) == place)
    scores = {}
    no_verdict = study.no_verdict_in([judged])
    for student in study.students:
        summary = study.summaries.get((student, column))
        is_whole = summary is not None and not study.lacks_seeds(student, column)
        is_sound = is_whole and not study.suspicions.get((student, judged))
        if summary is not None and is_sound and not no_verdict:
            scores[student] = round(summary.mean, 1)
    return _Best(judged, set(scores), max(scores.values(), default=math.nan))


def _score(study: Study, label: str, column: ScoreColumn, best: _Best) -> TableCell:
    """A row's mean over its seeds in a column; what is lost or suspect in its footnotes."""
    if (label, column) not in study.summaries:
        return missing(study, label, column)
    summary = study.summaries[label, column]
    text = summary.text()
    if study.lacks_seeds(label, column):
        text += f" (n = {summary.n})"
    lost = [r for r in study.records_of(label, column.task) if r.status != "ok"]
    footnotes = list(study.suspicions.get((label, best.judged), ()))
    if lost:
        finished = f"{summary.n} of {summary.n + len(lost)} seeds"
        whys = "; ".join(_why_lost(record) for record in lost)
        footnotes.insert(0, f"{label} on {column.shown}: {finished}; {whys}")
    return TableCell(
        text,
        value=summary.mean,
        deviation=summary.deviation,
        n=summary.n,
        keys=keys_of(study.finished(label, column)),
        footnotes=tuple(footnotes),
        bold=label in best.students and round(summary.mean, 1) == best.score,
    )


def _why_lost(record: Record) -> str:
    """``seed 1 failed: out of memory``"""
    why = f": {record.error.message}" if record.error else ""
    return f"seed {record.cell.seed} {record.status}{why}"


def further_columns(study: Study) -> dict[str, Callable[[Study, str], TableCell]]:
    """The columns behind the scores, which depend on no task: title -> the cell of a row."""
    columns: dict[str, Callable[[Study, str], TableCell]] = {
        "Params (M)": lambda study, label: _range(
            study, label, models_differ, lambda size: size.parameters / 1e6
        ),
        "FLOPs (G)": lambda study, label: _range(
            study, label, need_own_lines, lambda size: size.flops / 1e9
        ),
    }
    if study.has_small_files:
        columns[FILE] = lambda study, label: _range(
            study, label, models_differ, lambda size: size.megabytes
        )
    if study.speed.ratios:
        columns[if_busy("speed-up", study)] = _speed_up
    return columns


def _speed_up(study: Study, label: str) -> TableCell:
    """1x for the teacher; a dash for what was not timed."""
    if label == TEACHER:
        return number(1.0, ".2f", "x")
    ratio = study.speed.ratios.get(label)
    if ratio is None:
        return number(None)
    return number(ratio.median, ".2f", "x", low=ratio.low, high=ratio.high)


def _range(
    study: Study,
    label: str,
    differ: Callable[[Sequence[Sizes]], bool],
    count: Callable[[Sizes], float],
) -> TableCell:
    """``1.20 to 2.40`` of models that differ, of others the smallest; one figure where both ends
    are printed alike."""
    sizes = [record.sizes for record in study.records_of(label) if record.sizes]
    if not sizes:
        return TableCell(DASH)
    sizes.sort(key=lambda size: size.parameters)
    counted = sizes if differ(sizes) else sizes[:1]
    low = min(map(count, counted))
    high = max(map(count, counted))
    ends = dict.fromkeys([f"{low:.2f}", f"{high:.2f}"])
    value = low if low == high else None
    return TableCell(" to ".join(ends), value=value, low=low, high=high)


BOLD = (
    "The best student of each column is in bold; a score from fewer seeds is marked (n = …) and "
    "never bold, nor is one with suspect answers (see its footnote), nor a mean that contains such "
    "a score. Bold says nothing of the rows near it."
)
FLOPS = (
    "(fvcore, eager attention); for early-exit rows the average over the exits that the "
    "development set took."
)
SEARCHED = (
    "(best of …): the best of so many trials on a tenth of the training examples, held out; for "
    f"each task on its own ({SEARCHES})."
)
FILE_SIZE = (
    f"{FILE}: of the saved model, 4 bytes for each parameter, fewer in rows with weights of few "
    "bits."
)


def _notes(study: Study) -> list[str]:
    """What the columns and signs of the table mean, of those that it has."""
    notes = _on_scores(study)
    if any(record.cell.search for record in study.records):
        notes.append(SEARCHED)
    if study.has_small_files:
        notes.append(FILE_SIZE)
    beside = [column.title for column in study.printed_columns if column not in study.columns]
    if beside:
        notes.append(f"The mean has one metric of each task: it leaves out {listed(beside)}.")
    if study.left_out_of_means:
        notes.append(left_out_of_means(study))
    if study.speed.ratios:
        notes.append(_on_speed_ups(study))
    if study.baselines:
        constant = "the sources as they are" if study.writes else "a constant prediction"
        notes.append(f"The row '{study.baseline_name}' is the best score of {constant}.")
    return notes


def _on_scores(study: Study) -> list[str]:
    """What scores, their deviations and FLOPs are; nothing where no student has a score."""
    numbers: set[int] = set()
    for label in study.students:
        numbers.update(len(study.values(label, column)) for column in study.columns)
    seeds = sorted(numbers - {0})
    if not seeds:
        return []
    count = f"n = {seeds[0]}" if len(seeds) == 1 else f"n = {seeds[0]} to {seeds[-1]}"
    spread = "the mean ± the sample standard deviation over seeds"
    sequence = "one sequence of 128 tokens"
    if study.writes:
        sequence = "128 tokens read and 128 written"
    return [
        f"Scores on development sets, in percent: {spread} ({count}; one seed has no deviation). "
        f"{_on_bold(study)} FLOPs = 2 x MACs of {sequence} {FLOPS}"
    ]


def _on_bold(study: Study) -> str:
    """What is in bold; or why nothing is."""
    without = [column.name for column in study.columns if study.no_verdict_in([column])]
    if len(without) == len(study.columns):
        return "A score from fewer seeds is marked (n = …)."
    if without:
        return f"{BOLD} Nothing is bold on {listed(without)}: one seed."
    return BOLD


def _on_speed_ups(study: Study) -> str:
    """What a speed-up is, and of which sessions."""
    between = "the interval is of one session, and other sessions differ by more"
    if max(ratio.sessions for ratio in study.speed.ratios.values()) > 1:
        between = "over sessions the geometric mean, and the interval is that of other sessions"
    return (
        "Speed-up: the teacher's time divided by the row's time. Both are timed in turns; the "
        "number is the median over the rounds, with its 95 % interval "
        f"({study.speed.conditions}); {between}. Rows of one architecture have one. A dash: not "
        "timed."
    )
