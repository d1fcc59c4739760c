"""The main table: each row's size, its score in each column, and their mean."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from bench.record.cell import TEACHER
from bench.report import frame
from bench.report.frame import EXACT, SPREAD, Cell, Footnote, Frame, Line
from bench.report.groups import Column, Group
from bench.report.tables.parts import DASH, counted, keys_of, line_of, missing
from bench.report.tables.registry import ReportData, table
from bench.report.tables.sizes import differ, models_differ, sizes_by_row
from bench.stats.summary import Summary, summarise


@table(place=10)
def _frames(data: ReportData) -> Iterable[Frame]:
    return [accuracy(data.group)]


@dataclass(frozen=True)
class Leading:
    """A column before the scores: one cell a row, which depends on no task."""

    title: str
    cell: Callable[[Group, str], Cell]
    wanted: Callable[[Group], bool] | None = None
    """whether a report has the column; None: always"""


def _params(group: Group, label: str) -> Cell:
    sized = sizes_by_row(group, label)
    smallest = min(sized, key=lambda s: s.parameters, default=None)
    counts = [s.parameters for s in sized if models_differ(sized) or s is smallest]
    return _range(counts, 1e6)


def _flops(group: Group, label: str) -> Cell:
    sized = sizes_by_row(group, label)
    smallest = min(sized, key=lambda s: s.parameters, default=None)
    return _range([s.flops for s in sized if differ(sized) or s is smallest], 1e9)


def _range(counts: Sequence[int], unit: float) -> Cell:
    """``1.20 to 2.40``, or one figure where both ends are printed alike."""
    if not counts:
        return Cell(DASH)
    low, high = min(counts) / unit, max(counts) / unit
    text = " to ".join(dict.fromkeys(f"{end:.2f}" for end in (low, high)))
    return Cell(text, value=low if low == high else None)


def _faster(group: Group, label: str) -> Cell:
    """1x for the teacher; a dash for what was not timed."""
    if label == TEACHER:
        return Cell("1.00x", value=1.0)
    if label not in group.speed_ups:
        return Cell(DASH)
    found = group.speed_ups[label]
    return Cell(found.text(), value=found.median, low=found.low, high=found.high)


LEADING = (
    Leading("Params (M)", _params),
    Leading("FLOPs (G)", _flops),
    Leading("speed-up", _faster, lambda group: bool(group.speed_ups)),
)


@dataclass(frozen=True)
class Scores:
    """The means over seeds of every row and column, and which of them are the best."""

    group: Group

    @cached_property
    def students(self) -> list[str]:
        return [label for label in self.group.systems if label != TEACHER]

    @cached_property
    def summaries(self) -> Mapping[tuple[str, Column], Summary]:
        """(row, column) -> mean and deviation over seeds, in percent."""
        return {
            (label, column): summarise(list(values.values()))
            for label in self.group.systems
            for column in self.group.columns
            if (values := self.group.values(label, column))
        }

    @cached_property
    def best(self) -> Mapping[Column, float]:
        """Column -> the best mean as it is printed, among the students that have all its seeds."""
        best = {}
        for column in self.group.columns:
            full = [s for s in self.students if not self.group.lacks_seeds(s, column)]
            means = [round(self.summaries[s, column].mean, 1) for s in full if (s, column) in self.summaries]
            best[column] = max(means, default=math.nan)
        return best

    @cached_property
    def means(self) -> Mapping[str, float]:
        """Row -> its mean over the columns, where it has all of them."""
        columns = self.group.columns
        return {
            label: summarise([self.summaries[label, column].mean for column in columns]).mean
            for label in self.group.systems
            if columns and all((label, column) in self.summaries for column in columns)
        }

    @cached_property
    def complete(self) -> list[str]:
        """The students with all columns and, in each, all seeds."""
        lacking = {s for s in self.students for column in self.group.columns if self.group.lacks_seeds(s, column)}
        return [s for s in self.students if s in self.means and s not in lacking]

    @cached_property
    def best_mean(self) -> float:
        """The best mean of a complete student, as it is printed."""
        return max((round(self.means[s], 1) for s in self.complete), default=math.nan)


def accuracy(group: Group) -> Frame:
    """System, size and one column an evaluation set; best student in bold; averages by name."""
    scores = Scores(group)
    leading = [column for column in LEADING if column.wanted is None or column.wanted(group)]
    columns = [
        frame.Column("System"),
        *(frame.Column(column.title) for column in leading),
        *(frame.Column(column.title, csv=SPREAD) for column in group.columns),
        frame.Column(f"mean of {counted(len(group.columns), 'column')}", csv=EXACT),
    ]
    lines = [_line(scores, label, leading) for label in group.systems]
    return Frame("Accuracy", tuple(columns), tuple(lines), tuple(_notes(scores)))


def _line(scores: Scores, label: str, leading: Sequence[Leading]) -> Line:
    group = scores.group
    cells = [
        *(column.cell(group, label) for column in leading),
        *(_score(scores, label, column) for column in group.columns),
        _mean(scores, label),
    ]
    # what the method itself says of its row
    said = dict.fromkeys(note for record in group.of(label) for note in record.notes)
    return line_of(group, label, cells, *(Footnote(f"{label}: {note}") for note in said))


def _score(scores: Scores, label: str, column: Column) -> Cell:
    """A row's mean over its seeds in a column; what is lost or suspect in its footnotes."""
    group = scores.group
    if (label, column) not in scores.summaries:
        return missing(group, label, column)
    summary, fewer = scores.summaries[label, column], group.lacks_seeds(label, column)
    done = [r for r in group.of(label, column.task) if r.status == "ok" and column.evaluation in r.scores]
    said = [*_lost_seeds(group, label, column, summary.n), *group.suspicions.get((label, column), [])]
    return Cell(
        summary.text() + (f" (n = {summary.n})" if fewer else ""),
        value=summary.mean,
        deviation=summary.deviation,
        n=summary.n,
        keys=keys_of(done),
        footnotes=tuple(map(Footnote, said)),
        bold=label in scores.students and not fewer and round(summary.mean, 1) == scores.best[column],
    )


