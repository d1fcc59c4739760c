"""Which rows of a study are compared with which, and how each comparison ended. No torch.

Every system is compared with the reference: plain fine-tuning where there is such a row, else the
teacher. An ablation is compared with its full row, a row of changed settings with the plain one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations

from bench.record.cell import TEACHER
from bench.record.stated import stated
from bench.record.task_facts import row_as_typed
from bench.report.paired_rows import Comparison, Pair, RowDifference, compared, judged, sides_of
from bench.report.score_column import ScoreColumn
from bench.report.study import Study

EACH_WITH_EACH = 3
"""Systems of which each is compared with each; of more, one is compared with the others."""


def reference_of(study: Study) -> str:
    """The row that full rows are compared with: the study's own reference, where it has that row.

    Else it is one whose method says that it is to be compared with, as it is without settings
    (plain fine-tuning with the shared start), or the only one with settings; else the teacher;
    where no teacher is scored, the first of several such rows.
    """
    if study.reference in study.systems:
        return study.reference
    baselines = []
    for label in study.students:
        record = study.records_of(label)[0]
        if stated(record.cell.method, "baseline") and not record.point:
            baselines.append(label)
    cells = {label: study.records_of(label)[0].cell for label in baselines}
    for label, cell in cells.items():
        if row_as_typed(cell) == cell.method:
            return label
    if len(baselines) == 1 and not cells[baselines[0]].settings.get("encoder"):
        return baselines[0]
    if TEACHER in study.systems or not baselines:
        return TEACHER
    return baselines[0]


def own_row(study: Study, label: str) -> str:
    """The row that a variant belongs to: an ablation's full row, or a method's plain row for one
    with changed settings.

    "" for a system of its own.
    """
    cell = study.records_of(label)[0].cell
    # tuned as a whole, it shares nothing with the method's plain row
    if cell.settings.get("encoder"):
        return ""
    if cell.ablation_of:
        return cell.ablation_of
    has_plain_row = cell.label != cell.method and cell.method in study.systems
    return cell.method if has_plain_row else ""


def systems_but_reference(study: Study) -> list[str]:
    """The students that are systems of their own, without the reference, in the order of rows."""
    left_out = (TEACHER, reference_of(study))
    return [row for row in study.rows if row not in left_out and not own_row(study, row)]


def differences_to_reference(study: Study, has_variants: bool) -> list[RowDifference]:
    """The rows compared with the reference; none where no predictions are stored.

    Args:
        has_variants: whether variants and ablations are among the rows.
    """
    reference = reference_of(study)
    if reference not in study.systems:
        return []
    labels = systems_but_reference(study)
    if has_variants:
        labels = [label for label in study.rows if label not in (TEACHER, reference)]
    return row_differences(study, [(label, reference) for label in labels])


def differences_of_variants(study: Study) -> list[RowDifference]:
    """Variants and ablations compared with their own rows; none where no predictions are stored."""
    rows = []
    for label in study.rows:
        full = own_row(study, label)
        if full in study.systems:
            rows.append((label, full))
    return row_differences(study, rows)


def differences_between_systems(study: Study) -> list[RowDifference]:
    """The systems that were asked for together, besides the reference: each with each, or the one
    of the highest mean with the others where they are many.

    Those that were typed were asked for; of a report without an order of rows all, where they are
    few.
    """
    systems = systems_but_reference(study)
    together = [label for label in study.order if label in systems]
    if not study.order and len(systems) <= EACH_WITH_EACH:
        together = systems
    if len(together) <= EACH_WITH_EACH:
        return row_differences(study, combinations(together, 2))

    # without verdicts nothing leads: the first one that was typed
    leaders = [row for row in together if row in study.complete and not study.is_suspect(row)]
    leader = together[0]
    if leaders and not study.no_verdict:
        leader = max(leaders, key=lambda row: study.mean_scores[row])
    return row_differences(study, [(leader, row) for row in together if row != leader])


def row_differences(study: Study, rows: Iterable[tuple[str, str]]) -> list[RowDifference]:
    """Pairs of rows compared, of those that have stored predictions in some column.

    Args:
        rows: pairs; the second one of each is subtracted.
    """
    differences = [_row_difference(study, row, other) for row, other in rows]
    return [difference for difference in differences if difference is not None]


def _row_difference(study: Study, row: str, other: str) -> RowDifference | None:
    """A row compared with another one; None where no column has the predictions of both."""
    pairs: dict[ScoreColumn, Pair] = {}
    lines: dict[ScoreColumn, Comparison] = {}
    keys: dict[ScoreColumn, tuple[str, ...]] = {}
    for column, data in study.answers.items():
        first = study.finished(row, column)
        second = study.finished(other, column)
        if not data.has(first) or not data.has(second):
            continue
        sides = sides_of(first, second)
        pairs[column] = (data, sides)
        has_seeds_apart = study.has_seeds_apart((row, other), [column])
        lines[column] = replace(compared(data, sides), has_seeds_apart=has_seeds_apart)
        keys[column] = tuple(record.key for record in (*first, *second))
    if not lines:
        return None

    # the mean, where there is one, is behind the columns
    in_mean = _pairs_of_mean(pairs, study.averaged)
    family = judged(list(lines.values()), in_mean)
    mean = family.pop() if in_mean else None
    return RowDifference(row, other, dict(zip(lines, family, strict=True)), keys, mean)


def _pairs_of_mean(
    pairs: dict[ScoreColumn, Pair], averaged: Sequence[ScoreColumn]
) -> dict[int, Pair]:
    """Number of a column -> its pair, of the columns of the mean; none where one of them is missing
    or there is one alone."""
    if len(averaged) < 2 or not all(column in pairs for column in averaged):
        return {}
    numbered = enumerate(pairs.items())
    return {number: pair for number, (column, pair) in numbered if column in averaged}
