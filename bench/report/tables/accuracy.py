"""The main table: each row's score in each column, their mean, and its size; with what one answer to everything scores."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import methods
from bench.record.cell import TEACHER
from bench.record.schema import Sizes
from bench.record.task_facts import several_tasks_note
from bench.report import frame
from bench.report.frame import EXACT, SPREAD, Footnote, Frame, FrameLine, TableCell
from bench.report.groups import ReportGroup, ScoreColumn
from bench.report.tables.parts import DASH, keys_of, line_of, listed, missing
from bench.report.tables.registry import RESULTS, ReportData, table
from bench.report.tables.sizes import models_differ, need_own_lines, sizes_of_row
from bench.stats.summary import summarise


@table(RESULTS, place=10)
def _frames(data: ReportData) -> Iterable[Frame]:
    return [accuracy(data.group, only_complete=True, alike=as_good_as_best(data)), *incomplete(data.group)]


def as_good_as_best(data: ReportData) -> set[str]:
    """The students whose mean difference to the highest mean has an interval with 0; without the highest itself.

    Only rows with all columns and seeds; none where no answers are stored.
    """
    complete = Scores(data.group).complete
    best = max(complete, key=lambda label: data.means[label].value, default=None)
    if best is None:
        return set()
    apart = ((label, data.pairs.get((best, label))) for label in complete if label != best)
    return {label for label, one in apart if one is not None and (one.low or 0.0) <= 0}


@dataclass(frozen=True)
class Further:
    """A column behind the scores: one cell a row, which depends on no task."""

    title: str
    cell: Callable[[ReportGroup, str], TableCell]
    wanted: Callable[[ReportGroup], bool] | None = None
    """whether a report has the column; None: always"""


def _params(group: ReportGroup, label: str) -> TableCell:
    return _range([s.parameters for s in _shown(sizes_of_row(group, label), models_differ)], 1e6)


def _flops(group: ReportGroup, label: str) -> TableCell:
    return _range([s.flops for s in _shown(sizes_of_row(group, label), need_own_lines)], 1e9)


def _shown(sized: Sequence[Sizes], differ: Callable[[Sequence[Sizes]], bool]) -> Sequence[Sizes]:
    """All of these models where they differ, else the smallest."""
    return sized if sized and differ(sized) else sorted(sized, key=lambda s: s.parameters)[:1]


def _range(counts: Sequence[int], unit: float) -> TableCell:
    """``1.20 to 2.40``, or one figure where both ends are printed alike."""
    if not counts:
        return TableCell(DASH)
    low, high = min(counts) / unit, max(counts) / unit
    text = " to ".join(dict.fromkeys(f"{end:.2f}" for end in (low, high)))
    return TableCell(text, value=low if low == high else None, low=low, high=high)


def _faster(group: ReportGroup, label: str) -> TableCell:
    """1x for the teacher; a dash for what was not timed."""
    if label == TEACHER:
        return TableCell("1.00x", value=1.0)
    if label not in group.speed_ups:
        return TableCell(DASH)
    found = group.speed_ups[label]
    return TableCell(found.text(), value=found.median, low=found.low, high=found.high)


FURTHER = (
    Further("Params (M)", _params),
    Further("FLOPs (G)", _flops),
    Further("speed-up", _faster, lambda group: bool(group.speed_ups)),
)
MAJORITY = "majority class"
"""The row of what a model scores that gives every example the same answer."""
WIDTH = 120
"""Characters of a line of the main table."""


@dataclass(frozen=True)
class Scores:
    """The means over seeds of every row and column, and which of them are the best."""

    group: ReportGroup
    alike: frozenset[str] = frozenset()
    """rows whose mean difference to the best one has an interval with 0"""

    @cached_property
    def students(self) -> list[str]:
        return [label for label in self.group.systems if label != TEACHER]

    @cached_property
    def best(self) -> Mapping[ScoreColumn, float]:
        """Column -> the best mean as it is printed, among the students that have all its seeds."""
        best, summaries = {}, self.group.summaries
        for column in self.group.columns:
            full = [s for s in self.students if not self.group.lacks_seeds(s, column)]
            means = [round(summaries[s, column].mean, 1) for s in full if (s, column) in summaries]
            best[column] = max(means, default=math.nan)
        return best

    @cached_property
    def means(self) -> Mapping[str, float]:
        """Row -> its mean over the columns, where it has all of them."""
        return {
            label: summarise(found).mean
            for label in self.group.systems
            if (found := self.group.means(label)) and len(found) == len(self.group.columns)
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


def accuracy(group: ReportGroup, only_complete: bool = False, alike: Collection[str] = ()) -> Frame:
    """One column an evaluation set, their mean, and the size of each system; the best student of a column in bold.

    Args:
        only_complete: print only the rows that have all columns, where there are such students; the CSV file has all rows.
        alike: rows whose mean difference to the best one has an interval with 0; they are bold too.
    """
    scores = Scores(group, frozenset(alike))
    further = _further(group)
    lines = [_line(scores, label, further) for label in group.systems]
    if only_complete:
        apart = set(_incomplete(scores))
        lines = [replace(line, only="csv") if line.label in apart else line for line in lines]
    # behind the teacher, which is the first line where there is one
    place = 1 if group.systems[:1] == [TEACHER] else 0
    lines[place:place] = [_majority(group, len(further))] if group.baselines else []
    notes = tuple(_notes(scores))
    return Frame("Results", _columns(group, further), tuple(lines), notes, file="accuracy", width=WIDTH)


def incomplete(group: ReportGroup) -> list[Frame]:
    """The rows that lack a column, where other students have all of them: their numbers, without a mean."""
    scores = Scores(group)
    further = _further(group)
    lines = tuple(_line(scores, label, further) for label in _incomplete(scores))
    note = "These rows lack results in some columns. So they have no mean and are not in the table above."
    columns = _columns(group, further)
    file = "rows with some of the results"
    return [Frame("Rows without all results", columns, lines, (note,), file=file, width=WIDTH)] if lines else []


def _incomplete(scores: Scores) -> list[str]:
    """The rows that lack a column; none where no student has all of them."""
    has_complete = any(label in scores.means for label in scores.students)
    return [label for label in scores.students if label not in scores.means] if has_complete else []


def _further(group: ReportGroup) -> list[Further]:
    return [column for column in FURTHER if column.wanted is None or column.wanted(group)]


def _columns(group: ReportGroup, further: Sequence[Further]) -> tuple[frame.TableColumn, ...]:
    return (
        frame.TableColumn("System"),
        *(frame.TableColumn(column.title, csv=SPREAD) for column in group.columns),
        frame.TableColumn(f"mean of {len(group.columns)}", csv=EXACT),
        *(frame.TableColumn(column.title) for column in further),
    )


def _majority(group: ReportGroup, further: int) -> FrameLine:
    """What the best single answer to every example scores."""
    found = (*(group.baselines.get(column) for column in group.columns), group.majority)
    numbers = [TableCell(DASH) if value is None else TableCell(f"{value:.1f}", value=value) for value in found]
    return FrameLine(MAJORITY, (*numbers, *(TableCell("") for _ in range(further))), row="")


def _line(scores: Scores, label: str, further: Sequence[Further]) -> FrameLine:
    group = scores.group
    cells = [
        *(_score(scores, label, column) for column in group.columns),
        _mean(scores, label),
        *(column.cell(group, label) for column in further),
    ]
    records = group.of(label)
    method = records[0].cell.method
    remarks = [remark] if (remark := methods.remark(method)) else []
    said = [f"{label}: {_in_todays_words(group, note)}" for record in records for note in record.notes]
    return line_of(group, label, cells, *map(Footnote, dict.fromkeys([*remarks, *said])))


TOGETHER = (
    re.compile(r"one student of (?P<tasks>.+): what its training cost is the cost of all of them"),
    re.compile(re.escape(several_tasks_note("TASKS")).replace("TASKS", "(?P<tasks>.+)")),
)
"""How older records, and today's, say that a student was trained on several tasks."""


