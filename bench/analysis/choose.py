"""Which rows a budget admits, which of them is best, and which cheaper ones are not significantly different from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench.data.tasks import check_known
from bench.errors import NothingMeasured
from bench.record.cell import TEACHER
from bench.record.speed_sessions import speed_records
from bench.record.store import Store
from bench.report.comparison import NOT_SIGNIFICANT, UNCLEAR, WORSE, drawn_differences, p_in_words, verdict_of
from bench.report.frame import nothing_in
from bench.report.groups import ReportGroup, ScoreColumn, groups
from bench.report.resampled import faults_of, resample, seeds_in_words
from bench.report.sources import warnings
from bench.report.speed import latest
from bench.report.table import Column, Table, TableCell, number
from bench.report.tables.parts import counted, line_of
from bench.report.write import add_speed
from bench.stats.paired import bootstrap_p, interval

COSTS = {"parameters": "M parameters", "flops": "G FLOPs", "latency": "ms"}
"""What a budget limits -> its unit. FLOPs of one sequence of 128 tokens; the median latency under a session's main conditions."""


class Candidate(NamedTuple):
    """A row with all the columns; costs as in :data:`COSTS`, of its dearest task; scores in percent."""

    label: str
    parameters: float | None
    flops: float | None
    latency: float | None
    score: float
    low: float = 0.0
    high: float = 0.0
    """95 % interval of its difference to the best"""
    p: float = 1.0
    """of no difference to the best: one test, as in a report and in ``compare``"""

    @property
    def verdict(self) -> str:
        return verdict_of(-1.0, self.p, self.p)


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
        kept = [c for c in self.candidates if c.verdict != WORSE]
        return sorted(kept, key=lambda c: (round(c.flops or np.inf, 2), round(c.parameters or np.inf, 2), -c.score))

    def table(self) -> Table:
        """The candidates, best first, with their costs and their differences to the best."""
        lines = []
        for c in self.candidates:
            costs = [number(n, ".2f") for n in c[1:4]]
            rest, gap = [TableCell(""), TableCell(""), TableCell("best")], c.score - self.candidates[0].score
            if c is not self.candidates[0]:
                rest = [
                    TableCell(f"{gap:+.1f} ({c.low:+.1f} to {c.high:+.1f})", gap, c.low, c.high),
                    TableCell(p_in_words(c.p), c.p),
                    TableCell(NOT_SIGNIFICANT if c.verdict == UNCLEAR else c.verdict),
                ]
            lines.append(line_of(self.group, c.label, [*costs, number(c.score), *rest]))
        titles = [
            "System",
            "Params (M)",
            "FLOPs (G)",
            "latency (ms)",
            f"mean of {counted(len(self.columns), 'column')}",
        ]
        titles += ["difference to the best", "p", "verdict"]
        return Table("Choice", list(map(Column, titles)), lines)

    def said(self) -> list[str]:
        """The answer in words."""
        lines = [line.replace("*", "") for line in warnings(self.group)]
        if not self.candidates:
            return [*lines, "No row fits."]
        best, cheapest, called = self.candidates[0], self.as_good[0], self.group.called
        lines += [f"Highest mean of what fits: {called(best.label)} ({best.score:.1f})."]
        too = ", too" if cheapest.label != best.label else ""
        if too:
            row = f"{called(cheapest.label)} ({cheapest.score:.1f})"
            lines.append(f"The cheapest row that is not significantly different from it: {row}.")
        others = [called(c.label) for c in self.as_good if c.label not in (best.label, cheapest.label)]
        if others:
            lines.append(f"Not significantly different from it{too}: {', '.join(others)}.")
        if len(self.candidates) > 1:
            lines += [
                "The best row was chosen on the examples that it is scored on, so its score is a little too high."
            ]
        return lines


