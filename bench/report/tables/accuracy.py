"""The main table: each row's score in each column, their mean, and its size; with what one answer to everything scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from bench.record.cell import LINEAR_IN_8_BITS, LINEAR_ONLY, TEACHER
from bench.record.schema import Sizes
from bench.record.stated import stated
from bench.report.score_column import ScoreColumn
from bench.report.study import Study
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
    """One column an evaluation set, their mean, and the size of each system; the best student of a column in bold."""
    has_mean = len(study.columns) > 1  # one column is its own mean
    further = further_columns(study)
    sound = set(study.sound)
    best = max((round(study.mean_scores[s], 1) for s in sound), default=math.nan)
    best_of = {column: _best_of(study, column) for column in study.printed_columns}
    lines = []
    for label in study.systems:
        cells = [_score(study, label, column, best_of[column]) for column in study.printed_columns]
        if has_mean:
            is_best = label in sound and round(study.mean_scores[label], 1) == best
            cells.append(number(study.mean_scores.get(label), bold=is_best))
        cells += [cell(study, label) for cell in further.values()]
        records = study.records_of(label)
        remark = stated(records[0].cell.method, "remark")
        notes = [remark] if remark else []
        # searches have a table of their own
        told = {record.cell.search.describe() for record in records if record.cell.search}
        own = dict.fromkeys(note for record in records for note in record.notes if note not in told)
        if any(record.point == LINEAR_IN_8_BITS for record in records):
            # of all such rows one footnote
            notes.append(f"{LINEAR_ONLY}; embeddings are in fp32. `run` makes the row anew")
        notes += [text for note in own for text in f"{label}: {note}".splitlines()]
        lines.append(line_of(study, label, cells, *notes))
    if study.baselines:  # behind the teacher, which is the first line where there is one
        cells = [number(study.baselines.get(column)) for column in study.printed_columns]
        cells += [number(study.majority)] if has_mean else []
        cells += [TableCell("")] * len(further)
        lines.insert(
            1 if study.systems[:1] == [TEACHER] else 0, Line(study.baseline_name, cells, row="")
        )
    columns = [Column("System")]
    columns += [
        Column(c.title, csv=SPREAD, beside=c not in study.columns) for c in study.printed_columns
    ]
    columns += [Column(f"mean of {len(study.averaged)}")] if has_mean else []
    columns += [Column(title, csv=INTERVAL) for title in further]
    return Table("Results", columns, lines, _notes(study), file=ACCURACY, width=WIDTH)


@dataclass(frozen=True)
class _Best:
    """The highest score of a column as it is printed, and the students that it is the highest of.

    Attributes:
        judged: the column by whose metric the answers were judged: the first one of the same examples.
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
    fewer = study.lacks_seeds(label, column)
    notes = list(study.suspicions.get((label, best.judged), ()))
    if lost := [r for r in study.records_of(label, column.task) if r.status != "ok"]:
        whys = (
            f"seed {r.cell.seed} {r.status}" + (f": {r.error.message}" if r.error else "")
            for r in lost
        )
        notes.insert(
            0,
            f"{label} on {column.shown}: {summary.n} of {summary.n + len(lost)} seeds; {'; '.join(whys)}",
        )
    is_best = round(summary.mean, 1) == best.score
    return TableCell(
        summary.text() + (f" (n = {summary.n})" if fewer else ""),
        value=summary.mean,
        deviation=summary.deviation,
        n=summary.n,
        keys=keys_of(study.finished(label, column)),
        footnotes=tuple(notes),
        bold=label in best.students and is_best,
    )


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
    """``1.20 to 2.40`` of models that differ, of others the smallest; one figure where both ends are printed alike."""
    sizes = sorted(
        (r.sizes for r in study.records_of(label) if r.sizes), key=lambda s: s.parameters
    )
    if not sizes:
        return TableCell(DASH)
    counts = list(map(count, sizes if differ(sizes) else sizes[:1]))
    low, high = min(counts), max(counts)
    text = " to ".join(dict.fromkeys(f"{end:.2f}" for end in (low, high)))
    return TableCell(text, value=low if low == high else None, low=low, high=high)


def _on_bold(study: Study) -> str:
    """What is in bold; or why nothing is."""
    if all(study.no_verdict_in([column]) for column in study.columns):
        return "A score from fewer seeds is marked (n = …)."
    text = (
        "The best student of each column is in bold; a score from fewer seeds is marked (n = …) and never bold, nor is one "
        "with suspect answers (see its footnote), nor a mean that contains such a score. Bold says nothing of the rows near it."
    )
    without = [column.name for column in study.columns if study.no_verdict_in([column])]
    return f"{text} Nothing is bold on {listed(without)}: one seed." if without else text


def _notes(study: Study) -> list[str]:
    seeds = sorted({len(study.values(s, c)) for s in study.students for c in study.columns} - {0})
    notes = []
    if seeds:
        count = f"n = {seeds[0]}" if len(seeds) == 1 else f"n = {seeds[0]} to {seeds[-1]}"
        notes.append(
            f"Scores on development sets, in percent: the mean ± the sample standard deviation over seeds ({count}; one seed has no "
            f"deviation). {_on_bold(study)} "
            f"FLOPs = 2 x MACs of {'128 tokens read and 128 written' if study.writes else 'one sequence of 128 tokens'} (fvcore, eager "
            "attention); for early-exit rows the average over the exits that the development set took."
        )
    if any(record.cell.search for record in study.records):
        notes.append(
            f"(best of …): the best of so many trials on a tenth of the training examples, held out; for each task on its own ({SEARCHES})."
        )
    if study.has_small_files:
        notes.append(
            f"{FILE}: of the saved model, 4 bytes for each parameter, fewer in rows with weights of few bits."
        )
    if beside := [column.title for column in study.printed_columns if column not in study.columns]:
        notes.append(f"The mean has one metric of each task: it leaves out {listed(beside)}.")
    if study.left_out_of_means:
        notes.append(left_out_of_means(study))
    if study.speed.ratios:
        several = max(own.sessions for own in study.speed.ratios.values()) > 1
        between = (
            "over sessions the geometric mean, and the interval is that of other sessions"
            if several
            else "the interval is of one session, and other sessions differ by more"
        )
        notes.append(
            "Speed-up: the teacher's time divided by the row's time. Both are timed in turns; the number is the median over the "
            f"rounds, with its 95 % interval ({study.speed.conditions}); {between}. Rows of one architecture have one. A dash: not timed."
        )
    what = "the sources as they are" if study.writes else "a constant prediction"
    return notes + (
        [f"The row '{study.baseline_name}' is the best score of {what}."] if study.baselines else []
    )
