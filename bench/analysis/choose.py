"""The best row within limits: what fits, which limit binds, and how surely it is the best.

:func:`choose` finds the tables and answers for each: :func:`choice_of` judges its rows
(:mod:`bench.analysis.candidates`) by the limits (:mod:`bench.analysis.limits`), compares those that
fit with the best of them, and says what the limits leave out.
:mod:`bench.analysis.choice_in_words` prints the answers.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

from bench.analysis.candidates import Candidate, Evidence, Judged, evidence_of, judged_row
from bench.analysis.limits import (
    LATENCY,
    LIMITS,
    OF_FEWER_BITS,
    RETAINED,
    checked_limits,
    stated,
)
from bench.errors import NothingMeasured
from bench.record.cell import CHECKPOINT, FINISHED, ONNX_INT8, PLUS_INT8, POINTS_IN_8_BITS
from bench.record.known_tasks import recorded_tasks
from bench.record.rescored import scored_alike, scored_first_by
from bench.record.schema import Record
from bench.record.speed_sessions import speed_records
from bench.record.store import Store, nothing_in
from bench.record.task_facts import OWN, data_facts, recorded_names
from bench.report.means import within_margin
from bench.report.paired_rows import TOO_FEW_SEEDS, error_of_p, verdict_of
from bench.report.resampled import rng_for
from bench.report.score_column import ScoreColumn
from bench.report.studies import Folder, Reads, groups, study_of
from bench.report.study import Study
from bench.request import Request
from bench.request.recorded import Recorded
from bench.stats.own_metrics import named_metrics

EXACT = 9
"""Decimals of a score that tell two rows apart."""


@dataclass(frozen=True)
class BoundLimit:
    """A limit that alone leaves out a row, which scores more than all that fits.

    Attributes:
        name: of :data:`LIMITS`.
        option, unit: how it is typed, and the unit of ``needs``.
        row: the row that it leaves out.
        needs: the limit that would let the row in.
        gain: what the row scores more than the chosen one, in points; None where nothing fits.
        low, high: the 95 % interval of the gain.
    """

    name: str
    option: str
    unit: str
    row: str
    needs: float
    gain: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def is_gain(self) -> bool:
        """Whether the row is shown to score more."""
        return self.low is not None and self.low > 0


@dataclass(frozen=True)
class Choice:
    """The answer for one table of records.

    Attributes:
        group, columns: the table, and its columns that the mean is of.
        limits: name of :data:`LIMITS` -> its value; those that were set.
        candidates: what fits, the best first.
        reasons: why the chosen row is chosen, in words; empty where nothing fits.
        near: the best candidate and those that are shown to be within the margin of it, the
            cheapest first; none without verdicts.
        all_rows: every row with a score in all columns, whether it fits or not.
        left_out: row -> why it is no candidate.
        bound: the limits that alone leave out a better row: for each the nearest row, and behind
            it the best one where that is another.
        export: commands that export the chosen row, one a task: of its seeds the best there.
        no_verdict: why no row is tested or called the best; "" where one is.
    """

    group: Study
    columns: tuple[ScoreColumn, ...]
    limits: Mapping[str, float]
    candidates: tuple[Candidate, ...]
    reasons: tuple[str, ...]
    near: tuple[Candidate, ...]
    all_rows: tuple[Candidate, ...]
    left_out: Mapping[str, str]
    bound: tuple[BoundLimit, ...]
    export: tuple[str, ...]
    no_verdict: str = ""

    @property
    def chosen(self) -> Candidate | None:
        """The row with the highest mean of what fits."""
        return self.candidates[0] if self.candidates else None

    @property
    def cheapest(self) -> Candidate | None:
        """The cheapest row of the chosen one and those that are shown to be near it; None without
        verdicts."""
        return self.near[0] if self.near else None

    @property
    def busy_cores(self) -> float:
        """Cores that other processes used while latencies were measured; 0 on an idle machine."""
        return self.group.speed.busy_cores


def choose(
    results: Path,
    budget: Mapping[str, float | None],
    tasks: Sequence[str] = (),
    backend: str = "",
    threads: int = 0,
    metric: str | Sequence[str] = (),
) -> list[Choice]:
    """A choice for each table that has all the tasks (none named: its columns but those of noise).

    Args:
        budget: values of :data:`LIMITS` by their names; without one, or None: no limit.
        backend, threads: of the latencies; by default those that a session measured first.
        metric: that scores the tasks: its name, or ``MODULE:NAME`` of one in a file of the user's.
            Of several it is the first one that suits a task. By default it is that of each task.

    Raises:
        InputError: no such limit, a limit out of its range, or no such task: neither in the
            records nor in GLUE. Also: a metric that does not suit a task.
        NothingMeasured: no table has all of them.
    """
    # the records, scored by one metric first, and the sessions of timing
    limits = checked_limits(budget)
    metrics = named_metrics(metric)
    store = Store(results)
    sessions = list(speed_records(store.root, store.note))
    records = scored_alike(store.records(), store)
    if not records:
        raise NothingMeasured(nothing_in(store.root))
    recorded = recorded_names(record.cell for record in records)
    tasks = recorded_tasks(tasks, recorded, results)
    records = scored_first_by(records, metrics, store, tasks)

    # a choice for each table that has all the tasks
    choices: list[Choice] = []
    folder = Folder(store, records, sessions)
    # a mean over what nobody named leaves out the columns that a report's does
    reads = Reads.NOTHING if tasks else Reads.TEACHER
    for group in groups(records):
        study = study_of(group, folder, reads=reads, backend=backend, threads=threads)
        columns = _columns_of(study, tasks)
        if columns:
            choices.append(choice_of(study, columns, limits, store))
    if not choices:
        wanted = f" with {', '.join(tasks)}" if tasks else ""
        raise NothingMeasured(
            f"no table of records{wanted} in {results}; `report` shows what there is"
        )
    return choices


def _columns_of(group: Study, tasks: Sequence[str]) -> list[ScoreColumn]:
    """The columns that a mean is of: those of the tasks, or all where none is named; none where the
    table lacks one of the tasks."""
    if not tasks:
        return list(group.averaged)
    columns = [column for column in group.averaged if {column.task, column.shown} & set(tasks)]
    met = {column.task for column in columns} | {column.shown for column in columns}
    return columns if met.issuperset(tasks) else []


def choice_of(
    group: Study, columns: Sequence[ScoreColumn], limits: Mapping[str, float], store: Store
) -> Choice:
    """The choice among the rows of one table, whose latencies are known."""
    # each row with its costs, and with what speaks against it
    evidence = evidence_of(group, columns, store)
    judged = [judged_row(evidence, label, limits) for label in _typed_rows(group)]

    # those that fit, the best first; of equal ones the fp32 row, whose name is the shorter one.
    # Means of equal predictions may differ in their last digits
    fitting = [_standing_in(each.row, judged) for each in judged if each.row and each.fits]
    fitting.sort(key=lambda row: (-round(row.score, EXACT), row.label))

    # how surely the best is the best, and what is shown to be near it
    candidates = _compared_with_best(evidence, fitting)
    no_verdict = group.no_verdict_in(columns)
    if no_verdict:
        candidates = [
            replace(row, probability=None, p=None, verdict="", is_within=False)
            for row in candidates
        ]
    near = [row for row in candidates if row.is_within]
    export = _exports(group, columns, candidates[0].label, store) if candidates else []
    return Choice(
        group=group,
        columns=tuple(columns),
        limits=MappingProxyType(dict(limits)),
        candidates=tuple(candidates),
        reasons=_reasons(candidates, judged),
        near=tuple(sorted(near, key=cheapness)),
        all_rows=tuple(each.row for each in judged if each.row is not None),
        left_out=MappingProxyType(_left_out(evidence, judged, candidates)),
        bound=tuple(_bound_limits(evidence, candidates, judged, limits)),
        export=tuple(export),
        no_verdict=no_verdict,
    )


def _typed_rows(group: Study) -> list[str]:
    """The rows but those that ``:ablate`` made; the teacher is one of them."""
    typed = []
    for label in group.systems:
        records = group.records_of(label)
        if not all(record.cell.ablation_of for record in records):
            typed.append(label)
    return typed


def _standing_in(row: Candidate, judged: Sequence[Judged]) -> Candidate:
    """A row in 8 bits that fits, with the fp32 row that only its size or time leaves out."""
    full = row.label.removesuffix(PLUS_INT8)
    if full == row.label:
        return row
    for each in judged:
        if each.label == full and each.over and OF_FEWER_BITS.issuperset(each.over):
            return replace(row, stands_in_for=full)
    return row


def _left_out(
    evidence: Evidence, judged: Sequence[Judged], candidates: Sequence[Candidate]
) -> dict[str, str]:
    """Row -> why it is no candidate, and which row in 8 bits is in its place."""
    replaced = {row.stands_in_for: row.label for row in candidates if row.stands_in_for}
    left_out = {}
    for each in judged:
        if each.fits:
            continue
        why = each.fault
        if each.row is not None and each.over:
            why = _why_over(evidence, each.row, each.over[0])
        if each.label in replaced:
            why += f"; {evidence.group.called(replaced[each.label])} stands in for it"
        left_out[each.label] = why
    return left_out


def _why_over(evidence: Evidence, row: Candidate, name: str) -> str:
    """Why a limit leaves out a row."""
    cost = row.cost(name)
    if cost is not None:
        return stated(name, cost)
    if name == RETAINED and evidence.unsound:
        return f"the teacher has no sound score on {', '.join(evidence.unsound)}"
    if name == RETAINED:
        return "its retention is not known: answers are not stored"
    return "not timed" if name == LATENCY else f"{name} not measured"


def _compared_with_best(evidence: Evidence, fitting: Sequence[Candidate]) -> list[Candidate]:
    """The rows with their tests against the first one, and their probabilities of being the
    best."""
    if len(fitting) < 2:
        return list(fitting)
    best = fitting[0].label

    # the share of draws in which a row's mean is the highest: the same drawn examples for all
    # rows, and trainings that are each row's own
    drawn_means = []
    for row in fitting:
        mean = evidence.mean(row.label)
        if mean is not None:
            drawn_means.append(mean.draws(rng_for(evidence.columns, "score", row.label)))
    mean_FR = np.stack(drawn_means)
    # equal means share a draw
    first_FR = np.isclose(mean_FR, mean_FR.max(0), rtol=0, atol=1e-9)
    shares = (first_FR / first_FR.sum(0)).mean(1)

    candidates = []
    for row, share in zip(fitting, shares, strict=True):
        row = replace(row, probability=float(share))
        drawn = None if row.label == best else evidence.mean(row.label, best)
        if drawn is not None:
            low, high = drawn.interval()
            p = drawn.p()
            verdict = verdict_of(-1.0, p, p, error_of_p(drawn))
            if evidence.group.has_seeds_apart((row.label, best), evidence.columns):
                verdict = TOO_FEW_SEEDS
            near = within_margin(evidence.group, evidence.columns, drawn, row.label, best)
            row = replace(row, low=low, high=high, p=p, verdict=verdict, is_within=near)
        candidates.append(row)
    return candidates


def cheapness(row: Candidate) -> tuple[float, ...]:
    """The order of rows that are near the best: the cheapest first, in FLOPs, then in parameters,
    then in megabytes.

    Latency is no part of it: models of one shape differ in it by chance.
    """
    sizes = (row.flops, row.parameters, row.megabytes)
    return (*(round(size or np.inf, 2) for size in sizes), -row.score)


def _reasons(candidates: Sequence[Candidate], judged: Sequence[Judged]) -> tuple[str, ...]:
    """Why the first candidate is chosen."""
    if not candidates:
        return ()
    best = candidates[0]
    several = f"the highest mean of {len(candidates)} rows that fit"
    reasons = [several if len(candidates) > 1 else "the one row that fits"]
    for each in judged:
        if each.row is None or each.label != best.stands_in_for:
            continue
        needs = []
        for name in each.over:
            cost = each.row.cost(name)
            if cost is not None:
                needs.append(stated(name, cost))
        which = f", which {' and '.join(needs)}" if needs else ""
        reasons.append(f"it stands in for {best.stands_in_for}{which}")
    return tuple(reasons)


def _bound_limits(
    evidence: Evidence,
    candidates: Sequence[Candidate],
    judged: Sequence[Judged],
    limits: Mapping[str, float],
) -> list[BoundLimit]:
    """The limits that alone leave out a row which scores more than all that fits.

    Each limit has its nearest such row, which needs the least more; of equal ones that of the
    higher score. Behind it stands the best such row, if that scores more. Where nothing fits,
    each limit has the nearest row. An fp32 row in whose place its row in 8 bits fits is named
    only if it is shown to score more.
    """
    best = candidates[0] if candidates else None
    replaced = {row.stands_in_for for row in candidates if row.stands_in_for}
    bound = []
    is_judged = not evidence.group.no_verdict_in(evidence.columns)
    for name, limit in limits.items():
        outside = _left_out_by(name, limit, judged, best)
        rows = [_bound_limit(evidence, name, row, best) for row in outside]
        rows = [row for row in rows if row.row not in replaced or (is_judged and row.is_gain)]
        nearest = rows[:1]
        highest = max(rows, key=lambda r: r.gain or 0.0, default=None)
        if best is not None and highest is not None and highest.gain != nearest[0].gain:
            nearest.append(highest)
        bound += nearest
    return bound


def _left_out_by(
    name: str, limit: float, judged: Sequence[Judged], best: Candidate | None
) -> list[Candidate]:
    """The rows that one limit alone leaves out and that score more than the best of what fits, the
    nearest first."""
    outside: list[tuple[float, Candidate]] = []
    for each in judged:
        row = each.row
        cost = row.cost(name) if row is not None else None
        if row is None or cost is None or each.over != (name,) or each.fault:
            continue
        if best is None or round(row.score - best.score, EXACT) > 0:
            outside.append((abs(cost - limit), row))
    outside.sort(key=lambda pair: (pair[0], -pair[1].score, pair[1].label))
    return [row for _, row in outside]


def _bound_limit(
    evidence: Evidence, name: str, row: Candidate, best: Candidate | None
) -> BoundLimit:
    """A limit, with a row that it alone leaves out and what that row would gain."""
    limit = LIMITS[name]
    known = BoundLimit(name, limit.option, limit.unit, row.label, row.cost(name) or 0.0)
    if best is None:
        return known
    known = replace(known, gain=row.score - best.score)
    drawn = evidence.mean(row.label, best.label)
    if drawn is None:
        return known
    low, high = drawn.interval()
    return replace(known, low=low, high=high)


def _exports(group: Study, columns: Sequence[ScoreColumn], label: str, store: Store) -> list[str]:
    """One command for each task that exports the seed of the highest score."""
    # of two sets of a task the first
    first: dict[str, ScoreColumn] = {}
    for column in columns:
        first.setdefault(column.task, column)
    commands = []
    for column in first.values():
        records = group.finished(label, column)
        best = max(records, key=lambda r: r.scores[column.evaluation][column.metric])
        command = _export_command(best, column.task, store)
        if command:
            commands.append(command)
    return commands


def _export_command(record: Record, task: str, store: Store) -> str:
    """The command that exports a record's model.

    A finished checkpoint is a folder already, and has a command in 8 bits alone; predictions have
    none, which is "".
    """
    cell = record.cell
    in_8_bits = record.point in POINTS_IN_8_BITS
    if cell.method in FINISHED and not in_8_bits:
        return ""
    words = ["export", record.key[:16], "--to", f"{cell.method}-{task}"]
    words += ["--results", str(store.root)]
    asked = Request.of(Recorded(cell))
    if data_facts(cell.data.slug).source == OWN:
        words += asked.typed(["tasks"])
    if in_8_bits:
        words += ["--format", ONNX_INT8]
    if cell.method == CHECKPOINT:
        words += ["--from", "FOLDER"]
    words += asked.typed(["data", "teacher"])
    return f"python -m bench {shlex.join(words)}"
