"""The pictures of a report. The same records give the same bytes. No torch, no clock."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from textwrap import wrap
from typing import Any, NamedTuple

import numpy as np

from bench.record.cell import POINTS_IN_8_BITS, TEACHER
from bench.record.schema import Record
from bench.report.comparison import BETTER, WORSE
from bench.report.escape import flat
from bench.report.retained_scores import KEEPS, LOSES, scored_by_teacher
from bench.report.study import Study as ReportGroup
from bench.report.sweeps import sweeps
from bench.report.table import DASH, TableCell, number
from bench.report.tables.leaderboard import verdicts_of_means
from bench.report.tables.parts import counted, if_busy
from bench.report.verdicts import own_row, reference_of

GREY, PALE = "#444444", "#bbbbbb"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Told apart by people who see colours differently (Okabe and Ito 2008), and by their brightness in print without colour."""
SHAPES = ("o", "s", "^", "v", "P", "X", "*")
"""One more than colours: 42 methods are different, although both begin again."""
DASHES: tuple[Any, ...] = (
    "-",
    (0, (4, 1.5)),
    (0, (1, 1)),
    (0, (6, 1, 1, 1)),
    (0, (3, 1, 1, 1, 1, 1)),
    (0, (8, 3)),
    (0, (1, 3)),
)
"""Of a row's losses, in their order; more than a row has."""
NARROW, WIDE = 3.3, 6.9
"""Inches: a column of a paper, and its page. Text has 7 points."""


def looks(group: ReportGroup) -> dict[str, tuple[str, str]]:
    """Row -> colour and shape: those of its method, so that variants look alike; a grey diamond for the teacher."""
    methods = list(
        dict.fromkeys(group.records_of(label)[0].cell.method for label in group.students)
    )
    style = {m: (COLOURS[i % len(COLOURS)], SHAPES[i % len(SHAPES)]) for i, m in enumerate(methods)}
    return {
        s: (GREY, "D") if s == TEACHER else style[group.records_of(s)[0].cell.method]
        for s in group.systems
    }


MOST_ROWS = 60
"""Of a picture: of more nobody reads one. The tables have all of them."""


def systems_in(group: ReportGroup) -> list[str]:
    """The rows of the pictures, the best mean first.

    They are those of :func:`_systems`, at most :data:`MOST_ROWS`, the teacher among them.
    """
    return _first(_systems(group))


def _systems(group: ReportGroup) -> list[str]:
    """The rows that are complete and no variant of another row, the best mean first.

    They are all complete ones where that leaves one student.
    """
    complete = sorted(
        group.mean_intervals, key=lambda label: (-group.mean_intervals[label].value, label)
    )
    systems = [label for label in complete if label == TEACHER or not own_row(group, label)]
    return systems if len(set(systems) - {TEACHER}) > 1 else complete


def _first(rows: Sequence[str]) -> list[str]:
    """As many rows as a picture shows, the teacher among them wherever it stands."""
    shown = list(rows[:MOST_ROWS])
    if TEACHER in rows[MOST_ROWS:]:
        shown[-1] = TEACHER
    return shown


def left_out_of_pictures(group: ReportGroup) -> str:
    """A sentence for a caption, where a picture has not all rows; "" where it has."""
    count = len(_systems(group))
    if count <= MOST_ROWS:
        return ""
    return f"Of {count} rows the {MOST_ROWS} with the highest means are drawn."


def text_of(text: str, width: int = 24) -> str:
    """Text of others in a picture, in lines of so many characters, three at most: a dollar sign begins no formula."""
    text = flat(text)
    # a long row is cut behind a colon, not within a setting
    if any(len(word) > width for word in text.split()):
        text = text.replace(":", ":\v")
    lines = wrap(text, width, break_on_hyphens=False, replace_whitespace=False) or [""]
    lines = [line.replace("\v", "") for line in lines]
    return "\n".join([*lines[:2], "…" + lines[-1][1:]] if len(lines) > 3 else lines).replace(
        "$", r"\$"
    )


