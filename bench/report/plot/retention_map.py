"""A heat map of the share of the teacher's score that each row reaches in each column."""

from __future__ import annotations

from textwrap import fill

import numpy as np

from bench.report.plot.look import drawing, escape_mathtext, short
from bench.report.tables.registry import ReportData
from bench.report.tables.retention import KEPT_OF_THE_TEACHER

LOWEST, HIGHEST = 60.0, 110.0
"""Percent at the ends of the scale of colours."""
DARK = 85.0
"""Percent below which the ground is dark, so that the number is white."""


def retention_map(data: ReportData, form: str = "svg") -> bytes | None:
    """A picture; None where fewer than two rows or columns have a share."""
    table = next((table for table in data.tables if table.file == KEPT_OF_THE_TEACHER), None)
    if table is None:
        return None
    titles = {column.title for column in data.group.columns}
    columns = [i for i, column in enumerate(table.columns[1:]) if column.title in titles]
    # rows with a single column say little as a map, and would be most of it
    lines = [line for line in table.lines if sum(line.cells[i].value is not None for i in columns) > 1]
    if len(lines) < 2 or len(columns) < 2:
        return None
    shares = np.array([[line.cells[i].value for i in columns] for line in lines], float)  # NaN where there is none
    with drawing(2.8 + 0.85 * len(columns), 0.24 * len(lines) + 1.5, form) as (figure, out):
        axes = figure.subplots()
        drawn_map = axes.imshow(shares, cmap="cividis", vmin=LOWEST, vmax=HIGHEST, aspect="auto")
        for row, line in enumerate(lines):
            for place, i in enumerate(columns):
                share = shares[row, place]
                text = "–" if np.isnan(share) else f"{share:.0f}{'*' if line.cells[i].verdict == 'keeps' else ''}"
                axes.text(
                    place, row, text, ha="center", va="center", fontsize=8, color="white" if share < DARK else "black"
                )
        axes.set_xticks(
            range(len(columns)), [escape_mathtext(table.columns[1:][i].title.partition(" (")[0]) for i in columns]
        )
        axes.set_yticks(range(len(lines)), [escape_mathtext(short(line.head.text)) for line in lines])
        axes.tick_params(length=0, labelsize=8)
        bar = figure.colorbar(drawn_map, ax=axes, extend="both")
        bar.set_label("% of the teacher's score", fontsize=8)
        figure.suptitle(
            f"{fill(escape_mathtext(data.group.title), 60)}\n*: keeps {100 * data.kept:g} % (whole interval above)",
            fontsize=8,
        )
    return out.getvalue()
