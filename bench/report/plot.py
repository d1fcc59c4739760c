"""The pictures of a report: score kept against FLOPs and against measured latency, and learning curves."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from textwrap import fill
from typing import Any

from bench.record.cell import TEACHER
from bench.report.escape import flat
from bench.report.groups import Group
from bench.report.tables.parts import counted, sound_teacher
from bench.stats.summary import summarise

GREY, BLUE, LIGHT = "#444444", "#1f6fb4", "#a9c6e0"
PANELS = 21
"""Systems whose learning curves fit into one picture."""


@dataclass(frozen=True)
class Point:
    """One system: what it costs and what it keeps of the teacher's score, in percent."""

    label: str
    cost: float
    kept: float
    fewer_seeds: bool = False
    """than other systems have: drawn, and never on the front"""


LONGEST_LABEL = 44


def short(label: str) -> str:
    """A row's name as a picture can hold it: of a long one the beginning and the end."""
    half = LONGEST_LABEL // 2 - 1
    return label if len(label) <= LONGEST_LABEL else f"{label[:half]}…{label[-half:]}"


def kept_scores(group: Group) -> tuple[dict[str, float], int]:
    """System -> mean of its ratios to the teacher in percent, over the columns of a sound teacher; and how many these are."""
    columns = [c for c in group.columns if sound_teacher(group, c)]
    teacher = {c: summarise(list(group.values(TEACHER, c).values())).mean for c in columns}
    kept: dict[str, float] = {}
    for label in group.systems:
        values = [group.values(label, c) for c in columns]
        if columns and all(values):
            ratios = [100 * summarise(list(v.values())).mean / teacher[c] for v, c in zip(values, columns, strict=True)]
            kept[label] = summarise(ratios).mean
    return kept, len(columns)


def front(points: Sequence[Point]) -> list[Point]:
    """The points that no other one beats: none is at most as costly and keeps more, or cheaper and keeps as much."""
    found = [
        p
        for p in points
        if not p.fewer_seeds
        and not any(
            (q.cost <= p.cost and q.kept > p.kept) or (q.cost < p.cost and q.kept >= p.kept)
            for q in points
            if not q.fewer_seeds
        )
    ]
    return sorted(found, key=lambda p: p.cost)


def score_against_flops(group: Group, form: str = "svg") -> bytes | None:
    """A picture; None without a teacher or with fewer than two points."""
    flops = {
        label: min(sized) / 1e9
        for label in group.systems
        if (sized := [record.sizes.flops for record in group.of(label) if record.sizes])
    }
    return _scatter(group, flops, form, "FLOPs of one sequence of 128 tokens (G, 2 x MACs, log scale)")


def score_against_latency(group: Group, form: str = "svg") -> bytes | None:
    """A picture; None where nothing was timed."""
    if not group.latencies:
        return None
    return _scatter(group, group.latencies, form, f"median latency (ms, log scale): {group.speed_conditions}")


