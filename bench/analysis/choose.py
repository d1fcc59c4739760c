"""Which rows a budget admits, which of them is best, and which cheaper ones are not significantly different from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from bench.data.tasks import check_known
from bench.errors import NothingMeasured
from bench.record.cell import TEACHER
from bench.record.speed_sessions import speed_records
from bench.record.store import Store
from bench.report import frame
from bench.report.comparison import NOT_SIGNIFICANT, UNCLEAR, WORSE, drawn_differences, p_in_words
from bench.report.frame import Frame, TableCell
from bench.report.groups import ReportGroup, ScoreColumn, groups
from bench.report.resampled import Resampled, finished, resample
from bench.report.sources import warnings
from bench.report.speed import latest
from bench.report.suspicions import Faults, faults_of, seeds_in_words
from bench.report.tables.parts import DASH, counted, line_of
from bench.report.write import add_speed, nothing_in
from bench.stats.multiple import holm
from bench.stats.paired import bootstrap_p, interval
from bench.stats.power import LEVEL


@dataclass(frozen=True)
class Budget:
    """The most that a model may cost; None: as much as it likes."""

    parameters: float | None = None
    """millions"""
    flops: float | None = None
    """G, of one sequence of 128 tokens"""
    latency: float | None = None
    """ms, median, under the conditions of the speed session"""

    def exceeded(self, candidate: Candidate) -> str:
        """What a row costs too much of; "" where it fits."""
        for name, unit, most in (
            ("parameters", "M parameters", self.parameters),
            ("flops", "G FLOPs", self.flops),
            ("latency", "ms", self.latency),
        ):
            cost = getattr(candidate, name)
            if most is not None and cost is None:
                return "not timed" if name == "latency" else f"{name} not measured"
            if most is not None and cost > most:
                return f"{cost:.2f} {unit}"
        return ""


@dataclass(frozen=True)
class Candidate:
    """A row with all the columns; costs as in :class:`Budget`, of its dearest task; scores in percent."""

    label: str
    parameters: float | None
    flops: float | None
    latency: float | None
    score: float
    low: float = 0.0
    high: float = 0.0
    """95 % interval of its difference to the best"""
    adjusted: float = 1.0
    """p of no difference to the best, after Holm's adjustment over the candidates"""

    @property
    def verdict(self) -> str:
        return WORSE if self.adjusted <= LEVEL else UNCLEAR


@dataclass
class Choice:
    """What one table's rows say."""

    group: ReportGroup
    columns: Sequence[ScoreColumn]
    candidates: list[Candidate]
    """those that fit, best first"""
    left_out: dict[str, str] = field(default_factory=dict)
    """row -> why it is no candidate"""

    @property
    def as_good(self) -> list[Candidate]:
        """The best, and what is not significantly different from it; fewest FLOPs first, then parameters, then the higher score.

        Not by latency: models of one shape differ in it by chance.
        """
        kept = [c for c in self.candidates if c.verdict == UNCLEAR]
        return sorted(kept, key=lambda c: (round(c.flops or np.inf, 2), round(c.parameters or np.inf, 2), -c.score))

    def table(self) -> Frame:
        """The candidates, best first, with their costs and their differences to the best."""
        titles = [
            "System",
            "Params (M)",
            "FLOPs (G)",
            "latency (ms)",
            f"mean of {counted(len(self.columns), 'column')}",
        ]
        titles += ["difference to the best", "p, Holm", "verdict"]
        lines = [line_of(self.group, c.label, self._cells(c)) for c in self.candidates]
        return Frame("Choice", tuple(map(frame.TableColumn, titles)), tuple(lines))

    def _cells(self, c: Candidate) -> list[TableCell]:
        costs = [
            TableCell(DASH) if cost is None else TableCell(f"{cost:.2f}", cost)
            for cost in (c.parameters, c.flops, c.latency)
        ]
        score = TableCell(f"{c.score:.1f}", c.score)
        best = self.candidates[0]
        if c is best:
            return [*costs, score, TableCell(""), TableCell(""), TableCell("best")]
        gap = c.score - best.score
        difference = TableCell(f"{gap:+.1f} ({c.low:+.1f} to {c.high:+.1f})", gap, c.low, c.high)
        return [
            *costs,
            score,
            difference,
            TableCell(p_in_words(c.adjusted), c.adjusted),
            TableCell(NOT_SIGNIFICANT if c.verdict == UNCLEAR else c.verdict),
        ]

    def said(self) -> list[str]:
        """The answer in words."""
        lines = [line.replace("*", "") for line in warnings(self.group) if line]
        if not self.candidates:
            return [*lines, "No row fits."]
        best, cheapest, called = self.candidates[0], self.as_good[0], self.group.called
        lines += [f"Highest mean of what fits: {called(best.label)} ({best.score:.1f})."]
        if cheapest.label != best.label:
            lines.append(
                f"The cheapest row that is not significantly different from it: {called(cheapest.label)} ({cheapest.score:.1f})."
            )
        others = [called(c.label) for c in self.as_good if c.label not in (best.label, cheapest.label)]
        if others:
            too = ", too" if cheapest.label != best.label else ""
            lines.append(f"Not significantly different from it{too}: {', '.join(others)}.")
        if len(self.candidates) > 1:
            lines.append(
                "The best row was chosen on the examples that it is scored on, so its score is a little too high."
            )
        return lines