def _lost_seeds(group: Group, label: str, column: Column, there: int) -> list[str]:
    """Why a mean has fewer seeds than were asked for."""
    lost = [r for r in group.of(label, column.task) if r.status != "ok"]
    if not lost:
        return []
    reasons = "; ".join(f"seed {r.cell.seed} {r.status}" + (f": {r.error.message}" if r.error else "") for r in lost)
    return [f"{label} on {column.task}: {there} of {there + len(lost)} seeds; {reasons}"]


def _mean(scores: Scores, label: str) -> Cell:
    mean = scores.means.get(label)
    if mean is None:
        return Cell(DASH)
    return Cell(f"{mean:.1f}", value=mean, bold=label in scores.complete and round(mean, 1) == scores.best_mean)


def _notes(scores: Scores) -> list[str]:
    group, said = scores.group, []
    seeds = sorted({len(group.values(s, c)) for s in scores.students for c in group.columns} - {0})
    if seeds:
        count = f"n = {seeds[0]}" if len(seeds) == 1 else f"n = {seeds[0]} to {seeds[-1]}"
        said.append(
            f"Development sets, percent. Mean ± sample standard deviation over seeds ({count}"
            + ("; one seed has no deviation and says nothing about noise" if seeds == [1] else "")
            + "). Best student of a column in bold"
            + (", of those with all its seeds; the others have (n = ...) behind them" if len(seeds) > 1 else "")
            + ". FLOPs = 2 x MACs of one sequence of 128 tokens (fvcore, eager attention)."
        )
    if group.speed_ups:
        said.append(
            f"Speed-up: times faster than the teacher, median of rounds in turns with its 95 % interval; {group.speed_conditions}. "
            f"A dash: not timed."
        )
    return said
