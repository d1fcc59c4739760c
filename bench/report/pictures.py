"""The pictures of a report. The same records give the same bytes. No torch, no clock."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from textwrap import wrap
from typing import Any, NamedTuple

import numpy as np

from bench.record.cell import POINTS_IN_8_BITS, TEACHER
from bench.record.schema import Record
from bench.report.escape import flat
from bench.report.paired_rows import BETTER, WORSE
from bench.report.retained_scores import KEEPS, LOSES, scored_by_teacher
from bench.report.study import Study
from bench.report.sweeps import Sweep, sweeps
from bench.report.table import DASH, TableCell, number
from bench.report.tables.leaderboard import verdicts_of_means
from bench.report.tables.parts import counted, if_busy
from bench.report.verdicts import own_row, reference_of

GREY = "#444444"
PALE = "#bbbbbb"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""People who see colours differently tell these apart (Okabe and Ito 2008).

In print without colour their brightness does.
"""
SHAPES = ("o", "s", "^", "v", "P", "X", "*")
"""There is one more than colours: 42 methods are different, although both begin again."""
DASHES: tuple[Any, ...] = (
    "-",
    (0, (4, 1.5)),
    (0, (1, 1)),
    (0, (6, 1, 1, 1)),
    (0, (3, 1, 1, 1, 1, 1)),
    (0, (8, 3)),
    (0, (1, 3)),
)
"""The losses of a row have these dashes, in their order. There are more than a row has losses."""
NARROW = 3.3
"""Inches of a column of a paper."""
WIDE = 6.9
"""Inches of a page of a paper."""
MATPLOTLIB: Any = {
    "svg.hashsalt": "bert-bench",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "font.family": "sans-serif",
    "font.size": 7,
    "axes.linewidth": 0.6,
    "lines.linewidth": 1.1,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#eeeeee",
    "axes.axisbelow": True,
}
"""The settings of every figure. Text has 7 points."""
PANEL_TITLE = {"fontsize": 7, "loc": "left", "pad": 3}
"""How the title of one panel of several is written."""


# ---- parts that all pictures share


class Look(NamedTuple):
    """How a row is drawn."""

    colour: str
    shape: str


def looks(study: Study) -> dict[str, Look]:
    """Row -> the look of its method: variants look alike. The teacher is a grey diamond."""
    method_of = {label: study.records_of(label)[0].cell.method for label in study.systems}
    look_of_method: dict[str, Look] = {}
    for label in study.students:
        number_of_method = len(look_of_method)
        colour = COLOURS[number_of_method % len(COLOURS)]
        shape = SHAPES[number_of_method % len(SHAPES)]
        look_of_method.setdefault(method_of[label], Look(colour, shape))
    return {
        label: Look(GREY, "D") if label == TEACHER else look_of_method[method]
        for label, method in method_of.items()
    }


MOST_ROWS = 60
"""A picture shows at most so many rows: nobody reads one of more. The tables have all of them."""


def systems_in(study: Study) -> list[str]:
    """The rows of the pictures, the best mean first.

    They are those of :func:`_systems`, at most :data:`MOST_ROWS`, the teacher among them.
    """
    return _first(_systems(study))


def _systems(study: Study) -> list[str]:
    """The rows that are complete and no variant of another row, the best mean first.

    They are all complete ones where that leaves one student.
    """
    complete = sorted(
        study.mean_intervals, key=lambda label: (-(study.mean_intervals[label].value or 0.0), label)
    )
    systems = [label for label in complete if label == TEACHER or not own_row(study, label)]
    has_several_students = len(set(systems) - {TEACHER}) > 1
    return systems if has_several_students else complete


def _first(rows: Sequence[str]) -> list[str]:
    """As many rows as a picture shows, the teacher among them wherever it stands."""
    shown = list(rows[:MOST_ROWS])
    if TEACHER in rows[MOST_ROWS:]:
        shown[-1] = TEACHER
    return shown


def left_out_of_pictures(study: Study) -> str:
    """A sentence for a caption, where a picture has not all rows; "" where it has."""
    count = len(_systems(study))
    if count <= MOST_ROWS:
        return ""
    return f"Of {count} rows the {MOST_ROWS} with the highest means are drawn."


