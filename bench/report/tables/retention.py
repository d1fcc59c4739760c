"""The table of retention: each student's score in percent of its teacher's, with its verdict."""

from __future__ import annotations

from collections.abc import Sequence

from bench.report.paired_rows import BORDERLINE, TOO_FEW_SEEDS
from bench.report.retained_scores import INCONCLUSIVE, columns_without_ratio, scored_by_teacher
from bench.report.study import Study
from bench.report.table import INTERVAL, JUDGED, Column, Line, Table
from bench.report.tables.parts import left_out_of_means, line_of, listed, sources_of_variance

KEPT_OF_THE_TEACHER = "retention"
"""The name of the table's files."""
RATIO = (
    "The student's score in percent of its own teacher's, with the 95 % interval of a paired "
    "bootstrap."
)
MEAN = (
    "The mean retention is the mean of the columns', without a verdict. Rows that need at least as "
    "many FLOPs as their teacher are no compressed models, and not here."
)


def retentions(study: Study) -> Table | None:
    """A cell for each student and column, with its interval; behind them their mean."""
    if not study.retained:
        return None
    lines = []
    for label in study.rows:
        if label not in study.retained:
            continue
        row = study.retained[label]
        lines.append(line_of(study, label, [*row.scores.values(), row.mean]))
    note = f"{RATIO} {_on_verdicts(study, lines)} {MEAN}"
    if any(cell.verdict == TOO_FEW_SEEDS for line in lines for cell in line.cells):
        note += f" {TOO_FEW_SEEDS.capitalize()}: the row's seeds end in results of several kinds."
    note += _left_out(study)
    columns = [Column("System")]
    columns += [Column(column.title, csv=JUDGED) for column in scored_by_teacher(study)]
    columns.append(Column("mean retention", csv=INTERVAL))
    notes = (note, *sources_of_variance(study))
    return Table("Retention", columns, lines, notes, KEPT_OF_THE_TEACHER)


def _left_out(study: Study) -> str:
    """Sentences that name the columns that no mean of the table has."""
    text = ""
    names = [column.name for column in columns_without_ratio(study)]
    if names:
        have = "has" if len(names) == 1 else "have"
        text += f" All means of this table leave out {listed(names)}, which {have} no ratio."
    if study.left_out_of_means:
        text += f" {left_out_of_means(study)}"
    return text


def _on_verdicts(study: Study, lines: Sequence[Line]) -> str:
    """What the verdicts of these lines mean; or why they have none."""
    has_verdicts = any(cell.verdict for line in lines for cell in line.cells)
    if study.no_verdict and not has_verdicts:
        return study.no_verdict
    margin = f"{100 * study.kept:g} %"
    return (
        f"keeps: the whole interval, before rounding, is above {margin}. loses: the whole interval "
        f"is below. {INCONCLUSIVE}: the interval contains {margin}, so these examples and seeds do "
        f"not decide. {BORDERLINE}: other resamples may end otherwise. No verdict: the teacher is "
        "not shown to be better than one answer to everything, or suspect answers would keep it; "
        "or the data are generated, or there is one seed."
    )
