"""The learning curves of each term: a panel for each row, with one colour for each term in all panels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from textwrap import fill
from typing import Any

from bench.record.cell import TEACHER
from bench.record.schema import Record
from bench.report.groups import ReportGroup
from bench.report.plot.look import DASHES, LINES, drawing, escape_mathtext, short
from bench.report.tables.registry import ReportData

PANELS = 21
"""Rows whose learning curves fit into one picture."""


def curves_of(group: ReportGroup) -> tuple[str, dict[str, Record]]:
    """The task that most full rows have, and the first record of each row on it: one row for each training.

    Methods as they are go before rows with changed settings.
    """
    trained = [r for r in group.records if r.terms and r.cell.ablation_of is None and r.cell.method != TEACHER]
    if not trained:
        return "", {}
    rows_of = {task: {r.row for r in trained if task in r.cell.tasks} for task in group.tasks}
    task = max(group.tasks, key=lambda name: len(rows_of[name]))
    labels = sorted((label for label in group.systems if label in rows_of[task]), key=lambda label: ":" in label)
    first = {label: next(r for r in group.of(label, task) if r.terms) for label in labels}
    once = {record.train_key: label for label, record in reversed(first.items())}  # operating points share a training
    return task, {label: record for label, record in first.items() if label in once.values()}


def learning_curves(data: ReportData, form: str = "svg") -> bytes | None:
    """A picture: a panel a full row, a line a term, on the task that most rows have; stages one after another.

    Each row has its first seed. The title names it, or each panel where rows have different ones.
    """
    group = data.group
    task, found = curves_of(group)
    if not found:
        return None
    records, further = dict(list(found.items())[:PANELS]), list(found)[PANELS:]
    looks, seeds = _looks(records.values()), {record.cell.seed for record in records.values()}
    columns = min(3, len(records))
    rows = math.ceil(len(records) / columns)
    with drawing(2.9 * columns, 2.1 * rows + 0.9, form) as (figure, out):
        grid = figure.subplots(rows, columns, squeeze=False)
        panels = [axes for line in grid for axes in line]
        for axes in panels[len(records) :]:
            axes.set_axis_off()
        for axes, (label, record) in zip(panels, records.items(), strict=False):
            _panel(axes, record, looks)
            seed = f", seed {record.cell.seed}" if len(seeds) > 1 else ""
            axes.set_title(escape_mathtext(short(group.called(label))) + seed, fontsize=8)
        names = [figure.axes[0].plot([], [], **look, linewidth=1.4)[0] for look in looks.values()]
        figure.legend(
            names,
            [escape_mathtext(name) for name in looks],
            loc="outside lower center",
            ncols=5,
            fontsize=7,
            frameon=False,
        )
        seed = f", seed {seeds.pop()}" if len(seeds) == 1 else ""
        title = (
            f"Learning curves on {escape_mathtext(task)}{seed}: the unweighted value of each term (vertical) "
            "over the training (horizontal)\na grey line ends a stage"
        )
        if further:
            title += f"\n{fill(escape_mathtext('without ' + ', '.join(map(group.called, further))), 96)}"
        figure.suptitle(title, fontsize=9)
    return out.getvalue()


Looks = Mapping[str, Mapping[str, str]]
"""Term -> its colour and dashes, the same in all panels."""


def _looks(records: Iterable[Record]) -> Looks:
    names = dict.fromkeys(name for record in records for terms in record.terms.values() for name in terms)
    return {
        name: {"color": LINES[i % len(LINES)], "linestyle": DASHES[i % len(DASHES)]} for i, name in enumerate(names)
    }


def _panel(axes: Any, record: Record, looks: Looks) -> None:
    """The terms of one training; the scale is logarithmic where a value is positive."""
    start = 0
    for terms in record.terms.values():
        longest = max((len(values) for values in terms.values()), default=0)
        for name, values in terms.items():
            axes.plot(range(start, start + len(values)), values, linewidth=1.0, **looks[name])
        start += longest
        axes.axvline(start, color="#dddddd", linewidth=0.6)
    if any(value > 0 for terms in record.terms.values() for values in terms.values() for value in values):
        axes.set_yscale("log")
    axes.set_xticks([])
    axes.tick_params(which="both", labelsize=6)