@contextmanager
def drawing(width: float, height: float, form: str) -> Iterator[tuple[Any, io.BytesIO]]:
    """A figure with our look; after the block it is in the buffer, as SVG or PDF: the same figure, the same bytes.

    Args:
        width, height: inches.
    """
    import matplotlib

    matplotlib.use("Agg")
    look: Any = {
        "svg.hashsalt": "bert-bench",
        "svg.fonttype": "none",
        "pdf.fonttype": 42,
        "font.family": "sans-serif",
    }
    look |= {"font.size": 7, "axes.linewidth": 0.6, "lines.linewidth": 1.1, "legend.frameon": False}
    look |= {
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.color": "#eeeeee",
        "axes.axisbelow": True,
    }
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


def row_height(group: ReportGroup, labels: Sequence[str]) -> float:
    """Inches of a row: more where a name takes two lines or three."""
    return (0.21, 0.25, 0.36)[max(text_of(group.called(label)).count("\n") for label in labels)]


def _name_rows(axes: Any, group: ReportGroup, labels: Sequence[str]) -> None:
    """The rows' names at the left, the first at the top."""
    axes.set_yticks(
        range(len(labels)), [text_of(group.called(label)) for label in labels], linespacing=0.9
    )
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")


def plotted_differences(group: ReportGroup) -> dict[str, TableCell]:
    """Row -> the cell of its mean difference to the baseline, with its interval: of the teacher and the complete systems; the largest first."""
    differences = {
        label: cell
        for label, cell in verdicts_of_means(group).items()
        if label in group.mean_intervals
    }
    teacher = group.pairs.get((TEACHER, reference_of(group)))
    if differences and teacher is not None:
        differences[TEACHER] = teacher
    ordered = sorted(differences, key=lambda label: (-(differences[label].value or 0.0), label))
    return {label: differences[label] for label in _first(ordered)}


SHOWN = 6
"""Intervals of median width that stand side by side on the axis of the forest plot: among more nobody sees one."""


