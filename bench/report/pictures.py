"""The pictures of a report. The same records give the same bytes. No torch, no clock."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import median
from textwrap import fill
from typing import Any, NamedTuple

from bench.record.cell import TEACHER
from bench.report.comparison import BETTER, WORSE, MeanOfColumns
from bench.report.escape import flat
from bench.report.table import TableCell
from bench.report.tables.differences import SYSTEMS, reference_of
from bench.report.tables.parts import ReportData, counted

GREY, BLUE, PALE = "#444444", "#0072b2", "#bbbbbb"
"""Told apart by people who see colours differently (Okabe and Ito 2008), and by their brightness in print without colour."""
LONGEST_LABEL = 44


def short(label: str) -> str:
    """A row's name as a picture can hold it: of a long one the beginning and the end."""
    half = LONGEST_LABEL // 2 - 1
    return label if len(label) <= LONGEST_LABEL else f"{label[:half]}…{label[-half:]}"


def escape_mathtext(text: str) -> str:
    """Text of others in a picture: a dollar sign begins no formula."""
    return flat(text).replace("$", r"\$")


@contextmanager
def drawing(width: float, height: float, form: str) -> Iterator[tuple[Any, io.BytesIO]]:
    """A figure with our look; after the block it is in the buffer, as SVG or PDF: the same figure, the same bytes.

    Args:
        width, height: inches.
    """
    import matplotlib

    matplotlib.use("Agg")
    look: Any = {"svg.hashsalt": "bert-bench", "svg.fonttype": "none", "pdf.fonttype": 42}
    look |= {"font.size": 9, "font.family": "sans-serif"}
    with matplotlib.rc_context(look):
        from matplotlib.figure import Figure

        figure, out = Figure(figsize=(width, height), layout="constrained"), io.BytesIO()
        yield figure, out
        engine = figure.get_layout_engine()
        assert engine is not None
        engine.execute(figure)
        figure.set_layout_engine("none")  # savefig would draw everything once more to lay it out
        undated = {"svg": ("Date", "Creator"), "pdf": ("CreationDate", "Creator", "Producer")}[form]
        figure.savefig(out, format=form, metadata=dict.fromkeys(undated))


def _mark(axes: Any, x: float, y: float, label: str, face: str = "", edge: str = "") -> None:
    """The point of a row: a diamond for the teacher, a circle for a student."""
    is_teacher = label == TEACHER
    colour = GREY if is_teacher else BLUE
    marker, edge = "D" if is_teacher else "o", edge or colour
    axes.scatter([x], [y], s=36, marker=marker, facecolor=face or colour, edgecolor=edge, zorder=3)


def plotted_differences(data: ReportData) -> dict[str, Any]:
    """Row -> the cell of its mean difference to the baseline, with its interval: of the teacher and the complete systems; the largest first."""
    reference = reference_of(data.group)
    differences: dict[str, Any] = {}
    table = next((table for table in data.tables if table.file == SYSTEMS), None)
    for line in table.lines if table is not None else ():
        mean = line.cells[-1]  # or the only column
        if mean.value is not None and mean.low is not None and line.label in data.means:
            differences[line.label] = mean
    teacher = data.pairs.get((TEACHER, reference))
    if differences and teacher is not None:
        differences[TEACHER] = TableCell("", teacher.value, teacher.low, teacher.high)
    return dict(sorted(differences.items(), key=lambda item: (-item[1].value, item[0])))