def _in_todays_words(group: ReportGroup, note: str) -> str:
    for pattern in TOGETHER:
        if found := pattern.fullmatch(note):
            return _together(group, found["tasks"].split(", "))
    said = methods.reworded(note)
    return f"{said}." if ". " in said and not said.endswith(".") else said


def _together(group: ReportGroup, tasks: Sequence[str]) -> str:
    """Of a student of several tasks: which they are, which of them this report does not have, and what its cost is."""
    others = [task for task in tasks if task not in group.tasks]
    elsewhere = f" ({listed(others)} {'is' if len(others) == 1 else 'are'} in another report)" if others else ""
    return f"one student was trained on {listed(tasks)} together{elsewhere}. Its cost is that of this one training."


def _score(scores: Scores, label: str, column: ScoreColumn) -> TableCell:
    """A row's mean over its seeds in a column; what is lost or suspect in its footnotes."""
    group = scores.group
    if (label, column) not in group.summaries:
        return missing(group, label, column)
    summary, fewer = group.summaries[label, column], group.lacks_seeds(label, column)
    done = [r for r in group.of(label, column.task) if r.status == "ok" and column.evaluation in r.scores]
    said = [*_lost_seeds(group, label, column, summary.n), *group.suspicions.get((label, column), [])]
    return TableCell(
        summary.text() + (f" (n = {summary.n})" if fewer else ""),
        value=summary.mean,
        deviation=summary.deviation,
        n=summary.n,
        keys=keys_of(done),
        footnotes=tuple(map(Footnote, said)),
        bold=label in scores.students and not fewer and round(summary.mean, 1) == scores.best[column],
    )