def choose(results: Path, budget: Mapping[str, float | None], tasks: Sequence[str] = ()) -> list[Choice]:
    """A choice for each table of the records that has all the tasks (none: whatever it has).

    Args:
        budget: the most that a row may cost, by the names of :data:`COSTS`; without one, or None: as much as it likes.

    Raises:
        InputError: there is no such task: neither in the records nor in GLUE.
        NothingMeasured: no table has all of them.
    """
    store = Store(results)
    sessions, made = list(speed_records(store.root, store.note)), []
    for group in groups(store.records()):
        columns = [c for c in group.columns if not tasks or c.task in tasks]
        if columns and set(tasks) <= {c.task for c in columns}:
            add_speed(group, latest(sessions, group.cell.teacher.name))
            made.append(_choice(group, columns, budget, store))
    if not made:
        known = {task for record in store.records() for task in record.cell.tasks}
        if not known:
            raise NothingMeasured(nothing_in(store.root))
        check_known(tasks, known, results)
        wanted = f" with {', '.join(tasks)}" if tasks else ""
        raise NothingMeasured(f"no table of records{wanted} in {results}; `report` shows what there is")
    return made


def _choice(
    group: ReportGroup, columns: Sequence[ScoreColumn], budget: Mapping[str, float | None], store: Store
) -> Choice:
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
        reasons = []
        for (name, unit), cost in zip(COSTS.items(), candidate[1:4], strict=True):
            most = budget.get(name)
            if most is not None and (cost is None or cost > most):
                lacking = "not timed" if name == "latency" else f"{name} not measured"
                reasons.append(lacking if cost is None else f"{cost:.2f} {unit}")
        mute = [c.name for c in columns if not all(map(store.has_predictions, group.finished(label, c)))]
        if reasons:
            left_out[label] = reasons[0]
        elif mute:
            left_out[label] = f"its answers on {', '.join(mute)} are not stored; run it again with --rerun"
        # one seed with constant or permuted answers is enough; a low score counts where the row's mean is no better than one
        # answer to every example: by chance a seed of a sound row may be below it
        elif wrong := [
            f"{c.name}: {what}, {seeds_in_words(of_seeds)}"
            for c in columns
            for what, of_seeds in faults.get((label, c), {}).items()
            if group.summaries[label, c].mean
            <= 100 * next((s.baseline for s in of_seeds.values() if s.baseline is not None), np.inf)
        ]:
            left_out[label] = "; ".join(wrong)
        else:
            fitting.append(candidate)
    fitting.sort(key=lambda c: (-c.score, c.label))
    return Choice(group, columns, _compared_with_best(group, columns, fitting, store), left_out)


def _compared_with_best(
    group: ReportGroup, columns: Sequence[ScoreColumn], fitting: Sequence[Candidate], store: Store
) -> list[Candidate]:
    """The candidates with their intervals and tests against the first of them.

    Raises:
        NothingMeasured: two rows of a column were scored on other examples.
    """
    if len(fitting) < 2:
        return list(fitting)
    names, tasks = {c.label for c in fitting}, {c.task for c in columns}
    part = replace(group, records=[r for r in group.records if r.row in names and tasks & set(r.cell.tasks)])
    answered, gaps = resample(part, store), []
    for other in fitting[1:]:
        drawn = []
        for column in columns:
            sides = part.finished(other.label, column), part.finished(fitting[0].label, column)
            data = answered.get(column)
            for side in sides:
                if data is None or not data.has(side):
                    raise NothingMeasured(
                        f"{side[0].row} on {column.name}: scored on other examples; run it again with --rerun"
                    )
            assert data is not None
            drawn.append(drawn_differences(data, sides))
        gaps.append(np.mean(drawn, axis=0))
    judged = [(*interval(drawn), bootstrap_p(drawn)) for drawn in gaps]
    return [
        fitting[0],
        *(c._replace(low=low, high=high, p=p) for c, (low, high, p) in zip(fitting[1:], judged, strict=True)),
    ]