def text_of(text: str, width: int = 24) -> str:
    """A text of records or data as a picture shows it.

    It is broken into at most three lines of so many characters, and a dollar sign in it begins no
    formula.
    """
    one_line = flat(text)
    # a long row is cut behind a colon, not within a setting
    if any(len(word) > width for word in one_line.split()):
        one_line = one_line.replace(":", ":\v")
    wrapped = wrap(one_line, width, break_on_hyphens=False, replace_whitespace=False) or [""]
    lines = [line.replace("\v", "") for line in wrapped]
    # a text that is still too long keeps its beginning and its end
    if len(lines) > 3:
        lines = [*lines[:2], "…" + lines[-1][1:]]
    return "\n".join(lines).replace("$", r"\$")


@contextmanager
def drawing(width: float, height: float, form: str) -> Iterator[tuple[Any, io.BytesIO]]:
    """A figure with our look, and a buffer that holds it as SVG or PDF after the block.

    The same figure gives the same bytes.

    Args:
        width, height: inches.
    """
    import matplotlib

    matplotlib.use("Agg")
    with matplotlib.rc_context(MATPLOTLIB):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(width, height), layout="constrained")
        out = io.BytesIO()
        yield figure, out
        engine = figure.get_layout_engine()
        assert engine is not None
        engine.execute(figure)
        figure.set_layout_engine("none")  # savefig would draw everything once more to lay it out
        undated = {"svg": ("Date", "Creator"), "pdf": ("CreationDate", "Creator", "Producer")}[form]
        figure.savefig(out, format=form, metadata=dict.fromkeys(undated))


def row_height(study: Study, labels: Sequence[str]) -> float:
    """The height of a row in inches: more where a name takes two lines or three."""
    most_breaks = max(text_of(study.called(label)).count("\n") for label in labels)
    return (0.21, 0.28, 0.4)[most_breaks]


def _name_rows(axes: Any, study: Study, labels: Sequence[str]) -> None:
    """Write the rows' names at the left, the first at the top."""
    names = [text_of(study.called(label)) for label in labels]
    axes.set_yticks(range(len(labels)), names, linespacing=1.15)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")


class Grid(NamedTuple):
    """How many panels a figure has side by side, and how many rows of them."""

    across: int
    down: int

    @property
    def width(self) -> float:
        """Inches of the figure."""
        return WIDE if self.across > 2 else NARROW


def _grid(count: int) -> Grid:
    """The grid that has room for so many panels."""
    across = min(4, count)
    return Grid(across, math.ceil(count / across))


def _panels(figure: Any, grid: Grid, count: int, **options: Any) -> list[Any]:
    """The axes of so many panels; what the grid has more of stays empty.

    Args:
        options: for matplotlib's ``subplots``.
    """
    panels = figure.subplots(grid.down, grid.across, squeeze=False, **options).flatten()
    for axes in panels[count:]:
        axes.set_axis_off()
    return list(panels[:count])


# ---- the forest plot


def plotted_differences(study: Study) -> dict[str, TableCell]:
    """Row -> the cell of its mean difference to the baseline, the largest first.

    They are the teacher and the complete systems.
    """
    differences = {
        label: cell
        for label, cell in verdicts_of_means(study).items()
        if label in study.mean_intervals
    }
    teacher = study.pairs.get((TEACHER, reference_of(study)))
    if differences and teacher is not None:
        differences[TEACHER] = teacher
    ordered = sorted(differences, key=lambda label: (-(differences[label].value or 0.0), label))
    return {label: differences[label] for label in _first(ordered)}


SHOWN = 4
"""So many intervals of median width fit side by side on the axis of the forest plot.

Nobody sees one among more.
"""