@contextmanager
def _drawing(width: float, height: float, form: str) -> Iterator[tuple[Any, io.BytesIO]]:
    """A figure with our look; after the block it is in the buffer, as SVG or PDF: the same figure, the same bytes."""
    import matplotlib

    matplotlib.use("Agg")
    look: Any = {
        "svg.hashsalt": "bert-bench",
        "svg.fonttype": "none",
        "pdf.fonttype": 42,
        "font.size": 9,
        "font.family": "sans-serif",
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


def drawn(text: str) -> str:
    """Text of others in a picture: a dollar sign begins no formula."""
    return flat(text).replace("$", r"\$")


def _label(point: Point, teacher: float | None) -> str:
    """A student that is not cheaper than its teacher has no percentage."""
    if point.label == TEACHER:
        return point.label
    if teacher is not None and point.cost >= teacher:
        return f"{short(point.label)}  (not cheaper)"
    return f"{short(point.label)}  {point.kept:.1f} %{'  (fewer seeds)' if point.fewer_seeds else ''}"


def spread(heights: Sequence[float], apart: float) -> list[float]:
    """Places for labels in falling order of ``heights``: each as near to its own as a distance between all allows.

    Labels that would touch become a block about the mean of its members' own heights.
    """
    order = sorted(range(len(heights)), key=lambda i: -heights[i])
    blocks: list[list[int]] = []

    def top(block: list[int]) -> float:
        return sum(heights[i] for i in block) / len(block) + apart * (len(block) - 1) / 2

    for index in order:
        blocks.append([index])
        while len(blocks) > 1 and top(blocks[-2]) - apart * len(blocks[-2]) < top(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    places = [0.0] * len(heights)
    for block in blocks:
        for place, index in enumerate(block):
            places[index] = top(block) - apart * place
    return places


def _scatter(group: Group, costs: Mapping[str, float], form: str, axis: str) -> bytes | None:
    """One point a system, its label in a column at the right in the order of the scores; the front joined by a line."""
    kept, columns = kept_scores(group)
    points = sorted(
        (
            Point(
                group.called(label), costs[label], kept[label], any(group.lacks_seeds(label, c) for c in group.columns)
            )
            for label in kept
            if label in costs
        ),
        key=lambda p: -p.kept,
    )
    if len(points) < 2:
        return None
    best = front(points)
    with _drawing(8.2, max(3.4, 0.24 * len(points) + 1.3), form) as (figure, out):
        axes = figure.subplots()
        low, high = min(p.kept for p in points), max(100.0, *(p.kept for p in points))
        apart = max(high - low, 2.0) / max(12.0, 1.1 * len(points))
        places = spread([p.kept for p in points], apart)
        axes.plot([p.cost for p in best], [p.kept for p in best], color=LIGHT, linewidth=1.4, zorder=2, label="front")
        for p, height in zip(points, places, strict=True):
            is_teacher = p.label == TEACHER
            axes.scatter(
                [p.cost],
                [p.kept],
                s=36,
                marker="D" if is_teacher else "o",
                facecolor=GREY if is_teacher else BLUE if p in best else "white",
                edgecolor=GREY if is_teacher else BLUE,
                zorder=3,
            )
            axes.annotate(
                drawn(_label(p, costs.get(TEACHER))),
                (p.cost, p.kept),
                xytext=(1.04, height),
                textcoords=axes.get_yaxis_transform(),
                va="center",
                annotation_clip=False,
                arrowprops={"arrowstyle": "-", "color": "#bbbbbb", "linewidth": 0.6, "relpos": (0, 0.5), "shrinkB": 4},
            )
        smallest, largest = min(p.cost for p in points), max(p.cost for p in points)
        margin = max(largest / smallest, 1.5) ** 0.08
        axes.set_xscale("log")
        axes.set_xlim(smallest / margin, largest * margin)
        axes.set_ylim(min(low, *places) - apart, max(high, *places) + apart)
        ticks: list[float] = []
        for cost in sorted({float(f"{p.cost:.3g}") for p in points}):
            if not ticks or cost > margin * ticks[-1]:
                ticks.append(cost)
        axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
        axes.minorticks_off()
        axes.axhline(100, color="#999999", linewidth=0.8, linestyle="--")
        axes.grid(axis="y", color="#eeeeee")
        axes.set_xlabel(drawn(axis))
        axes.set_ylabel(f"% of the teacher's score,\nmean of {counted(columns, 'column')}")
        hollow = "another is as cheap and keeps more" + ", or it has fewer seeds" * any(p.fewer_seeds for p in points)
        figure.suptitle(f"{fill(drawn(group.title), 96)}\nfilled: on the front; hollow: {hollow}", fontsize=9)
    return out.getvalue()


def learning_curves(group: Group, form: str = "svg") -> bytes | None:
    """A picture: a panel a full row, a line a term, on the task that most rows have and its first seed; stages one after another.

    Where there are more rows than panels, methods as they are go before rows with changed settings.
    """
    trained = [r for r in group.records if r.terms and r.cell.ablation_of is None and r.cell.method != TEACHER]
    if not trained:
        return None
    rows_of = {task: {r.row for r in trained if task in r.cell.tasks} for task in group.tasks}
    task = max(group.tasks, key=lambda name: len(rows_of[name]))
    labels = sorted((label for label in group.systems if label in rows_of[task]), key=lambda label: ":" in label)
    first = {label: next(r for r in group.of(label, task) if r.terms) for label in labels}
    once = {record.train_key: label for label, record in reversed(first.items())}  # operating points share a training
    different = [label for label in labels if label in once.values()]
    records = {label: first[label] for label in different[:PANELS]}
    columns = min(3, len(records))
    rows = math.ceil(len(records) / columns)
    with _drawing(2.9 * columns, 2.3 * rows, form) as (figure, out):
        grid = figure.subplots(rows, columns, squeeze=False)
        panels = [axes for line in grid for axes in line]
        for axes in panels[len(records) :]:
            axes.set_axis_off()
        for axes, (label, record) in zip(panels, records.items(), strict=False):
            start = 0
            for stage, terms in record.terms.items():
                longest = max((len(values) for values in terms.values()), default=0)
                for name, values in terms.items():
                    axes.plot(
                        range(start, start + len(values)), values, linewidth=1.0, label=drawn(f"{name} ({stage})")
                    )
                start += longest
                axes.axvline(start, color="#dddddd", linewidth=0.6)
            if any(value > 0 for terms in record.terms.values() for values in terms.values() for value in values):
                axes.set_yscale("log")
            axes.set_title(drawn(short(group.called(label))), fontsize=8)
            axes.set_xticks([])
            axes.tick_params(which="both", labelsize=6)
            axes.legend(fontsize=5.5, frameon=False)
        seed = next(iter(records.values())).cell.seed
        title = f"unweighted value of each term over training, {drawn(task)}, seed {seed}"
        if len(different) > PANELS:
            title += f"\n{fill(drawn('without ' + ', '.join(different[PANELS:])), 96)}"
        figure.suptitle(title, fontsize=9)
    return out.getvalue()
