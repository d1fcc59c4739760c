"""The gate: new records against a baseline's, and an exit code that means something.

Scores are compared with what examples and seeds leave open (:mod:`bench.analysis.gate_scores`),
speed-ups with the teacher of the same session (:mod:`bench.analysis.gate_speeds`). Sizes, FLOPs and
the names of the losses must be equal: a method that lost one of its losses may stay within the
margin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.analysis import gate_in_words as words
from bench.analysis.gate_result import (
    LOSSES,
    MISSING,
    OTHER,
    PASSED,
    REGRESSED,
    ROW,
    SIZE,
    GateResult,
)
from bench.analysis.gate_scores import ComparedRecords, score_change, verdict
from bench.analysis.gate_speeds import compared_speeds
from bench.errors import InputError, known_row
from bench.files import slug
from bench.record.cell import FINISHED, POINTS_IN_8_BITS, PREDICTIONS, TEACHER, Cell, is_one_model
from bench.record.cell_differences import PARTS, comparability_key, differing_parts
from bench.record.code import made_by
from bench.record.known_tasks import recorded_tasks
from bench.record.schema import Record
from bench.record.set_aside import DEPTH, SET_ASIDE
from bench.record.speed_sessions import speed_records
from bench.record.store import KEY_DIGITS, Store
from bench.record.task_facts import (
    recorded_names,
    row_as_typed,
    shown_task,
    shown_tasks,
    task_names,
)

MAY_CHANGE = frozenset({"settings", "tokenizer"})
"""Parts of the question that name the weights of a finished model: they may be other ones."""


@dataclass(frozen=True)
class GateLimits:
    """How much may be lost.

    Attributes:
        points: of a score.
        speed: share of a speed-up.
        budgets: metric -> points, where it is not ``points``.
        level: chance that a whole run without any change is called regressed because of the
            examples that happen to be there.
    """

    points: float = 2.0
    speed: float = 0.1
    budgets: Mapping[str, float] = field(default_factory=dict)
    level: float = 0.002


LIMITS = GateLimits()


@dataclass(frozen=True)
class Scope:
    """The part of a baseline that is compared.

    Attributes:
        data: the folder of one data set; None for all.
        tasks, rows, seeds: those that were named; none for all.
    """

    data: str | None
    tasks: Sequence[str]
    rows: Sequence[str]
    seeds: Sequence[int]

    def has(self, record: Record) -> bool:
        """Whether a record of the baseline is one of the tasks and rows."""
        if self.tasks and task_names(record.cell).isdisjoint(self.tasks):
            return False
        if not self.rows or record.row in self.rows:
            return True
        # a label names all its operating points, but 8 bits are a row of their own
        if record.point in POINTS_IN_8_BITS:
            return False
        return record.cell.method == TEACHER or record.cell.label in self.rows

    def has_seed(self, cell: Cell) -> bool:
        """Whether the seed of a cell is compared: of one model, always."""
        return not self.seeds or cell.seed in self.seeds or is_one_model(cell)


def check(
    baseline: Path,
    results: Path,
    tasks: Sequence[str] = (),
    rows: Sequence[str] = (),
    seeds: Sequence[int] = (),
    limits: GateLimits = LIMITS,
) -> list[GateResult]:
    """Compare every row of a baseline (of the tasks and rows named, if any are) with what was
    measured on those seeds.

    A named row that the baseline has on none of these tasks is *nothing measured*.

    Args:
        baseline: a folder of records, or the folder of one data set in it; that has no speeds.

    Raises:
        InputError: the baseline has no record, or none of those named.
    """
    # the records of the baseline
    is_of_one_data_set = any(baseline.glob("*/*/*/current"))
    root = baseline.parent if is_of_one_data_set else baseline
    data = baseline.name if is_of_one_data_set else None
    old_store = Store(root)
    new_store = Store(results)
    recorded = [r for r in old_store.records() if data in (None, slug(r.cell.data.slug))]

    # a row or task that nobody has would be left out without a word
    if recorded:
        rows = _known_rows(rows, recorded, baseline)
        tasks = recorded_tasks(tasks, recorded_names(r.cell for r in recorded), baseline)
    scope = Scope(data, tasks, rows, seeds)
    olds = _compared_records(recorded, scope)
    old_sessions = [] if is_of_one_data_set else list(speed_records(root, old_store.note))
    if not olds and not old_sessions:
        why = words.nothing_in_baseline(tasks, {shown_tasks(r.cell) for r in recorded})
        raise InputError(f"--baseline {baseline} has {why}")

    # all seeds of a row on a task are one comparison of each score; by Bonferroni the level is
    # that of the whole run
    news = {record.key: record for record in new_store.records()}
    by_row = _by_row(olds)
    scores = sum(len(of_row[0].scores) for of_row in by_row)
    of_each = replace(limits, level=limits.level / max(1, scores))
    findings: list[GateResult] = []
    for of_row in by_row:
        findings += _compared_row(of_row, news, scope, old_store, new_store, of_each)

    # records of the baseline that cannot be read
    findings += _set_aside(old_store, recorded, scope)

    # speed-ups
    if old_sessions:
        new_sessions = list(speed_records(results, new_store.note))
        systems = _systems(olds, rows)
        findings += compared_speeds(old_sessions, new_sessions, systems, limits.speed)

    # rows that were named and not compared
    return findings + _never_met(findings, olds, scope)


def _known_rows(rows: Sequence[str], recorded: Sequence[Record], baseline: Path) -> list[str]:
    """Rows as records name them.

    Raises:
        InputError: a row that no record has.
    """
    known = {name for record in recorded for name in (record.cell.label, record.row)}
    names: list[str] = []
    for row in rows:
        kind, _, folder = row.partition(":")
        # a finished row is typed as a folder, and called by its last part
        if kind in FINISHED and row not in known:
            row = f"{kind}:{Path(folder).name}"
        names.append(known_row(row, known, baseline))
    return names


def _compared_records(recorded: Sequence[Record], scope: Scope) -> list[Record]:
    """The finished records of a baseline that are compared: of teachers that were not named, only
    those that the named rows learned from."""
    within = [record for record in recorded if record.status == "ok" and scope.has(record)]
    teachers = [record.cell.teacher for record in within if record.cell.method != TEACHER]
    if not scope.rows or not teachers:
        return within
    compared: list[Record] = []
    for record in within:
        is_named = record.cell.method != TEACHER or record.row in scope.rows
        if is_named or record.cell.teacher in teachers:
            compared.append(record)
    return compared


def _by_row(records: Sequence[Record]) -> list[list[Record]]:
    """The records of each row on each task, in the order of their seeds; teachers come first on a
    task."""
    rows: dict[tuple[object, ...], list[Record]] = {}
    for record in sorted(records, key=lambda record: record.cell.seed):
        cell = record.cell
        is_student = cell.method != TEACHER
        row = (cell.tasks, is_student, cell.label, record.point, comparability_key(cell))
        rows.setdefault(row, []).append(record)
    return [rows[row] for row in sorted(rows, key=str)]


def _compared_row(
    olds: Sequence[Record],
    news: Mapping[str, Record],
    scope: Scope,
    old_store: Store,
    new_store: Store,
    limits: GateLimits,
) -> list[GateResult]:
    """One row on one task: the seeds that cannot be compared, and what was measured of the others.

    Args:
        olds: all seeds of the baseline: they tell its noise, also where only some are compared.
        news: key -> record.
        limits: with the level of each score.
    """
    first = olds[0]
    subject = f"{shown_tasks(first.cell)} {first.row}"

    # each seed with its new record
    compared: list[ComparedRecords] = []
    missing: list[Record] = []
    for old in olds:
        if scope.has_seed(old.cell):
            new = _new_record(old, news)
            if new is None:
                missing.append(old)
            else:
                compared.append(ComparedRecords(old, new))
    reasons = [new_store.set_aside_reason(old.cell) for old in missing]
    reasons = list(filter(None, reasons))
    if not compared:
        return [_nothing_compared(subject, first, news, reasons)]

    # seeds that only one side has
    findings: list[GateResult] = []
    if missing:
        why = words.no_record_of_seeds(missing, reasons)
        findings.append(GateResult(subject, ROW, MISSING, why))
    absent = set(scope.seeds).difference(old.cell.seed for old in olds)
    if absent and not is_one_model(first.cell):
        findings.append(GateResult(subject, ROW, MISSING, words.no_such_seeds(absent)))

    # trainings that failed
    usable = [pair for pair in compared if pair.new.status == "ok"]
    for pair in compared:
        if pair.new.status != "ok":
            findings.append(GateResult(subject, ROW, REGRESSED, words.failed(pair.new)))

    # sizes and losses are the same in all seeds
    if usable:
        findings += _sizes(subject, usable[0])
        findings += _losses(subject, usable[0])
        findings += _scores(subject, olds, usable, old_store, new_store, limits)
    return findings


def _new_record(old: Record, news: Mapping[str, Record]) -> Record | None:
    """The new record of the same question; None where there is none.

    Other weights of a finished model, or other predictions, under its name are what is compared.
    """
    if old.key in news:
        return news[old.key]
    if old.cell.method not in FINISHED:
        return None
    parts = PARTS.keys() - MAY_CHANGE
    found = [
        new
        for new in news.values()
        if _place(new) == _place(old)
        and new.cell.seed == old.cell.seed
        and not differing_parts(new.cell, old.cell, parts)
    ]
    return max(found, key=lambda new: new.finished, default=None)


def _place(record: Record) -> tuple[tuple[str, ...], str, str]:
    """Task, row and operating point."""
    return record.cell.tasks, record.cell.label, record.point


def _nothing_compared(
    subject: str, old: Record, news: Mapping[str, Record], reasons: Sequence[str]
) -> GateResult:
    """Why a row is not compared on any seed.

    Args:
        reasons: why new records of it were set aside.
    """
    near = next((new for new in news.values() if _place(new) == _place(old)), None)
    if near is not None:
        parts = differing_parts(old.cell, near.cell)
        if parts:
            return GateResult(subject, ROW, OTHER, words.other_question(parts))
    why = words.no_record(reasons, has_other_seeds=near is not None)
    return GateResult(subject, ROW, MISSING, why)


def _sizes(subject: str, pair: ComparedRecords) -> list[GateResult]:
    """Whether parameters and MACs are as before; predictions have no model."""
    before = pair.old.sizes
    after = pair.new.sizes
    if before is None or after is None:
        if pair.old.cell.method == PREDICTIONS:
            return []
        return [GateResult(subject, SIZE, MISSING, words.NO_SIZES)]
    if (before.parameters, before.macs) == (after.parameters, after.macs):
        return [GateResult(subject, SIZE, PASSED, words.same_sizes(after))]
    return [GateResult(subject, SIZE, REGRESSED, words.other_sizes(before, after))]


def _losses(subject: str, pair: ComparedRecords) -> list[GateResult]:
    """The losses that only one of two records has; nothing where both have the same."""
    before = _names_of_losses(pair.old)
    after = _names_of_losses(pair.new)
    if before == after:
        return []
    why = words.other_losses(gone=before - after, new=after - before)
    return [GateResult(subject, LOSSES, REGRESSED, why)]


def _names_of_losses(record: Record) -> set[str]:
    return {f"{stage}.{term}" for stage, terms in record.terms.items() for term in terms}


def _scores(
    subject: str,
    olds: Sequence[Record],
    compared: Sequence[ComparedRecords],
    old_store: Store,
    new_store: Store,
    limits: GateLimits,
) -> list[GateResult]:
    """The first metric of each evaluation set, by the mean over the seeds that are compared.

    Args:
        olds: all seeds of the baseline.
    """
    is_identical = all(pair.is_identical for pair in compared)
    other_code = made_by(pair.new for pair in compared)
    findings: list[GateResult] = []
    for evaluation, scores in olds[0].scores.items():
        metric = next(iter(scores))
        if is_identical:
            ended = PASSED
            why = words.same_weights(len(compared))
        else:
            change = score_change(olds, compared, old_store, new_store, evaluation, metric)
            margin = limits.budgets.get(metric, limits.points)
            is_certain = change.p <= limits.level
            ended = verdict(change.difference, change.half, margin, is_certain)
            why = words.changed_score(change)
        if other_code:
            why += f"; {other_code}"
        findings.append(GateResult(subject, f"{evaluation} {metric}", ended, why))
    return findings


def _set_aside(store: Store, recorded: Sequence[Record], scope: Scope) -> list[GateResult]:
    """The records of a baseline that cannot be used, of the tasks and rows named.

    Args:
        recorded: those that can.
    """
    kept = {record.key[:KEY_DIGITS] for record in recorded}
    tasks = {slug(task) for task in scope.tasks}
    findings: list[GateResult] = []
    for note in store.notes:
        parts = note.path.relative_to(store.root).parts
        if note.kind != SET_ASIDE or len(parts) != DEPTH:
            continue
        data, task, method_and_dropped, key, _ = parts
        if scope.data not in (None, data) or key in kept:
            continue
        # the row is known by its method alone
        method = method_and_dropped.partition("-no-")[0]
        has_row = any(slug(row).startswith(method) for row in scope.rows)
        if scope.rows and method != TEACHER and not has_row:
            continue
        shown = shown_task(task, data)
        if tasks and tasks.isdisjoint((task, shown)):
            continue
        why = words.baseline_set_aside(key, note.why)
        findings.append(GateResult(f"{shown} {method_and_dropped}", ROW, MISSING, why))
    return findings


def _systems(records: Sequence[Record], rows: Sequence[str]) -> set[str]:
    """The systems of a timing that are compared; none where all are."""
    if not rows:
        return set()
    systems = set(rows)
    for record in records:
        # sessions name rows as they are typed: without (fast kernels), and in 8 bits without +int8
        system = row_as_typed(record.cell)
        if record.point and record.point not in POINTS_IN_8_BITS:
            system += f" at {record.point}"
        systems.add(system)
    return systems


def _never_met(
    findings: Sequence[GateResult], olds: Sequence[Record], scope: Scope
) -> list[GateResult]:
    """The rows that were named, of which the baseline has neither a record nor a speed."""
    met = {finding.subject for finding in findings}
    met |= {record.cell.label for record in olds}
    met |= {record.row for record in olds}
    why = words.not_in_baseline(scope.tasks)
    return [
        GateResult(row, ROW, MISSING, why) for row in dict.fromkeys(scope.rows) if row not in met
    ]
