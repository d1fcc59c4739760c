"""The picture of a report: score kept against FLOPs."""

from __future__ import annotations

import io

from bench.plan.cell import TEACHER
from bench.report.tables import Group
from bench.stats.summary import summarise


def score_against_flops(group: Group) -> bytes | None:
    """SVG: one point a system, mean ratio to the teacher over the columns both have; None without a teacher.

    Systems of the same size stand on one vertical: their labels are spread so that none covers another.
    """
    columns = [c for c in group.columns if group.values(TEACHER, c)]
    teacher = {c: summarise(list(group.values(TEACHER, c).values())).mean for c in columns}
    columns = [c for c in columns if teacher[c] > 0]
    points: list[tuple[str, float, float]] = []
    for label in group.systems:
        sized = [r.sizes for r in group.of(label) if r.sizes]
        values = [group.values(label, c) for c in columns]
        if sized and columns and all(values):
            kept = summarise(
                [100 * summarise(list(v.values())).mean / teacher[c] for v, c in zip(values, columns, strict=True)]
            ).mean
            points.append((label, min(s.flops for s in sized) / 1e9, kept))
    if len(points) < 2:
        return None
    import matplotlib

    matplotlib.use("Agg")
    with matplotlib.rc_context(
        {"svg.hashsalt": "bert-bench", "svg.fonttype": "none", "font.size": 9, "font.family": "sans-serif"}
    ):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7.2, max(3.4, 0.27 * len(points) + 1.2)), layout="constrained")
        axes = figure.subplots()
        low, high = min(p[2] for p in points), max(p[2] for p in points)
        gap = max(high - low, 2.0) / 14
        place = float("inf")
        for label, flops, kept in sorted(points, key=lambda p: -p[2]):
            is_teacher = label == TEACHER
            axes.scatter(
                [flops],
                [kept],
                s=36,
                marker="D" if is_teacher else "o",
                color="#444444" if is_teacher else "#1f6fb4",
                zorder=3,
            )
            if is_teacher:
                axes.annotate(label, (flops, kept), xytext=(0, -7), textcoords="offset points", va="top", ha="center")
                continue
            place = min(kept, place - gap)
            axes.annotate(
                f"{label}  {kept:.1f} %",
                (flops, kept),
                xytext=(flops * 1.09, place),
                textcoords="data",
                va="center",
                arrowprops={"arrowstyle": "-", "color": "#bbbbbb", "linewidth": 0.6},
            )
        axes.set_xscale("log")
        largest, smallest = max(p[1] for p in points), min(p[1] for p in points)
        axes.set_xlim(smallest / 1.3, max(largest * 1.3, smallest * 3))
        axes.set_ylim(min(low, place) - gap, max(high, 100) + gap)
        ticks = sorted({round(p[1], 2) for p in points})
        axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
        axes.minorticks_off()
        axes.axhline(100, color="#999999", linewidth=0.8, linestyle="--")
        axes.grid(axis="y", color="#eeeeee")
        axes.set_xlabel("FLOPs of one sequence of 128 tokens (G, 2 x MACs, log scale)")
        axes.set_ylabel(f"score kept (% of the teacher), mean of {len(columns)}")
        axes.set_title(group.title, fontsize=9)
        out = io.BytesIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()