def forest(data: ReportData, form: str = "svg") -> bytes | None:
    """The forest plot: each row's mean difference to the baseline, with its interval; None where no two complete rows have stored
    answers.
    """
    group, cells = data.group, plotted_differences(data)
    if not cells:
        return None
    reference = reference_of(group)
    with drawing(8.2, 0.26 * len(cells) + 1.75, form) as (figure, out):
        axes = figure.subplots()
        for height, (label, cell) in enumerate(reversed(cells.items())):
            value, low, high, is_teacher = cell.value, cell.low, cell.high, label == TEACHER
            axes.hlines(height, low, high, color=GREY if is_teacher else BLUE, linewidth=1.6)
            _mark(axes, value, height, label, "" if is_teacher or cell.verdict in (BETTER, WORSE) else "white")
            text, place = f"{value:+.1f} ({low:+.1f} to {high:+.1f})", axes.get_yaxis_transform()
            axes.annotate(text, (1.02, height), xycoords=place, va="center", fontsize=8, annotation_clip=False)
        axes.axvline(0, color=GREY, linewidth=0.8)
        # the majority class, unless it is so far away that the rows would be too small
        baseline, below = data.means.get(reference), None
        if group.majority is not None and baseline is not None:
            low, high = min(cell.low for cell in cells.values()), max(cell.high for cell in cells.values())
            distance = group.majority - baseline.value
            below = distance if low - distance <= high - low else None
        if below is not None:
            axes.axvline(below, color=GREY, linewidth=0.8, linestyle=":")
        axes.set_yticks(range(len(cells)), [escape_mathtext(short(group.called(label))) for label in reversed(cells)])
        axes.set_ylim(-0.7, len(cells) - 0.3)
        axes.grid(axis="x", color="#eeeeee")
        axes.set_axisbelow(True)
        columns = f"{counted(len(group.columns), 'column')} ({', '.join(column.name for column in group.columns)})"
        axes.set_xlabel(escape_mathtext(f"difference to {group.called(reference)} in points, mean of {columns}"))
        legend = ["circles: students, filled if significant after Holm's adjustment"]
        legend += ["diamond: the teacher, not tested"] if TEACHER in cells else []
        further = "bars: 95 % intervals" + ("" if below is None else "; dotted: majority class")
        title = fill(escape_mathtext(group.title), 96)
        figure.suptitle(f"{title}\n{'; '.join(legend)}\n{further}", fontsize=9)
    return out.getvalue()


MARGIN = 0.08
"""Part of the axis of costs, which is logarithmic, that stays free at each side and between two ticks; chosen by hand, so that
the ticks' numbers do not touch."""
BEATEN = "light grey: another row costs no more and scores higher (the interval of the difference is above 0)"
"""What the legend says of beaten rows."""


class Point(NamedTuple):
    """One row: what it costs, its mean score in percent, and whether a row that costs no more is better.

    Attributes:
        cost: in the unit of the axis.
        is_beaten: another row costs as little or less, and the 95 % interval of its mean difference to this one is above 0.
        fewer_seeds: than other rows have. Such a row beats none.
    """

    label: str
    cost: float
    mean: MeanOfColumns
    is_beaten: bool
    fewer_seeds: bool


def points(data: ReportData, costs: Mapping[str, float]) -> list[Point]:
    """The complete rows that have a cost, the best mean first."""
    group = data.group
    few = {label for label in data.means if any(group.lacks_seeds(label, column) for column in group.columns)}
    rows = [label for label in data.means if label in costs]

    def is_beaten(label: str) -> bool:
        pairs = {row: data.pairs.get((row, label)) for row in rows if row not in few and costs[row] <= costs[label]}
        return any(pair is not None and (pair.low or 0.0) > 0 for pair in pairs.values())

    judged = [Point(label, costs[label], data.means[label], is_beaten(label), label in few) for label in rows]
    return sorted(judged, key=lambda point: (-point.mean.value, point.label))


def flops_of(data: ReportData) -> dict[str, float]:
    """Row -> FLOPs of one sequence of 128 tokens, in G."""
    counts = {label: [r.sizes.flops for r in data.group.of(label) if r.sizes] for label in data.group.systems}
    return {label: min(own) / 1e9 for label, own in counts.items() if own}