def _lost_seeds(group: ReportGroup, label: str, column: ScoreColumn, there: int) -> list[str]:
    """Why a mean has fewer seeds than were asked for."""
    lost = [r for r in group.of(label, column.task) if r.status != "ok"]
    if not lost:
        return []
    reasons = "; ".join(f"seed {r.cell.seed} {r.status}" + (f": {r.error.message}" if r.error else "") for r in lost)
    return [f"{label} on {column.task}: {there} of {there + len(lost)} seeds; {reasons}"]


def _mean(scores: Scores, label: str) -> TableCell:
    mean = scores.means.get(label)
    if mean is None:
        return TableCell(DASH)
    is_best = label in scores.complete and round(mean, 1) == scores.best_mean
    return TableCell(f"{mean:.1f}", value=mean, bold=is_best or label in scores.alike)


def _leaves_early(group: ReportGroup) -> bool:
    """Whether the sequences of some row leave at different layers: its FLOPs are those of an average one."""
    return any(r.sizes is not None and r.sizes.expected_macs for r in group.records)


def _notes(scores: Scores) -> list[str]:
    group, said = scores.group, []
    seeds = sorted({len(group.values(s, c)) for s in scores.students for c in group.columns} - {0})
    if seeds:
        count = f"n = {seeds[0]}" if len(seeds) == 1 else f"n = {seeds[0]} to {seeds[-1]}"
        said.append(
            f"Scores on development sets, in percent: the mean ± the sample standard deviation over seeds ({count}"
            + ("; with one seed there is no deviation, and the noise is not known" if seeds == [1] else "")
            + "). The best student of each column is in bold"
            + (". A score from fewer seeds is marked (n = …) and is never bold" if len(seeds) > 1 else "")
            + ". FLOPs = 2 x MACs of one sequence of 128 tokens (fvcore, eager attention)"
            + (
                ". For early-exit rows they are the average over the exits that the sequences of the development set took, also at 128 tokens."
                if _leaves_early(group)
                else "."
            )
        )
    if scores.alike:
        said.append(
            "A mean is also bold if the 95 % interval of its difference to the best mean contains 0 (not adjusted)."
        )
    if group.speed_ups:
        said.append(
            "Speed-up: the teacher's time divided by the row's time. Both are timed in turns; the number is the median over the "
            f"rounds, with its 95 % interval ({group.speed_conditions}). A dash: not timed."
        )
    if group.baselines:
        said.append(f"The row '{MAJORITY}' is the best score of a constant prediction.")
    return said
