"""Mean score against what a row costs: FLOPs, or measured latency."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from textwrap import fill
from typing import Any

from bench.record.cell import TEACHER
from bench.report.mean_of_columns import MeanOfColumns
from bench.report.plot.look import BLUE, GREY, PALE, drawing, escape_mathtext, short, spread_labels
from bench.report.tables.parts import counted
from bench.report.tables.registry import ReportData

MARGIN = 0.08
"""Part of the axis of costs, which is logarithmic, that stays free at each side and between two ticks; chosen by hand, so that
the ticks' numbers do not touch."""


BEATEN = "light grey: another row costs no more and scores higher (the interval of the difference is above 0)"
"""What the legend says of beaten rows."""


@dataclass(frozen=True)
class Point:
    """One row: what it costs, its mean score in percent, and whether a row that costs no more is better.

    Attributes:
        cost: in the unit of the axis.
        is_beaten: another row costs as little or less, and the 95 % interval of its mean difference to this one is above 0.
        fewer_seeds: than other rows have. Such a row beats none.
    """

    label: str
    cost: float
    mean: MeanOfColumns
    is_beaten: bool = False
    fewer_seeds: bool = False


def points(data: ReportData, costs: Mapping[str, float]) -> list[Point]:
    """The complete rows that have a cost, the best mean first."""
    group = data.group
    found = {label: mean for label, mean in data.means.items() if label in costs}
    few = {label for label in found if any(group.lacks_seeds(label, column) for column in group.columns)}
    made = [
        Point(label, costs[label], mean, _is_beaten(data, label, found.keys() - few, costs), label in few)
        for label, mean in found.items()
    ]
    return sorted(made, key=lambda point: (-point.mean.value, point.label))


def _is_beaten(data: ReportData, label: str, others: Collection[str], costs: Mapping[str, float]) -> bool:
    """Whether one of the others costs no more, and the interval of its difference to the row is above 0."""
    pairs = ((data.pairs.get((other, label)), costs[other]) for other in others if other != label)
    return any(one is not None and (one.low or 0.0) > 0 and cost <= costs[label] for one, cost in pairs)


def flops_of(data: ReportData) -> dict[str, float]:
    """Row -> FLOPs of one sequence of 128 tokens, in G."""
    group = data.group
    return {
        label: min(sized) / 1e9
        for label in group.systems
        if (sized := [record.sizes.flops for record in group.of(label) if record.sizes])
    }


def latencies_of(data: ReportData) -> dict[str, float]:
    """Row -> milliseconds of a batch. Rows of one architecture have the median of their timings, which differ by chance alone."""
    group = data.group
    architectures: dict[object, list[str]] = {}
    for label in group.latencies:
        sized = [(r.sizes.parameters, r.sizes.macs_closed_form) for r in group.of(label) if r.sizes]
        architectures.setdefault(min(sized) if sized else label, []).append(label)
    return {
        label: median(group.latencies[other] for other in alike) for alike in architectures.values() for label in alike
    }


def score_against_flops(data: ReportData, form: str = "svg") -> bytes | None:
    """A picture; None with fewer than two points."""
    return _scatter(data, flops_of(data), form, "FLOPs of one sequence of 128 tokens (G, 2 x MACs, log scale)")


def score_against_latency(data: ReportData, form: str = "svg") -> bytes | None:
    """A picture; None where nothing was timed."""
    return _scatter(data, latencies_of(data), form, f"median latency (ms, log scale)\n{data.group.speed_conditions}")


def _label(point: Point, called: str) -> str:
    mean = point.mean
    interval = "" if mean.low is None else f" ({mean.low:.1f} to {mean.high:.1f})"
    return f"{short(called)}  {mean.value:.1f}{interval}{'  (fewer seeds)' if point.fewer_seeds else ''}"


def _scatter(data: ReportData, costs: Mapping[str, float], form: str, axis: str) -> bytes | None:
    """One point a row with its interval, its label in a column at the right in the order of the scores."""
    group, shown = data.group, points(data, costs)
    if len(shown) < 2:
        return None
    with drawing(8.2, max(3.4, 0.24 * len(shown) + 1.5), form) as (figure, out):
        axes = figure.subplots()
        low = min(p.mean.value if p.mean.low is None else p.mean.low for p in shown)
        high = max(p.mean.value if p.mean.high is None else p.mean.high for p in shown)
        apart = max(high - low, 2.0) / max(12.0, 1.0 * len(shown))
        places = spread_labels([p.mean.value for p in shown], apart)
        for point, height in zip(shown, places, strict=True):
            is_teacher = point.label == TEACHER
            colour = GREY if is_teacher else BLUE
            if point.mean.low is not None:
                axes.vlines(
                    point.cost, point.mean.low, point.mean.high, color=colour, alpha=0.35, linewidth=1.2, zorder=2
                )
            axes.scatter(
                [point.cost],
                [point.mean.value],
                s=36,
                marker="D" if is_teacher else "o",
                facecolor=PALE if point.is_beaten else colour,
                edgecolor=GREY if point.is_beaten else colour,
                zorder=3,
            )
            axes.annotate(
                escape_mathtext(_label(point, group.called(point.label))),
                (point.cost, point.mean.value),
                xytext=(1.04, height),
                textcoords=axes.get_yaxis_transform(),
                va="center",
                fontsize=8,
                annotation_clip=False,
                arrowprops={"arrowstyle": "-", "color": PALE, "linewidth": 0.6, "relpos": (0, 0.5), "shrinkB": 4},
            )
        _axis_of_costs(axes, [p.cost for p in shown])
        axes.set_ylim(min(low, *places) - apart, max(high, *places) + apart)
        majority = data.group.majority
        has_majority = majority is not None and majority > low - apart
        if has_majority:
            axes.axhline(majority, color=GREY, linewidth=0.8, linestyle=":")
        axes.grid(axis="y", color="#eeeeee")
        axes.set_xlabel("\n".join(map(escape_mathtext, axis.split("\n"))))
        axes.set_ylabel(f"mean score of {counted(len(group.columns), 'column')} (%)")
        legend = [BEATEN] if any(point.is_beaten for point in shown) else []
        further = ["bars: 95 % intervals, not adjusted"]
        further += ["diamond: the teacher"] if any(point.label == TEACHER for point in shown) else []
        further += ["dotted: majority class"] if has_majority else []
        figure.suptitle(
            "\n".join([fill(escape_mathtext(group.title), 96), *legend, "; ".join(further)]),
            fontsize=9,
        )
    return out.getvalue()


def _axis_of_costs(axes: Any, costs: Sequence[float]) -> None:
    """A logarithmic scale whose ticks are at the costs themselves, as far as they do not touch."""
    smallest, largest = min(costs), max(costs)
    margin = max(largest / smallest, 1.5) ** MARGIN
    axes.set_xscale("log")
    axes.set_xlim(smallest / margin, largest * margin)
    ticks: list[float] = []
    for cost in sorted({float(f"{cost:.3g}") for cost in costs}):
        if not ticks or cost > margin * ticks[-1]:
            ticks.append(cost)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