def _ends(cells: Sequence[TableCell]) -> tuple[float, float]:
    """Both ends of the axis: 0 and all rows, but those far away are left out where the other intervals would be too short to see.

    The half that is nearer to 0 is always on it.
    """
    near = sorted(
        ((cell.low or 0.0, cell.high or 0.0) for cell in cells),
        key=lambda ends: max(-ends[0], ends[1]),
    )
    spans = [
        (min(0.0, *(low for low, _ in near[:i])), max(0.0, *(high for _, high in near[:i])))
        for i in range(1, len(near) + 1)
    ]
    low, high = spans[(len(near) - 1) // 2]
    most = max(1.5 * (high - low), SHOWN * float(np.median([high - low for low, high in near])))
    low, high = next((low, high) for low, high in reversed(spans) if high - low <= most)
    margin = 0.05 * (high - low) or 1.0  # rows that are all equal
    return low - margin, high + margin


def forest(group: ReportGroup, form: str = "svg") -> bytes | None:
    """The forest plot: each row's mean difference to the baseline, with its interval; None where no two complete rows have stored
    answers.
    """
    cells, look = plotted_differences(group), looks(group)
    if not cells:
        return None
    reference = reference_of(group)
    with drawing(NARROW, row_height(group, list(cells)) * len(cells) + 0.6, form) as (figure, out):
        axes = figure.subplots()
        left, right = _ends(list(cells.values()))
        axes.set_xlim(left, right)
        inset = 0.03 * (right - left)
        for height, (label, cell) in enumerate(cells.items()):
            colour, shape = look[label]
            face = colour if label == TEACHER or cell.verdict in (BETTER, WORSE) else "white"
            low, value, high = cell.low or 0.0, cell.value or 0.0, cell.high or 0.0
            axes.hlines(height, low, high, color=colour)
            if left <= value <= right:
                axes.plot(value, height, shape, color=colour, markersize=5, markerfacecolor=face)
            # for what lies beyond the axis an arrow, as large as the point if that does
            beyond = (
                ("<", left + inset, value < left, low < left),
                (">", right - inset, value > right, high > right),
            )
            for arrow, edge, has_point, has_end in beyond:
                if has_point or has_end:
                    axes.plot(
                        edge,
                        height,
                        arrow,
                        color=colour,
                        markersize=5 if has_point else 3,
                        markerfacecolor=face,
                    )
            text = number(cell.value, "+.1f", low=cell.low, high=cell.high).text
            axes.annotate(
                text,
                (1.03, height),
                xycoords=axes.get_yaxis_transform(),
                va="center",
                annotation_clip=False,
            )
        axes.axvline(0, color=GREY, linewidth=0.7)
        if group.majority is not None and reference in group.mean_intervals:
            distance = group.majority - group.mean_intervals[reference].value
            if left < distance < right:
                axes.axvline(distance, color=GREY, linewidth=0.7, linestyle=":")
        _name_rows(axes, group, list(cells))
        axes.set_xlabel(text_of(f"difference to {group.called(reference)} (points)", 40))
    return out.getvalue()


MOST_PANELS = 8
"""Of learning curves, where no row is complete, and of settings."""


class Point(NamedTuple):
    """One row: what it costs, its mean score in percent with its interval, and whether a row that costs no more is better.

    Attributes:
        cost: in the unit of the axis.
        is_beaten: another row costs as little or less, and the 95 % interval of its mean difference to this one is above 0.
        fewer_seeds: than other rows have. Such a row beats none.
    """

    label: str
    cost: float
    value: float
    low: float | None
    high: float | None
    is_beaten: bool
    fewer_seeds: bool


def _rows_of_few_seeds(group: ReportGroup) -> set[str]:
    """The rows that lack seeds in a column of the mean."""
    return {
        label
        for label in group.mean_intervals
        if any(group.lacks_seeds(label, column) for column in group.averaged)
    }


def _is_better(group: ReportGroup, row: str, other: str) -> bool:
    """Whether the interval of the mean difference of two rows is above 0; never without verdicts."""
    if group.no_verdict:
        return False
    pair = group.pairs.get((row, other))
    return pair is not None and (pair.low or 0.0) > 0


def points(
    group: ReportGroup, costs: Mapping[str, float], shown: Collection[str] | None = None
) -> list[Point]:
    """The complete rows that have a cost, the best mean first.

    Args:
        shown: only these of them; each is compared with all complete rows.
    """
    few = _rows_of_few_seeds(group)
    means = {label: cell for label, cell in group.mean_intervals.items() if label in costs}
    highest_first = sorted(means, key=lambda label: -(means[label].value or 0.0))
    judged = []
    for label, mean in means.items():
        if shown is not None and label not in shown:
            continue
        higher = [row for row in highest_first if (means[row].value or 0.0) > (mean.value or 0.0)]
        rivals = [row for row in higher if row not in few and costs[row] <= costs[label]]
        is_beaten = any(_is_better(group, row, label) for row in rivals)
        value = mean.value or 0.0
        judged.append(
            Point(label, costs[label], value, mean.low, mean.high, is_beaten, label in few)
        )
    return sorted(judged, key=lambda point: (-point.value, point.label))


def flops_of(group: ReportGroup) -> dict[str, float]:
    """Row -> FLOPs of one sequence of 128 tokens, in G; without rows in 8 bits, which need as many as in fp32 and cost less."""
    counts = {
        label: [
            record.sizes.flops
            for record in group.records_of(label)
            if record.sizes and record.point not in POINTS_IN_8_BITS
        ]
        for label in group.systems
    }
    return {label: min(own) / 1e9 for label, own in counts.items() if own}


def files_of(group: ReportGroup) -> dict[str, float]:
    """Row -> megabytes of its file, where some model has fewer bits: else parameters and FLOPs say as much."""
    sized = {
        label: [r.sizes.megabytes for r in group.records_of(label) if r.sizes]
        for label in group.systems
    }
    return {label: min(own) for label, own in sized.items() if own} if group.has_small_files else {}


def front(shown: Sequence[Point]) -> list[Point]:
    """The points of which none that costs no more scores higher, the cheapest first."""
    best: list[Point] = []
    for point in sorted(shown, key=lambda point: (point.cost, -point.value)):
        if not best or point.value > best[-1].value:
            best.append(point)
    return best


APART = 0.014
"""Between two rows of one cost: this part of the axis."""


def scatter(group: ReportGroup, costs: Mapping[str, float], form: str, axis: str) -> bytes | None:
    """One point a row with its interval, and the front of those that no cheaper row surpasses; rows of one cost are side by side."""
    look = looks(group)
    shown = points(group, costs, set(systems_in(group)))
    if len(shown) < 2:
        return None
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    names = [
        f"{text_of(group.called(p.label), 22)} {p.value:.1f}{' (fewer seeds)' * p.fewer_seeds}"
        for p in shown
    ]
    # the legend has two columns
    half, lines = (len(shown) + 1) // 2, [name.count("\n") + 1 for name in names]
    with drawing(NARROW, 2.3 + 0.13 * max(sum(lines[:half]), sum(lines[half:])), form) as (
        figure,
        out,
    ):
        axes = figure.subplots()
        least, most = min(p.cost for p in shown), max(p.cost for p in shown)
        span = max(most / least, 1.5)
        best = front(shown)
        edges, values = (
            [*(p.cost for p in best), most * span**0.08],
            [*(p.value for p in best), best[-1].value],
        )
        if not group.no_verdict:
            axes.step(edges, values, where="post", color=PALE, linewidth=1.0, zorder=1)
        for point, name in zip(shown, names, strict=True):
            alike = [p.label for p in shown if abs(p.cost / point.cost - 1) < 0.01]
            gaps = [abs(math.log(p.cost / point.cost)) for p in shown if p.label not in alike]
            # a row never passes one of another cost
            step = min(APART * 2, 0.8 * min(gaps, default=math.inf) / math.log(span) / len(alike))
            x = point.cost * span ** (step * (alike.index(point.label) - (len(alike) - 1) / 2))
            colour, shape = look[point.label]
            if point.low is not None:
                axes.vlines(x, point.low, point.high, color=colour, alpha=0.4, linewidth=0.9)
            face = "white" if point.is_beaten else colour
            axes.plot(
                x,
                point.value,
                shape,
                color=colour,
                markersize=5.5,
                markerfacecolor=face,
                linestyle="",
                label=name,
            )
        axes.set_xscale("log")
        axes.set_xlim(least / span**0.1, most * span**0.1)
        axes.xaxis.set_major_locator(
            MaxNLocator(5, steps=[1, 2, 5, 10]) if span < 8 else LogLocator(subs=(1, 2, 5))
        )
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter("{x:g}")
        if group.majority is not None and group.majority > min(p.low or p.value for p in shown) - 2:
            axes.axhline(group.majority, color=GREY, linewidth=0.7, linestyle=":")
        axes.set_xlabel(axis)
        axes.set_ylabel(f"mean score, {counted(len(group.averaged), 'column')} (%)")
        figure.legend(
            loc="outside lower center",
            ncols=2,
            handletextpad=0.2,
            columnspacing=1.0,
            labelspacing=0.35,
        )
    return out.getvalue()


def _short(value: float) -> str:
    """``1.5e-4``"""
    digits, _, power = f"{value:.2e}".partition("e")
    return f"{float(digits):g}e{int(power)}" if value else "0"


def setting_curves(group: ReportGroup, form: str = "svg") -> bytes | None:
    """A panel for each setting of which several values stand in the table: mean difference to the method as it is, with its interval."""
    shown = sweeps(group)[:MOST_PANELS]
    if not shown:
        return None
    look, across = looks(group), min(4, len(shown))
    with drawing(WIDE if across > 2 else NARROW, 1.5 * -(-len(shown) // across) + 0.25, form) as (
        figure,
        out,
    ):
        panels = figure.subplots(
            -(-len(shown) // across), across, squeeze=False, sharey=True
        ).flatten()
        for axes in panels[len(shown) :]:
            axes.set_axis_off()
        for axes, sweep in zip(panels, shown, strict=False):
            (colour, shape), reference = look[sweep.reference], sweep.reference
            places = range(len(sweep.rows))  # side by side: values may be 0, or powers of ten
            for place, row in zip(places, sweep.rows.values(), strict=True):
                face = colour if row == reference else "white"
                # the reference has none with itself
                cell = group.pairs.get((row, reference), number(0.0, low=0.0, high=0.0))
                axes.vlines(place, cell.low or 0.0, cell.high or 0.0, color=colour, alpha=0.5)
                axes.plot(
                    place,
                    cell.value or 0.0,
                    shape,
                    color=colour,
                    markersize=5,
                    markerfacecolor=face,
                )
            axes.axhline(0, color=GREY, linewidth=0.7)
            small = any(0 < abs(value) < 1e-3 for value in sweep.rows)
            texts = [_short(value) if small else f"{value:g}" for value in sweep.rows]
            is_crowded = sum(len(text) + 1 for text in texts) > (88 if across > 2 else 44) // across
            axes.set_xticks(places, texts, rotation=45 if is_crowded else 0)
            axes.set_xlim(-0.5, len(places) - 0.5)
            axes.grid(visible=False, axis="x")
            axes.set_xlabel(text_of(sweep.setting))
            axes.set_title(
                text_of(group.called(reference), 30 if across < 3 else 22),
                color=colour,
                fontsize=7,
                loc="left",
                pad=3,
            )
        figure.supylabel("mean difference (points)", fontsize=7)
    return out.getvalue()


NARROW_TITLES, WIDE_TITLES = 22, 84
"""Characters above the columns of a map: of more the titles overprint."""


def retention_map(group: ReportGroup, form: str = "svg") -> bytes | None:
    """The retention of each system, by column; the colours part at 100."""
    labels = [label for label in group.retained if label in systems_in(group)]
    # of one column the forest plot says the same
    if not labels or len(group.columns) < 2:
        return None
    # the mean stands before the columns
    titles = [column.title.partition(" (")[0] for column in scored_by_teacher(group)]
    if len(group.averaged) > 1:
        titles = ["mean", *titles]
    labels.sort(key=lambda label: -_retained_on_average(group, label))
    lines = [_retained(group, label) for label in labels]
    values = np.array(
        [[np.nan if cell.value is None else cell.value for cell in cells] for cells in lines]
    )
    if np.isnan(values).all():
        return None
    most = min(30.0, max(5.0, float(np.nanmax(np.abs(values - 100)))))
    is_narrow = max(map(len, titles)) <= NARROW_TITLES // len(titles)
    height = row_height(group, labels) * len(lines) + 0.75
    with drawing(NARROW if is_narrow else WIDE, height, form) as (figure, out):
        axes = figure.subplots()
        image = axes.imshow(values, cmap="PuOr", vmin=100 - most, vmax=100 + most, aspect="auto")
        for row, cells in enumerate(lines):
            for place, cell in enumerate(cells):
                sign = {KEEPS: " ✓", LOSES: " ✗"}.get(cell.verdict, "")
                text = DASH if cell.value is None else f"{cell.value:.0f}{sign}"
                is_dark = cell.value is not None and abs(cell.value - 100) > 0.6 * most
                axes.text(
                    place,
                    row,
                    text,
                    ha="center",
                    va="center",
                    color="white" if is_dark else "black",
                )
        width = min(12, (NARROW_TITLES if is_narrow else WIDE_TITLES) // len(titles))
        axes.set_xticks(range(len(titles)), [text_of(title, max(2, width)) for title in titles])
        _name_rows(axes, group, labels)
        axes.set_ylim(len(lines) - 0.5, -0.5)
        axes.grid(visible=False)
        axes.tick_params(length=0)
        axes.xaxis.tick_top()
        axes.spines[:].set_visible(False)
        figure.colorbar(
            image, ax=axes, extend="both", pad=0.02, aspect=12, label="% of the teacher"
        )
    return out.getvalue()


def _retained(group: ReportGroup, label: str) -> list[TableCell]:
    """The retention of a row: the mean where there is one, and of each column."""
    row = group.retained[label]
    mean = [row.mean] if len(group.averaged) > 1 else []
    return [*mean, *row.scores.values()]


def _retained_on_average(group: ReportGroup, label: str) -> float:
    """The mean retention of a row, or that of the one column of all means; 0 where it has none."""
    row = group.retained[label]
    cell = row.mean if len(group.averaged) > 1 else row.scores.get(group.averaged[0])
    return (cell.value if cell else None) or 0.0


def learning_curves(group: ReportGroup, form: str = "svg") -> bytes | None:
    """A panel for each system: its losses over the training, named where they end; and one of the scores by epoch.

    On the task that most full rows have: the first record of each training, methods as they are before rows with changed settings.
    """
    trained = [
        r
        for r in group.records
        if r.terms and r.cell.ablation_of is None and r.cell.method != TEACHER
    ]
    rows_of = {
        task: {r.row for r in trained if task in r.cell.tasks} for task in group.tasks if trained
    }
    task = max(rows_of, key=lambda name: len(rows_of[name]), default="")
    curves: dict[str, tuple[str, Record]] = {}  # by the training: operating points share one
    for label in sorted(
        (s for s in group.systems if s in rows_of.get(task, ())), key=lambda label: ":" in label
    ):
        record = next(r for r in group.records_of(label, task) if r.terms)
        curves.setdefault(record.train_key, (label, record))
    systems = systems_in(group)
    rows = {label: record for label, record in curves.values() if label in systems}
    rows = rows or dict([*curves.values()][:MOST_PANELS])

    # only where somebody asked for scores by epoch
    by_epoch = {
        label: own
        for label, r in rows.items()
        if (own := r.usage.get("epochs", {}).get("scores", []))
    }
    if not by_epoch:
        return None
    from matplotlib.ticker import NullLocator

    look = looks(group)
    title = {"fontsize": 7, "loc": "left", "pad": 3}
    count = len(rows) + 1
    across = min(4, count)
    with drawing(WIDE if across > 2 else NARROW, 1.45 * -(-count // across) + 0.25, form) as (
        figure,
        out,
    ):
        panels = figure.subplots(-(-count // across), across, squeeze=False).flatten()
        for axes in panels[count:]:
            axes.set_axis_off()
        for axes, (label, record) in zip(panels, rows.items(), strict=False):
            colour, start = look[label][0], 0
            stages = [
                {name: [float(f"{loss:.4g}") for loss in own] for name, own in terms.items()}
                for terms in record.terms.values()
            ]
            names = list(dict.fromkeys(name for terms in stages for name in terms))
            for stage in stages:
                for name, values in stage.items():
                    shown = [value if value > 0 else np.nan for value in values]
                    dash = DASHES[names.index(name) % len(DASHES)]
                    axes.plot(
                        range(start, start + len(values)),
                        shown,
                        color=colour,
                        linestyle=dash,
                        linewidth=0.9,
                    )
                start += max((len(values) for values in stage.values()), default=0)
                if stage is not stages[-1]:
                    axes.axvline(start - 0.5, color=PALE, linewidth=0.7)
            name = group.called(label)
            # next to its neighbours, words wrapped
            width = 30 if len(name) <= 30 and " " not in name else 22
            axes.set_title(text_of(name, width), color=colour, **title)
            axes.set_xticks([])
            positive = [v for stage in stages for values in stage.values() for v in values if v > 0]
            if not positive:  # a logarithmic axis shows none
                axes.set_yticks([])
                continue
            axes.set_yscale("log")
            low, high = min(positive) / 1.1, max(positive) * 1.1
            steps = (1, 2, 3, 5, 7) if high / low < 5 else (1, 2, 5) if high / low < 30 else (1,)
            ticks = [step * 10.0**power for power in range(-9, 10) for step in steps]
            axes.set_yticks([tick for tick in ticks if low <= tick <= high], minor=False)
            axes.yaxis.set_minor_locator(NullLocator())
            axes.yaxis.set_major_formatter("{x:g}")
            # room for the names
            axes.set_ylim(low, high * (high / low) ** (1 / (1 - min(0.55, 0.09 * len(names))) - 1))
            dashes = [DASHES[i % len(DASHES)] for i in range(len(names))]
            keys = [
                axes.plot([], [], color=colour, linestyle=dash, linewidth=0.9)[0] for dash in dashes
            ]
            axes.legend(
                keys,
                names,
                fontsize=6,
                loc="upper right",
                handlelength=3,
                labelspacing=0.15,
                borderpad=0,
            )
        for label, scores in by_epoch.items():
            axes, (colour, shape) = panels[len(rows)], look[label]
            axes.plot(
                range(1, len(scores) + 1),
                scores,
                shape,
                color=colour,
                linestyle="-",
                markersize=3.5,
            )
            axes.set_title("development score by epoch (%)", **title)
        figure.supxlabel("training, from its first step to its last", fontsize=7)
        figure.supylabel("loss", fontsize=7)
    return out.getvalue()


FRONT = "The line is the front: nothing that costs no more scores higher."
HOLLOW = "Hollow: another row costs no more and scores higher (the interval of the difference is above 0)."
PICTURES: Mapping[str, tuple[str, str, Callable[[ReportGroup, str], bytes | None]]] = {
    "differences": (
        "Mean difference to the baseline",
        "Bars: 95 % intervals. Filled: significant. Diamond: the teacher, not tested. An arrow: beyond the axis. Dotted: the majority "
        "class, where it is near.",
        forest,
    ),
    "score-flops": (
        "Mean score against FLOPs",
        f"Of one sequence of 128 tokens, 2 x MACs, logarithmic scale. {FRONT} "
        f"Bars: 95 % intervals, not adjusted. {HOLLOW} Diamond: the teacher. "
        "Rows of one cost are drawn side by side; rows in 8 bits are left out.",
        lambda group, form: scatter(group, flops_of(group), form, "FLOPs (G)"),
    ),
    "score-latency": (
        "Mean score against measured latency",
        "The same against the median time of a batch ({conditions}).",
        lambda group, form: scatter(
            group, group.speed.latencies, form, if_busy("latency (ms)", group)
        ),
    ),
    "score-file": (
        "Mean score against the size of the file",
        "The same against the megabytes of the saved model.",
        lambda group, form: scatter(group, files_of(group), form, "file (MB)"),
    ),
    "retention": (
        "Retention",
        "The student's score in percent of its teacher's, of rows with all columns. Violet: above the teacher; orange: below. "
        "✓: the 95 % interval is above the margin; ✗: below.",
        retention_map,
    ),
    "settings": (
        "Mean score by one setting",
        "Rows that differ in one number alone. Points: mean difference to the filled row; bars: its paired 95 % interval, not adjusted. "
        "Values stand side by side, without a scale.",
        setting_curves,
    ),
    "curves": (
        "Learning curves",
        "The losses of one training of each row, unweighted, on logarithmic scales of their own. A vertical line parts two stages.",
        learning_curves,
    ),
}
"""Name of the file -> title, caption, and the function that draws it as ``svg`` or ``pdf``: None where the records have nothing."""
