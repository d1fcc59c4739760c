"""The forest plot: each row's mean difference to the baseline, with its interval."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import fill

from bench.record.cell import TEACHER
from bench.report.comparison import BETTER, WORSE
from bench.report.plot.look import BLUE, GREY, drawing, escape_mathtext, short
from bench.report.tables.paired_comparisons import SYSTEMS, reference_of
from bench.report.tables.parts import counted
from bench.report.tables.registry import ReportData


@dataclass(frozen=True)
class PlottedDifference:
    """Of a row to the baseline, in points, with its 95 % interval."""

    value: float
    low: float
    high: float
    is_significant: bool = False
    """after Holm's adjustment; the teacher is not tested"""


def differences(data: ReportData) -> dict[str, PlottedDifference]:
    """Row -> its mean difference to the baseline, of the teacher and of the complete systems; the largest first."""
    reference, found = reference_of(data.group), {}
    table = next((table for table in data.tables if table.file == SYSTEMS), None)
    for line in table.lines if table is not None else ():
        one = line.cells[-1]  # the mean, or the only column
        if one.value is not None and one.low is not None and one.high is not None and line.label in data.means:
            found[line.label] = PlottedDifference(one.value, one.low, one.high, one.verdict in (BETTER, WORSE))
    teacher = data.pairs.get((TEACHER, reference))
    if found and teacher is not None and teacher.low is not None and teacher.high is not None:
        found[TEACHER] = PlottedDifference(teacher.value, teacher.low, teacher.high)
    return dict(sorted(found.items(), key=lambda item: (-item[1].value, item[0])))


def _majority(data: ReportData, found: Mapping[str, PlottedDifference]) -> float | None:
    """The majority class as a difference to the baseline; None where it is so far away that the rows would be too small."""
    baseline = data.means.get(reference_of(data.group))
    if data.group.majority is None or baseline is None:
        return None
    low, high = min(one.low for one in found.values()), max(one.high for one in found.values())
    below = data.group.majority - baseline.value
    return below if low - below <= high - low else None


def forest(data: ReportData, form: str = "svg") -> bytes | None:
    """A picture; None where no two complete rows have stored answers."""
    group, found = data.group, differences(data)
    if not found:
        return None
    reference = reference_of(group)
    with drawing(8.2, 0.26 * len(found) + 1.75, form) as (figure, out):
        axes = figure.subplots()
        for height, (label, one) in enumerate(reversed(found.items())):
            is_teacher = label == TEACHER
            colour = GREY if is_teacher else BLUE
            axes.hlines(height, one.low, one.high, color=colour, linewidth=1.6)
            axes.scatter(
                [one.value],
                [height],
                s=36,
                marker="D" if is_teacher else "o",
                facecolor=colour if is_teacher or one.is_significant else "white",
                edgecolor=colour,
                zorder=3,
            )
            axes.annotate(
                f"{one.value:+.1f} ({one.low:+.1f} to {one.high:+.1f})",
                (1.02, height),
                xycoords=axes.get_yaxis_transform(),
                va="center",
                fontsize=8,
                annotation_clip=False,
            )
        axes.axvline(0, color=GREY, linewidth=0.8)
        below = _majority(data, found)
        if below is not None:
            axes.axvline(below, color=GREY, linewidth=0.8, linestyle=":")
        axes.set_yticks(range(len(found)), [escape_mathtext(short(group.called(label))) for label in reversed(found)])
        axes.set_ylim(-0.7, len(found) - 0.3)
        axes.grid(axis="x", color="#eeeeee")
        axes.set_axisbelow(True)
        columns = ", ".join(column.name for column in group.columns)
        axes.set_xlabel(
            escape_mathtext(
                f"difference to {group.called(reference)} in points, "
                f"mean of {counted(len(group.columns), 'column')} ({columns})"
            )
        )
        legend = ["circles: students, filled if significant after Holm's adjustment"]
        legend += ["diamond: the teacher, not tested"] if TEACHER in found else []
        further = "bars: 95 % intervals" + ("" if below is None else "; dotted: majority class")
        figure.suptitle(
            f"{fill(escape_mathtext(group.title), 96)}\n{'; '.join(legend)}\n{further}",
            fontsize=9,
        )
    return out.getvalue()