def choose(results: Path, budget: Budget, tasks: Sequence[str] = ()) -> list[Choice]:
    """A choice for each table of the records that has all the tasks (none: whatever it has).

    Raises:
        InputError: there is no such task: neither in the records nor in GLUE.
        NothingMeasured: no table has all of them.
    """
    store = Store(results)
    sessions, made = list(speed_records(store.root, store.note)), []
    for group in groups(store.records(), store.freshness):
        columns = [c for c in group.columns if not tasks or c.task in tasks]
        if columns and set(tasks) <= {c.task for c in columns}:
            add_speed(group, latest(sessions, group.teacher))
            made.append(_choice(group, columns, budget, store))
    if not made:
        known = {task for record in store.records() for task in record.cell.tasks}
        if not known:
            raise NothingMeasured(nothing_in(store.root))
        check_known(tasks, known, results)
        wanted = f" with {', '.join(tasks)}" if tasks else ""
        raise NothingMeasured(f"no table of records{wanted} in {results}; `report` shows what there is")
    return made


def _choice(group: ReportGroup, columns: Sequence[ScoreColumn], budget: Budget, store: Store) -> Choice:
    fitting: list[Candidate] = []
    left_out: dict[str, str] = {}
    faults = faults_of(group, store)
    for label in group.systems:
        if label == TEACHER or all(r.cell.ablation_of for r in group.of(label)):
            continue
        if missing := [c.name for c in columns if (label, c) not in group.summaries]:
            left_out[label] = f"no score on {', '.join(missing)}"
            continue
        sizes = [r.sizes for c in columns for r in group.of(label, c.task) if r.sizes]
        candidate = Candidate(
            label,
            max((s.parameters / 1e6 for s in sizes), default=None),
            max((s.flops / 1e9 for s in sizes), default=None),
            group.latencies.get(label),
            float(np.mean([group.summaries[label, c].mean for c in columns])),
        )
        mute = [c.name for c in columns if not all(map(store.has_predictions, finished(group, label, c)))]
        if reason := budget.exceeded(candidate):
            left_out[label] = reason
        elif mute:
            left_out[label] = f"its answers on {', '.join(mute)} are not stored; run it again with --rerun"
        elif wrong := [text for c in columns for text in _disqualified(group, label, c, faults)]:
            left_out[label] = "; ".join(wrong)
        else:
            fitting.append(candidate)
    fitting.sort(key=lambda c: (-c.score, c.label))
    return Choice(group, columns, _compared_with_best(group, columns, fitting, store), left_out)


def _disqualified(group: ReportGroup, label: str, column: ScoreColumn, faults: Faults) -> list[str]:
    """Why the answers of a row are no candidate's: ``rte: predicts entailment for all 277 examples, seeds 0 and 2``.

    One seed with constant or permuted answers is enough. A low score counts where the row's mean is no better than one answer to
    every example: by chance a seed of a sound row may be below it.
    """
    said = []
    mean = np.mean(list(group.values(label, column).values()))
    for what, found in faults.get((label, column), {}).items():
        baselines = [suspicion.baseline for suspicion in found.values() if suspicion.baseline is not None]
        if not baselines or mean <= 100 * baselines[0]:
            said.append(f"{column.name}: {what}, {seeds_in_words(found)}")
    return said


def _compared_with_best(
    group: ReportGroup, columns: Sequence[ScoreColumn], fitting: Sequence[Candidate], store: Store
) -> list[Candidate]:
    """The candidates with their intervals and tests against the first of them."""
    if len(fitting) < 2:
        return list(fitting)
    names = {c.label for c in fitting}
    tasks = {c.task for c in columns}
    part = replace(group, records=[r for r in group.records if r.row in names and tasks & set(r.cell.tasks)])
    answered = resample(part, store)
    found: list[np.ndarray] = []
    for other in fitting[1:]:
        drawn = [_difference(part, other.label, fitting[0].label, column, answered) for column in columns]
        found.append(np.mean(drawn, axis=0))
    adjusted = holm([bootstrap_p(drawn) for drawn in found])
    judged = [
        replace(c, low=interval(drawn)[0], high=interval(drawn)[1], adjusted=p)
        for c, drawn, p in zip(fitting[1:], found, adjusted, strict=True)
    ]
    return [fitting[0], *judged]


def _difference(
    group: ReportGroup, label: str, best: str, column: ScoreColumn, answered: Mapping[ScoreColumn, Resampled]
) -> np.ndarray:
    sides = finished(group, label, column), finished(group, best, column)
    data = answered.get(column)
    for side, name in zip(sides, (label, best), strict=True):
        if data is None or not data.has(side):
            raise NothingMeasured(f"{name} on {column.name}: scored on other examples; run it again with --rerun")
    assert data is not None
    return drawn_differences(data, sides)