def latencies_of(data: ReportData) -> dict[str, float]:
    """Row -> milliseconds of a batch. Rows of one architecture have the median of their timings, which differ by chance alone."""
    group = data.group
    architectures: dict[object, list[str]] = {}
    for label in group.latencies:
        sizes = [(r.sizes.parameters, r.sizes.macs_closed_form) for r in group.of(label) if r.sizes]
        architectures.setdefault(min(sizes) if sizes else label, []).append(label)
    return {
        label: median(group.latencies[other] for other in alike) for alike in architectures.values() for label in alike
    }


def scatter(data: ReportData, costs: Mapping[str, float], form: str, axis: str) -> bytes | None:
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
            mean, label = point.mean, point.label
            text = f"{short(group.called(label))}  {mean.value:.1f}"
            if mean.low is not None:
                colour = GREY if label == TEACHER else BLUE
                axes.vlines(point.cost, mean.low, mean.high, color=colour, alpha=0.35, linewidth=1.2, zorder=2)
                text += f" ({mean.low:.1f} to {mean.high:.1f})"
            _mark(axes, point.cost, mean.value, label, *((PALE, GREY) if point.is_beaten else ()))
            axes.annotate(
                escape_mathtext(text + ("  (fewer seeds)" if point.fewer_seeds else "")),
                (point.cost, mean.value),
                xytext=(1.04, height),
                textcoords=axes.get_yaxis_transform(),
                va="center",
                fontsize=8,
                annotation_clip=False,
                arrowprops={"arrowstyle": "-", "color": PALE, "linewidth": 0.6, "relpos": (0, 0.5), "shrinkB": 4},
            )
        _axis_of_costs(axes, [p.cost for p in shown])
        axes.set_ylim(min(low, *places) - apart, max(high, *places) + apart)
        has_majority = group.majority is not None and group.majority > low - apart
        if has_majority:
            axes.axhline(group.majority, color=GREY, linewidth=0.8, linestyle=":")
        axes.grid(axis="y", color="#eeeeee")
        axes.set_xlabel("\n".join(map(escape_mathtext, axis.split("\n"))))
        axes.set_ylabel(f"mean score of {counted(len(group.columns), 'column')} (%)")
        legend = [BEATEN] if any(point.is_beaten for point in shown) else []
        further = ["bars: 95 % intervals, not adjusted"]
        further += ["diamond: the teacher"] if any(point.label == TEACHER for point in shown) else []
        further += ["dotted: majority class"] if has_majority else []
        figure.suptitle("\n".join([fill(escape_mathtext(group.title), 96), *legend, "; ".join(further)]), fontsize=9)
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


def spread_labels(heights: Sequence[float], apart: float) -> list[float]:
    """Places for labels in falling order of ``heights``: each as near to its own as a distance between all allows.

    Labels that would touch become a block about the mean of its members' own heights.
    """
    blocks: list[list[int]] = []

    def top(block: Collection[int]) -> float:
        return sum(heights[i] for i in block) / len(block) + apart * (len(block) - 1) / 2

    for index in sorted(range(len(heights)), key=lambda i: -heights[i]):
        blocks.append([index])
        while len(blocks) > 1 and top(blocks[-2]) - apart * len(blocks[-2]) < top(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    places = [0.0] * len(heights)
    for block in blocks:
        for place, index in enumerate(block):
            places[index] = top(block) - apart * place
    return places


PICTURES: Mapping[str, tuple[str, Callable[[ReportData, str], bytes | None]]] = {
    "differences": ("Mean difference to the baseline, with 95 % intervals", forest),
    "score-flops": (
        "Mean score against FLOPs",
        lambda data, form: scatter(
            data, flops_of(data), form, "FLOPs of one sequence of 128 tokens (G, 2 x MACs, log scale)"
        ),
    ),
    "score-latency": (
        "Mean score against measured latency",
        lambda data, form: scatter(
            data, latencies_of(data), form, f"median latency (ms, log scale)\n{data.group.speed_conditions}"
        ),
    ),
}
"""Name of the file -> caption, and the function that draws it as ``svg`` or ``pdf``: None where the records have nothing."""