def _ends(cells: Sequence[TableCell]) -> tuple[float, float]:
    """Both ends of the axis, which has 0 and the rows on it.

    Rows far away are left out where the other intervals would be too short to see. The half that is
    nearer to 0 is always on it.
    """
    intervals = [(cell.low or 0.0, cell.high or 0.0) for cell in cells]
    nearest_first = sorted(intervals, key=lambda ends: max(-ends[0], ends[1]))

    # what the axis spans with 0 and the nearest row, with the two nearest ones, ... with all
    spans = []
    low = 0.0
    high = 0.0
    for row_low, row_high in nearest_first:
        low = min(low, row_low)
        high = max(high, row_high)
        spans.append((low, high))

    # the longest of them on which intervals are still seen
    half_low, half_high = spans[(len(spans) - 1) // 2]
    median_width = float(np.median([high - low for low, high in nearest_first]))
    longest = max(1.5 * (half_high - half_low), SHOWN * median_width)
    left, right = [(low, high) for low, high in spans if high - low <= longest][-1]
    margin = 0.05 * (right - left) or 1.0  # rows that are all equal
    return left - margin, right + margin


def forest(study: Study, form: str = "svg") -> bytes | None:
    """The forest plot: each row's mean difference to the baseline, with its interval.

    It is None where no two complete rows have stored answers.
    """
    cells = plotted_differences(study)
    if not cells:
        return None
    look = looks(study)
    reference = reference_of(study)
    height = row_height(study, list(cells)) * len(cells) + 0.6
    with drawing(NARROW, height, form) as (figure, out):
        axes = figure.subplots()
        left, right = _ends(list(cells.values()))
        axes.set_xlim(left, right)
        for place, (label, cell) in enumerate(cells.items()):
            is_filled = label == TEACHER or cell.verdict in (BETTER, WORSE)
            _draw_difference(axes, place, cell, look[label], is_filled)
        axes.axvline(0, color=GREY, linewidth=0.7)
        # the majority class, where it is near
        if study.majority is not None and reference in study.mean_intervals:
            distance = study.majority - (study.mean_intervals[reference].value or 0.0)
            if left < distance < right:
                axes.axvline(distance, color=GREY, linewidth=0.7, linestyle=":")
        _name_rows(axes, study, list(cells))
        axes.set_xlabel(text_of(f"difference to {study.called(reference)} (points)", 40))
    return out.getvalue()


def _draw_difference(axes: Any, place: int, cell: TableCell, look: Look, is_filled: bool) -> None:
    """One line of the forest plot: interval, point, arrows for what is off the axis, and number."""
    colour = look.colour
    face = colour if is_filled else "white"
    left, right = axes.get_xlim()
    low = cell.low or 0.0
    value = cell.value or 0.0
    high = cell.high or 0.0
    axes.hlines(place, low, high, color=colour)
    if left <= value <= right:
        axes.plot(value, place, look.shape, color=colour, markersize=5, markerfacecolor=face)

    # an arrow for what lies beyond the axis, as large as the point if that does
    inset = 0.03 * (right - left)
    if low < left or value < left:
        size = 5 if value < left else 3
        axes.plot(left + inset, place, "<", color=colour, markersize=size, markerfacecolor=face)
    if high > right or value > right:
        size = 5 if value > right else 3
        axes.plot(right - inset, place, ">", color=colour, markersize=size, markerfacecolor=face)

    axes.annotate(
        number(cell.value, "+.1f", low=cell.low, high=cell.high).text,
        (1.03, place),
        xycoords=axes.get_yaxis_transform(),
        va="center",
        annotation_clip=False,
    )


MOST_PANELS = 8
"""At most so many panels show settings, or learning curves where no row is complete."""


# ---- score against cost


class Point(NamedTuple):
    """One row: its cost, its mean score in percent, and whether a row that costs no more is better.

    Attributes:
        cost: in the unit of the axis.
        low, high: the interval of the mean score.
        is_beaten: whether another row costs as little or less, and the 95 % interval of its mean
            difference to this one is above 0.
        fewer_seeds: whether it has fewer seeds than other rows. Such a row beats none.
    """

    label: str
    cost: float
    value: float
    low: float | None
    high: float | None
    is_beaten: bool
    fewer_seeds: bool


def _rows_of_few_seeds(study: Study) -> set[str]:
    """The rows that lack seeds in a column of the mean."""
    few = set()
    for label in study.mean_intervals:
        if any(study.lacks_seeds(label, column) for column in study.averaged):
            few.add(label)
    return few


def _is_better(study: Study, row: str, other: str) -> bool:
    """Whether the interval of two rows' mean difference is above 0; never without verdicts."""
    if study.no_verdict:
        return False
    pair = study.pairs.get((row, other))
    return pair is not None and (pair.low or 0.0) > 0


def points(
    study: Study, costs: Mapping[str, float], shown: Collection[str] | None = None
) -> list[Point]:
    """The complete rows that have a cost, the best mean first.

    Args:
        shown: only these of them; each is compared with all complete rows.
    """
    few = _rows_of_few_seeds(study)
    means = {label: cell for label, cell in study.mean_intervals.items() if label in costs}
    highest_first = sorted(means, key=lambda label: -(means[label].value or 0.0))
    judged = []
    for label, mean in means.items():
        if shown is not None and label not in shown:
            continue
        value = mean.value or 0.0
        higher = [row for row in highest_first if (means[row].value or 0.0) > value]
        rivals = [row for row in higher if row not in few and costs[row] <= costs[label]]
        is_beaten = any(_is_better(study, row, label) for row in rivals)
        judged.append(
            Point(label, costs[label], value, mean.low, mean.high, is_beaten, label in few)
        )
    return sorted(judged, key=lambda point: (-point.value, point.label))


def flops_of(study: Study) -> dict[str, float]:
    """Row -> FLOPs of one sequence of 128 tokens, in G.

    Rows in 8 bits are left out: they need as many operations as in fp32, and each costs less.
    """
    flops = {}
    for label in study.systems:
        counts = [
            record.sizes.flops
            for record in study.records_of(label)
            if record.sizes and record.point not in POINTS_IN_8_BITS
        ]
        if counts:
            flops[label] = min(counts) / 1e9
    return flops


def files_of(study: Study) -> dict[str, float]:
    """Row -> megabytes of its file; nothing where all models have the same number of bits.

    There, parameters and FLOPs say as much.
    """
    if not study.has_small_files:
        return {}
    megabytes = {}
    for label in study.systems:
        sizes = [record.sizes.megabytes for record in study.records_of(label) if record.sizes]
        if sizes:
            megabytes[label] = min(sizes)
    return megabytes


def front(shown: Sequence[Point]) -> list[Point]:
    """The points of which none that costs no more scores higher, the cheapest first."""
    best: list[Point] = []
    for point in sorted(shown, key=lambda point: (point.cost, -point.value)):
        if not best or point.value > best[-1].value:
            best.append(point)
    return best


APART = 0.014
"""Two rows of one cost are drawn so far apart, as a share of the axis."""


def scatter(study: Study, costs: Mapping[str, float], form: str, axis: str) -> bytes | None:
    """One point a row with its interval, and the front of those that no cheaper row surpasses.

    Rows of one cost are side by side. It is None for fewer than two rows.

    Args:
        costs: row -> its cost.
        axis: what the axis of the costs is called.
    """
    shown = points(study, costs, set(systems_in(study)))
    if len(shown) < 2:
        return None
    look = looks(study)
    least = min(point.cost for point in shown)
    most = max(point.cost for point in shown)
    span = max(most / least, 1.5)

    # the legend has two columns of names, below the picture
    names = [_name_and_score(study, point) for point in shown]
    lines = [name.count("\n") + 1 for name in names]
    half = (len(shown) + 1) // 2
    legend_lines = max(sum(lines[:half]), sum(lines[half:]))

    with drawing(NARROW, 2.3 + 0.13 * legend_lines, form) as (figure, out):
        axes = figure.subplots()
        if not study.no_verdict:
            _draw_front(axes, front(shown), right_end=most * span**0.08)
        for point, name in zip(shown, names, strict=True):
            _draw_point(axes, point, _beside_alike(point, shown, span), look[point.label], name)
        _scale_costs(axes, least, most, span)
        # the majority class, where it is near
        lowest = min(point.low or point.value for point in shown)
        if study.majority is not None and study.majority > lowest - 2:
            axes.axhline(study.majority, color=GREY, linewidth=0.7, linestyle=":")
        axes.set_xlabel(axis)
        axes.set_ylabel(f"mean score, {counted(len(study.averaged), 'column')} (%)")
        figure.legend(
            loc="outside lower center",
            ncols=2,
            handletextpad=0.2,
            columnspacing=1.0,
            labelspacing=0.35,
        )
    return out.getvalue()


def _name_and_score(study: Study, point: Point) -> str:
    """The words of a point in the legend."""
    few = " (fewer seeds)" if point.fewer_seeds else ""
    return f"{text_of(study.called(point.label), 22)} {point.value:.1f}{few}"


def _draw_front(axes: Any, best: Sequence[Point], right_end: float) -> None:
    """A staircase through the points of the front, and to the right end of the axis."""
    edges = [*(point.cost for point in best), right_end]
    values = [*(point.value for point in best), best[-1].value]
    axes.step(edges, values, where="post", color=PALE, linewidth=1.0, zorder=1)


def _beside_alike(point: Point, shown: Sequence[Point], span: float) -> float:
    """Where a point stands on the axis of costs: rows of one cost are side by side around it.

    Args:
        span: the highest cost of the axis divided by the lowest.
    """
    alike = [other.label for other in shown if abs(other.cost / point.cost - 1) < 0.01]
    gaps = [abs(math.log(other.cost / point.cost)) for other in shown if other.label not in alike]
    # a row never passes one of another cost
    room = 0.8 * min(gaps, default=math.inf) / math.log(span) / len(alike)
    step = min(APART * 2, room)
    steps_to_the_right = alike.index(point.label) - (len(alike) - 1) / 2
    return point.cost * span ** (step * steps_to_the_right)


def _draw_point(axes: Any, point: Point, x: float, look: Look, name: str) -> None:
    """A point with its interval; it is hollow where it is beaten."""
    if point.low is not None:
        axes.vlines(x, point.low, point.high, color=look.colour, alpha=0.4, linewidth=0.9)
    axes.plot(
        x,
        point.value,
        look.shape,
        color=look.colour,
        markersize=5.5,
        markerfacecolor="white" if point.is_beaten else look.colour,
        linestyle="",
        label=name,
    )


def _scale_costs(axes: Any, least: float, most: float, span: float) -> None:
    """A logarithmic axis of costs, with ticks at round numbers."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    axes.set_xscale("log")
    axes.set_xlim(least / span**0.1, most * span**0.1)
    # over less than a decade a logarithmic axis would have one tick or none
    is_short = span < 8
    locator = MaxNLocator(5, steps=[1, 2, 5, 10]) if is_short else LogLocator(subs=(1, 2, 5))
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:g}")


# ---- score by one setting


def setting_curves(study: Study, form: str = "svg") -> bytes | None:
    """A panel for each setting of which several values stand in the table.

    It shows the mean difference to the method as it is, with its interval. None: there is no such
    setting.
    """
    shown = sweeps(study)[:MOST_PANELS]
    if not shown:
        return None
    look = looks(study)
    grid = _grid(len(shown))
    with drawing(grid.width, 1.5 * grid.down + 0.25, form) as (figure, out):
        for axes, sweep in zip(_panels(figure, grid, len(shown), sharey=True), shown, strict=True):
            _draw_sweep(axes, study, sweep, look[sweep.reference])
            _scale_sweep(axes, sweep, grid)
            axes.set_xlabel(text_of(sweep.setting))
            width = 30 if grid.across < 3 else 22
            title = text_of(study.called(sweep.reference), width)
            axes.set_title(title, color=look[sweep.reference].colour, **PANEL_TITLE)
        figure.supylabel("mean difference (points)", fontsize=7)
    return out.getvalue()


def _draw_sweep(axes: Any, study: Study, sweep: Sweep, look: Look) -> None:
    """The rows of a sweep: points with intervals, the row they are compared with filled."""
    for place, row in enumerate(sweep.rows.values()):
        is_reference = row == sweep.reference
        # the reference has no difference to itself
        cell = study.pairs.get((row, sweep.reference), number(0.0, low=0.0, high=0.0))
        axes.vlines(place, cell.low or 0.0, cell.high or 0.0, color=look.colour, alpha=0.5)
        axes.plot(
            place,
            cell.value or 0.0,
            look.shape,
            color=look.colour,
            markersize=5,
            markerfacecolor=look.colour if is_reference else "white",
        )
    axes.axhline(0, color=GREY, linewidth=0.7)


def _scale_sweep(axes: Any, sweep: Sweep, grid: Grid) -> None:
    """An axis with the values side by side: they may be 0, or powers of ten."""
    values = list(sweep.rows)
    has_small = any(0 < abs(value) < 1e-3 for value in values)
    texts = [_short(value) if has_small else f"{value:g}" for value in values]
    characters = sum(len(text) + 1 for text in texts)
    room = (88 if grid.across > 2 else 44) // grid.across
    axes.set_xticks(range(len(values)), texts, rotation=45 if characters > room else 0)
    axes.set_xlim(-0.5, len(values) - 0.5)
    axes.grid(visible=False, axis="x")


def _short(value: float) -> str:
    """``1.5e-4``"""
    if not value:
        return "0"
    digits, _, power = f"{value:.2e}".partition("e")
    return f"{float(digits):g}e{int(power)}"


# ---- the map of retention

NARROW_TITLES = 22
"""Characters above the columns of a map in a column of a paper: longer titles overprint."""
WIDE_TITLES = 84
"""Characters above the columns of a map over a page of a paper."""


@dataclass(frozen=True)
class RetentionMap:
    """What the map of retention shows.

    Attributes:
        cells: row -> a cell for each column of the map; the best row first.
        titles: of each column.
    """

    cells: Mapping[str, Sequence[TableCell]]
    titles: Sequence[str]


def _to_map(study: Study) -> RetentionMap | None:
    """The rows and columns of the map of retention; None where it would say nothing."""
    # of one column the forest plot says the same
    if len(study.columns) < 2:
        return None
    systems = systems_in(study)
    rows = {label: row for label, row in study.retained.items() if label in systems}
    titles = [column.title.partition(" (")[0] for column in scored_by_teacher(study)]
    cells = {label: list(row.scores.values()) for label, row in rows.items()}
    # the best first: by the mean, which is the map's first column, or by the column of all means
    if len(study.averaged) > 1:
        titles = ["mean", *titles]
        cells = {label: [row.mean, *cells[label]] for label, row in rows.items()}
        first = {label: row.mean for label, row in rows.items()}
    else:
        first = {label: row.scores[study.averaged[0]] for label, row in rows.items()}
    in_order = sorted(rows, key=lambda label: -(first[label].value or 0.0))
    has_numbers = any(cell.value is not None for own in cells.values() for cell in own)
    # a row is left blank where it lacks a column
    return (
        RetentionMap({label: cells[label] for label in in_order}, titles) if has_numbers else None
    )


def retention_map(study: Study, form: str = "svg") -> bytes | None:
    """The retention of each system, by column; the colours part at 100."""
    shown = _to_map(study)
    if shown is None:
        return None
    cells = list(shown.cells.values())
    values = np.array([list(map(_or_nan, line)) for line in cells])
    reach = min(30.0, max(5.0, float(np.nanmax(np.abs(values - 100)))))
    labels = list(shown.cells)

    # titles as wide as a column of the paper's lets them be, or of its page
    columns = len(shown.titles)
    is_narrow = max(map(len, shown.titles)) <= NARROW_TITLES // columns
    room = (NARROW_TITLES if is_narrow else WIDE_TITLES) // columns
    titles = [text_of(title, max(2, min(12, room))) for title in shown.titles]

    height = row_height(study, labels) * len(labels) + 0.75
    with drawing(NARROW if is_narrow else WIDE, height, form) as (figure, out):
        axes = figure.subplots()
        image = axes.imshow(values, cmap="PuOr", vmin=100 - reach, vmax=100 + reach, aspect="auto")
        for row, line in enumerate(cells):
            for column, cell in enumerate(line):
                _write_retention(axes, row, column, cell, reach)
        axes.set_xticks(range(columns), titles)
        _name_rows(axes, study, labels)
        axes.set_ylim(len(labels) - 0.5, -0.5)
        axes.grid(visible=False)
        axes.tick_params(length=0)
        axes.xaxis.tick_top()
        axes.spines[:].set_visible(False)
        figure.colorbar(
            image, ax=axes, extend="both", pad=0.02, aspect=12, label="% of the teacher"
        )
    return out.getvalue()


def _or_nan(cell: TableCell) -> float:
    """The value of a cell as numpy has it."""
    return math.nan if cell.value is None else cell.value


def _write_retention(axes: Any, row: int, column: int, cell: TableCell, reach: float) -> None:
    """The number of one cell of the map, with the sign of its verdict; white where it is dark.

    Args:
        reach: the distance to 100 that has the darkest colour.
    """
    if cell.value is None:
        text = DASH
        is_dark = False
    else:
        sign = {KEEPS: " ✓", LOSES: " ✗"}.get(cell.verdict, "")
        text = f"{cell.value:.0f}{sign}"
        is_dark = abs(cell.value - 100) > 0.6 * reach
    axes.text(column, row, text, ha="center", va="center", color="white" if is_dark else "black")


# ---- learning curves

Losses = Mapping[str, Sequence[float]]
"""Name of a loss -> its values over the steps of one stage."""


def learning_curves(study: Study, form: str = "svg") -> bytes | None:
    """A panel for each system with its losses over the training; and one of the scores by epoch.

    It is None where nobody asked for scores by epoch.
    """
    records = _drawn_trainings(study)
    by_epoch = {}
    for label, record in records.items():
        scores = record.usage.get("epochs", {}).get("scores", [])
        if scores:
            by_epoch[label] = scores
    if not by_epoch:
        return None

    look = looks(study)
    count = len(records) + 1
    grid = _grid(count)
    with drawing(grid.width, 1.45 * grid.down + 0.25, form) as (figure, out):
        *of_losses, of_scores = _panels(figure, grid, count)
        for axes, (label, record) in zip(of_losses, records.items(), strict=True):
            _draw_training(axes, study.called(label), record, look[label].colour)
        for label, scores in by_epoch.items():
            of_scores.plot(
                range(1, len(scores) + 1),
                scores,
                look[label].shape,
                color=look[label].colour,
                linestyle="-",
                markersize=3.5,
            )
        of_scores.set_title("development score by epoch (%)", **PANEL_TITLE)
        figure.supxlabel("training, from its first step to its last", fontsize=7)
        figure.supylabel("loss", fontsize=7)
    return out.getvalue()


def _drawn_trainings(study: Study) -> dict[str, Record]:
    """Row -> the record whose losses are drawn: its first one on the task that most rows have.

    Ablations are left out. Methods as they are come before rows with changed settings.
    """
    # the task that most rows have
    rows_of: dict[str, set[str]] = {task: set() for task in study.tasks}
    for record in study.records:
        cell = record.cell
        if record.terms and cell.ablation_of is None and cell.method != TEACHER:
            for task in rows_of.keys() & set(cell.tasks):
                rows_of[task].add(record.row)
    task = max(rows_of, key=lambda task: len(rows_of[task]), default="")

    # each training once: operating points share one
    labels = [label for label in study.systems if label in rows_of.get(task, ())]
    row_of_training: dict[str, str] = {}
    records: dict[str, Record] = {}
    for label in sorted(labels, key=lambda label: ":" in label):
        record = next(record for record in study.records_of(label, task) if record.terms)
        if record.train_key not in row_of_training:
            row_of_training[record.train_key] = label
            records[label] = record

    # the complete rows; where no row is complete, some
    systems = systems_in(study)
    complete = {label: record for label, record in records.items() if label in systems}
    return complete or dict(list(records.items())[:MOST_PANELS])


def _draw_training(axes: Any, name: str, record: Record, colour: str) -> None:
    """One panel: the losses of a training, stage behind stage, with a legend of their names."""
    stages = list(record.terms.values())
    losses = list(dict.fromkeys(loss for stage in stages for loss in stage))
    dashes = {loss: DASHES[number % len(DASHES)] for number, loss in enumerate(losses)}
    _draw_stages(axes, stages, dashes, colour)

    # next to its neighbours, words wrapped
    width = 30 if len(name) <= 30 and " " not in name else 22
    axes.set_title(text_of(name, width), color=colour, **PANEL_TITLE)
    axes.set_xticks([])

    drawn = [_rounded(values) for stage in stages for values in stage.values()]
    positive = [value for values in drawn for value in values if value > 0]
    if not positive:  # a logarithmic axis shows none
        axes.set_yticks([])
        return
    _scale_losses(axes, min(positive) / 1.1, max(positive) * 1.1, len(losses))
    keys = []
    for dash in dashes.values():
        keys += axes.plot([], [], color=colour, linestyle=dash, linewidth=0.9)
    axes.legend(
        keys,
        losses,
        fontsize=6,
        loc="upper right",
        handlelength=3,
        labelspacing=0.15,
        borderpad=0,
    )


def _rounded(losses: Sequence[float]) -> list[float]:
    """Losses with the digits that a picture can show."""
    return [float(f"{loss:.4g}") for loss in losses]


def _draw_stages(
    axes: Any, stages: Sequence[Losses], dashes: Mapping[str, Any], colour: str
) -> None:
    """The curves of all stages behind each other, with a line between two stages."""
    start = 0
    for number_of_stage, stage in enumerate(stages, start=1):
        for loss, values in stage.items():
            axes.plot(
                range(start, start + len(values)),
                [value if value > 0 else math.nan for value in _rounded(values)],
                color=colour,
                linestyle=dashes[loss],
                linewidth=0.9,
            )
        start += max((len(values) for values in stage.values()), default=0)
        if number_of_stage < len(stages):
            axes.axvline(start - 0.5, color=PALE, linewidth=0.7)


def _scale_losses(axes: Any, low: float, high: float, names: int) -> None:
    """A logarithmic axis of losses, with ticks at round numbers and room for the legend above."""
    from matplotlib.ticker import NullLocator

    axes.set_yscale("log")
    # the shorter the axis, the more ticks in a decade
    ratio = high / low
    steps: tuple[int, ...] = (1,)
    if ratio < 30:
        steps = (1, 2, 5)
    if ratio < 5:
        steps = (1, 2, 3, 5, 7)
    ticks = [step * 10.0**power for power in range(-9, 10) for step in steps]
    axes.set_yticks([tick for tick in ticks if low <= tick <= high], minor=False)
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter("{x:g}")
    share_of_names = min(0.55, 0.09 * names)
    axes.set_ylim(low, high * ratio ** (1 / (1 - share_of_names) - 1))


# ---- all of them

FRONT = "The line is the front: nothing that costs no more scores higher."
HOLLOW = (
    "Hollow: another row costs no more and scores higher "
    "(the interval of the difference is above 0)."
)
PICTURES: Mapping[str, tuple[str, str, Callable[[Study, str], bytes | None]]] = {
    "differences": (
        "Mean difference to the baseline",
        "Bars: 95 % intervals. Filled: significant. Diamond: the teacher, not tested. "
        "An arrow: beyond the axis. Dotted: the majority class, where it is near.",
        forest,
    ),
    "score-flops": (
        "Mean score against FLOPs",
        f"Of one sequence of 128 tokens, 2 x MACs, logarithmic scale. {FRONT} "
        f"Bars: 95 % intervals, not adjusted. {HOLLOW} Diamond: the teacher. "
        "Rows of one cost are drawn side by side; rows in 8 bits are left out.",
        lambda study, form: scatter(study, flops_of(study), form, "FLOPs (G)"),
    ),
    "score-latency": (
        "Mean score against measured latency",
        "The same against the median time of a batch ({conditions}).",
        lambda study, form: scatter(
            study, study.speed.latencies, form, if_busy("latency (ms)", study)
        ),
    ),
    "score-file": (
        "Mean score against the size of the file",
        "The same against the megabytes of the saved model.",
        lambda study, form: scatter(study, files_of(study), form, "file (MB)"),
    ),
    "retention": (
        "Retention",
        "The student's score in percent of its teacher's, of rows with all columns. "
        "Violet: above the teacher; orange: below. "
        "✓: the 95 % interval is above the margin; ✗: below.",
        retention_map,
    ),
    "settings": (
        "Mean score by one setting",
        "Rows that differ in one number alone. Points: mean difference to the filled row; "
        "bars: its paired 95 % interval, not adjusted. "
        "Values stand side by side, without a scale.",
        setting_curves,
    ),
    "curves": (
        "Learning curves",
        "The losses of one training of each row, unweighted, on logarithmic scales of their own. "
        "A vertical line parts two stages.",
        learning_curves,
    ),
}
"""Name of the file -> title, caption, and the function that draws it as ``svg`` or ``pdf``.

The function gives None where the records have nothing.
"""
